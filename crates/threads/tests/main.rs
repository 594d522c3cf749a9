//! The threads of the library in very many orders: whoever renews a hold, whoever gives it back, whoever listens for its loss and whoever
//! takes it away.

extern crate lokt_threads as lokt;
extern crate lokt_threads as lokt_sys;

mod explore;
mod holds;
mod losses;
mod pieces;
mod planted;
#[path = "../../testkit/src/tally.rs"]
#[expect(dead_code, unreachable_pub, reason = "it counts more than schedules, for others")]
mod tally;
#[expect(dead_code, unreachable_pub, reason = "it has more than is needed here, for others")]
mod testkit;
mod world;
