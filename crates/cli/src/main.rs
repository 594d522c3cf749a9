//! The `lokt` command: arguments in, a report out.
//!
//! `argv[1]` selects the command, and only that command's argument parser is built: building all of them would take longer than the
//! lock. A command returns a [`report::Report`]; it is rendered in one place, as text or JSON, and its exit code ends the process.

mod args;
mod commands;
mod context;
mod exit;
mod members;
mod report;
mod show;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let _program = words.next();
    let words: Vec<_> = words.collect();
    commands::run(&words).print().into()
}
