//! Worktree leases: as bytes, in time, and in every question that is asked of them.

mod leases {
    pub(crate) mod any;
    mod asks;
    mod log;
    pub(crate) mod one;
    mod records;
    mod slots;
    mod time;
}
