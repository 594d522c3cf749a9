//! The parts of a root: one type for each kind of operation on it.

use super::FileStore;
use super::seat::Seats;
use super::slot::Records;
use super::tokens::Tokens;
use super::transact::Transactions;

impl FileStore {
    pub(crate) fn records(&self) -> Records<'_> {
        Records { store: self }
    }

    pub(crate) fn seats(&self) -> Seats<'_> {
        Seats { store: self }
    }

    pub(crate) fn tokens(&self) -> Tokens<'_> {
        Tokens { store: self }
    }

    pub(crate) fn transactions(&self) -> Transactions<'_> {
        Transactions { store: self }
    }
}
