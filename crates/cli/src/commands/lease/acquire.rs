//! `lokt lease acquire`: become the one writer of a worktree.

use lokt_worktree::lease::Taking;

use super::take;
use super::wish::Wish;
use crate::report::{Failure, Format, Report};

/// Become the one writer of a worktree, until the lease is over
#[derive(clap::Parser)]
#[command(
    after_help = "A lease that is free or over is granted under a new token, greater than every one before. It is over when nobody has \
    renewed it for --lease, --skew and --grace of its holder together. Whoever has the session file is its holder: the same user with \
    another session is refused.\n\n\
    Nobody can be kept from writing into a directory: what the token guards is `lokt lease fence publish`."
)]
pub(crate) struct Args {
    #[command(flatten)]
    wish: Wish,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    take::run(&args.wish, Taking::FreeOrOver, format)
}
