//! The machine that this command runs on: the one place of the command that names it.

use std::io;

use lokt_core::time::Moment;
use lokt_sys::machine::{Linux, Machine as _};

/// One reading of all clocks.
pub(crate) fn now() -> Moment {
    Linux.now()
}

/// 128 random bits.
pub(crate) fn random() -> io::Result<u128> {
    Linux.random()
}
