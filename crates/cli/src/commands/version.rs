//! `lokt version`.

use serde::Serialize;

use crate::exit::Exit;
use crate::report::{Failure, Format, Report};

/// Show the version
#[derive(clap::Parser)]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Version {
    version: &'static str,
    commit: &'static str,
    built: &'static str,
    protocol_version: i64,
}

#[expect(clippy::unnecessary_wraps, reason = "every command has this shape")]
pub(crate) fn run(_: &Args, format: Format) -> Result<Report, Failure> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("LOKT_COMMIT").unwrap_or("none"),
        built: option_env!("LOKT_BUILT").unwrap_or("unknown"),
        protocol_version: 1,
    };
    let report = Report::new(Exit::Done);
    Ok(match format {
        Format::Json => report.json(&version),
        Format::Text => {
            report.text(format!("lokt {} (commit: {}, built: {})\n", version.version, version.commit, version.built))
        }
    })
}
