//! What somebody is told who waits for a claim: one live line on a terminal; elsewhere a line at the start, and one a minute.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use lokt_core::denial::Denial;
use lokt_sys::wait_policy::Waiting;

use super::super::waiting::{CLEAR, fitting, how_long};
use super::holder::{claimant, until};
use crate::machine;
use crate::report::say;
use crate::show::quoted;

/// Off a terminal, how often a wait says that it still waits.
const REMINDER: Duration = Duration::from_secs(60);

/// Shows how a wait stands.
pub(super) struct Display {
    live: bool,
    /// How long it had been waited when something was last said.
    said: Option<Duration>,
}

impl Display {
    pub(super) fn new() -> Self {
        Self { live: stderr().is_terminal(), said: None }
    }

    pub(super) fn show(&mut self, waiting: &Waiting<'_>) {
        if self.live {
            say(&format!("{CLEAR}{}", fitting(&line(waiting))));
        } else if self.said.is_none_or(|at| waiting.waited >= at + REMINDER) {
            say(&format!("{}\n", line(waiting)));
        } else {
            return;
        }
        self.said = Some(waiting.waited);
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if self.live && self.said.is_some() {
            say(CLEAR);
        }
    }
}

fn line(waiting: &Waiting<'_>) -> String {
    let obstacle = match waiting.denial {
        Denial::Held(holder) => format!("claimed by {} {}", claimant(&holder.hold), until(holder, machine::now().wall)),
        denial => denial.code().to_owned(),
    };
    let node = quoted(waiting.name);
    format!("waiting for node {node}: {obstacle}; {}", how_long(waiting))
}
