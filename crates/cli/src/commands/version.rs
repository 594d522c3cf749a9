//! `lokt version`.

use serde::Serialize;

use super::Formatted;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};

/// Show the version
#[derive(clap::Parser)]
pub(crate) struct Args {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Formatted for Args {
    fn format(&self) -> Format {
        Format::of(self.json)
    }
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
    commit: &'static str,
    built: &'static str,
    protocol_version: i64,
}

#[expect(clippy::unnecessary_wraps, reason = "every command has this shape")]
pub(crate) fn run(args: &Args) -> Result<Report, Failure> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("LOKT_COMMIT").unwrap_or("none"),
        built: option_env!("LOKT_BUILT").unwrap_or("unknown"),
        protocol_version: 1,
    };
    let report = Report::new(Exit::Done);
    Ok(match args.format() {
        Format::Json => report.json(&version),
        Format::Text => {
            report.text(format!("lokt {} (commit: {}, built: {})\n", version.version, version.commit, version.built))
        }
    })
}
