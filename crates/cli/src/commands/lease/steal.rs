//! `lokt lease steal`: take a lease that is over.

use lokt_worktree::lease::Taking;

use super::take;
use super::wish::Wish;
use crate::report::{Failure, Format, Report};

/// Take a lease that is over, and nothing else
#[derive(clap::Parser)]
#[command(
    after_help = "As `lokt lease acquire`, but a free lease is no answer (3). A living one is never stolen (2): `lokt lease break` ends it \
    for people who know better."
)]
pub(crate) struct Args {
    #[command(flatten)]
    wish: Wish,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    take::run(&args.wish, Taking::Over, format)
}
