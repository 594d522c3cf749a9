//! The parts of a worktree: one type for each operation on its lease or its files.

use super::Worktree;
use super::chain::Chain;
use super::commit::Writer;
use super::end::Ender;
use super::fences::Fences;
use super::log::LeaseLog;
use super::publish::Publisher;
use super::scene::Observer;
use super::settle::SnapshotState;
use super::sight::Sightings;
use super::snapshot_links::SnapshotLinks;
use super::staging::Staging;
use super::take::Acquirer;
use super::view::Views;
use super::waiting::Waiter;
use crate::snapshot::create::SnapshotTaker;
use crate::snapshot::restore::Restorer;
use crate::snapshot::swap::TreeSwap;
use crate::snapshot::worked_in::WorkingFiles;

impl Worktree {
    pub(crate) fn chain(&self) -> Chain<'_> {
        Chain { repo: &self.repo, name: &self.name }
    }

    pub(crate) fn fences(&self) -> Fences<'_> {
        Fences { repo: &self.repo, name: &self.name }
    }

    pub(crate) fn log(&self) -> LeaseLog<'_> {
        LeaseLog { repo: &self.repo, name: &self.name }
    }

    pub(crate) fn sightings(&self) -> Sightings<'_> {
        Sightings { repo: &self.repo, name: &self.name }
    }

    pub(crate) fn staging(&self) -> Staging<'_> {
        Staging { repo: &self.repo, name: &self.name }
    }

    pub(crate) fn views(&self) -> Views<'_> {
        Views { repo: &self.repo, name: &self.name }
    }

    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer { worktree: self }
    }

    pub(crate) fn publisher(&self) -> Publisher<'_> {
        Publisher { worktree: self }
    }

    pub(crate) fn observer(&self) -> Observer<'_> {
        Observer { worktree: self }
    }

    pub(crate) fn snapshot_state(&self) -> SnapshotState<'_> {
        SnapshotState { worktree: self }
    }

    pub(crate) fn snapshot_links(&self) -> SnapshotLinks<'_> {
        SnapshotLinks { worktree: self }
    }

    pub(crate) fn waiter(&self) -> Waiter<'_> {
        Waiter { worktree: self }
    }

    pub(crate) fn snapshot_taker(&self) -> SnapshotTaker<'_> {
        SnapshotTaker { worktree: self }
    }

    pub(crate) fn working_files(&self) -> WorkingFiles<'_> {
        WorkingFiles { worktree: self }
    }

    pub(crate) fn tree_swap(&self) -> TreeSwap<'_> {
        TreeSwap { worktree: self }
    }

    pub(crate) fn restorer(&self) -> Restorer<'_> {
        Restorer { worktree: self }
    }

    pub(crate) fn acquirer(&self) -> Acquirer<'_> {
        Acquirer { worktree: self }
    }

    pub(crate) fn ender(&self) -> Ender<'_> {
        Ender { worktree: self }
    }
}
