//! `lokt ledger checkpoint`: one line that stands for all events up to now.

use lokt::Digest;
use lokt::ledger::Checkpoint;
use serde::Serialize;

use super::place::Place;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::report::{Failure, Format, Report};

/// Print a digest of all events, to be kept elsewhere
#[derive(clap::Parser)]
#[command(
    after_help = "`lokt ledger verify --checkpoint N:HEX` says later whether those events are still there and unchanged."
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Answer<'a> {
    checkpoint: &'a str,
    head: u64,
    chain: String,
    path: &'a str,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let ledger = args.place.open()?;
    let mut progress = Progress::new("reading");
    let said = ledger.checkpoint(&mut |done, of| progress.step(done, of))?;
    drop(progress);
    let checkpoint = shown(&said.value);
    let report = Report::new(Exit::Done);
    let report = match format {
        Format::Json => report.json(&Answer {
            checkpoint: &checkpoint,
            head: said.value.head,
            chain: hex(&said.value.chain),
            path: &ledger.path().to_string_lossy(),
        }),
        Format::Text => report.text(format!("{checkpoint}\n")),
    };
    Ok(report.warnings(said.warnings))
}

/// `N:HEX`
pub(super) fn shown(checkpoint: &Checkpoint) -> String {
    format!("{}:{}", checkpoint.head, hex(&checkpoint.chain))
}

fn hex(digest: &Digest) -> String {
    use std::fmt::Write as _;
    digest.0.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// `--checkpoint`
pub(super) fn parse_checkpoint(text: &str) -> Result<Checkpoint, String> {
    let parsed = || {
        let (head, chain) = text.trim().split_once(':')?;
        let head = head.parse().ok()?;
        let mut bytes = [0_u8; 32];
        if chain.len() != 64 || !chain.is_ascii() {
            return None;
        }
        for (byte, place) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&chain[place..place + 2], 16).ok()?;
        }
        Some(Checkpoint { head, chain: Digest(bytes) })
    };
    parsed().ok_or_else(|| {
        "not a checkpoint: a number, a colon and 64 hex digits, as `lokt ledger checkpoint` prints them".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::{parse_checkpoint, shown};

    #[test]
    fn a_checkpoint_is_read_as_it_is_printed() {
        let text = format!("17:{}", "0f".repeat(32));
        assert_eq!(parse_checkpoint(&text).map(|checkpoint| shown(&checkpoint)).as_deref(), Ok(text.as_str()));
        for bad in ["", "17", "17:", ":00", "x:00", &text[..66], &format!("{text}0"), &text.replace('f', "g")] {
            assert!(parse_checkpoint(bad).is_err(), "{bad:?} is none");
        }
    }
}
