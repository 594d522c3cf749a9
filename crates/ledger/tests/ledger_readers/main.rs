//! Those who read a ledger, judge it and mend it, on real directories. One program, because all of them do the same to it first.

mod doctor;
mod follow;
mod ledgers;
mod mend_faults;
mod read;
mod verify;
