//! Named locks and the system beneath them once more, from their own source, with threads that take
//! turns as a scheduler says.
//!
//! `build.rs` puts the modules of `lokt-sys`, `lokt-guard` and `lokt-named` together as one crate. Each
//! of them knows the others by the names of their crates, which all stand for this one here.

extern crate self as lokt_guard;
extern crate self as lokt_named;
extern crate self as lokt_sys;

include!(concat!(env!("OUT_DIR"), "/modules.rs"));
