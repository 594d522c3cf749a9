//! `lokt ledger init`: make a ledger, if there is none.

use clap::ValueEnum;
use lokt_core::ledger::seq::Style;
use lokt_ledger::{InitOptions, Ledger};
use lokt_sys::error::ErrorKind;
use serde::Serialize;

use super::place::Place;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::clean;

/// Make a ledger, if there is none
#[derive(clap::Parser)]
#[command(
    after_help = "Without --style a directory that the native program made gets a native ledger, any other a documented one. A ledger \
    keeps its style."
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// How files and claims are called
    #[arg(long, value_name = "STYLE", value_enum)]
    style: Option<Naming>,
    /// Let every event carry a digest of those before it
    #[arg(long)]
    chain: bool,
}

/// `--style`
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// `event-000001.json` and `lock_acquired`, `lock_released`, `lock_reaped`
    Documented,
    /// `000001.json` and `nodes_claimed`, `claim_refreshed`, `nodes_released`
    Native,
}

#[derive(Serialize)]
struct Made<'a> {
    status: &'static str,
    path: &'a str,
    style: &'static str,
    chain: bool,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let me = context::caller(None).unwrap_or_else(|_| lokt_sys::machine::identity(String::new(), None));
    let style = args.style.map(|style| match style {
        Naming::Documented => Style::Documented,
        Naming::Native => Style::Native,
    });
    let dir = args.place.dir();
    let (ledger, is_new) =
        Ledger::init(&dir, InitOptions { style, chain: args.chain }, me).map_err(|error| match error.kind() {
            ErrorKind::BadEvent => Failure::usage(error.to_string())
                .hint("a ledger keeps its style; leave out --style, or make another ledger"),
            _ => error.into(),
        })?;
    let settings = ledger.settings();
    let path = ledger.path().to_string_lossy();
    let report = Report::new(Exit::Done);
    let status = if is_new { "created" } else { "exists" };
    Ok(match format {
        Format::Json => {
            report.json(&Made { status, path: &path, style: settings.style.as_str(), chain: settings.chain })
        }
        Format::Text => {
            let what = if is_new { "made" } else { "already there:" };
            let chained = if settings.chain { "chained " } else { "" };
            report.text(format!("{what} {chained}{} ledger {}\n", settings.style.as_str(), clean(&path)))
        }
    })
}
