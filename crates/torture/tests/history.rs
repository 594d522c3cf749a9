//! The judges of histories: one that a working lock made is innocent, and each kind of fault that is planted in it is found.

mod histories;
