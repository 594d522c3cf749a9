//! The `lokt` command: arguments in, a report out.
//!
//! `argv[1]` selects the command, and only that command's argument parser is built: building all of them would take longer than the
//! lock. A command returns a [`report::Report`]; it is rendered in one place, as text or JSON, and its exit code ends the process.
//!
//! The program begins at C's `main`, without the set-up of Rust's runtime. What that sets up and we need is in [`lokt_sys::start`]; the rest
//! (a handler that explains stack overflows, for which it reads the process's memory map) takes as long as taking a lock.
#![cfg_attr(not(test), no_main)]

mod args;
mod commands;
mod context;
mod exit;
mod machine;
mod members;
mod outbox;
mod paint;
mod progress;
mod report;
mod show;
mod stream;
mod table;
mod tree_progress;
mod width;

/// Where the C library's start-up code goes.
#[cfg(not(test))]
#[expect(unsafe_code, reason = "it must have this name to be found; docs/performance.md says what it saves")]
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    i32::from(run())
}

#[cfg(test)]
fn main() {
    run();
}

fn run() -> u8 {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    lokt_sys::start::prepare();
    let exit = commands::run(&words).print();
    if let exit::Exit::Signal(number) = exit {
        lokt_sys::signals::die_of(number.into());
    }
    exit.code()
}
