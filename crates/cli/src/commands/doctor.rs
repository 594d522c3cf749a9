//! `lokt doctor`: what is wrong with the root, and what to do about it.

use std::path::{Path, PathBuf};
use std::process::Command;

use lokt_named::RootMethod;
use lokt_named::doctor::{Check, Checkup, Doctor, Finding, Status, rival};
use serde::Serialize;

use super::checkup::{self, CheckText, FindingText};
use crate::args::RootArg;
use crate::context::Context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::clean;

/// Look for what is wrong with the root, and say what to do
#[derive(clap::Parser)]
#[command(
    after_help = "With --strict it is the repository with worktrees that this directory is in: leases, what killed commands left behind, \
    clocks, and the audit log."
)]
pub(crate) struct Args {
    /// Examine the repository with worktrees instead
    #[arg(long, conflicts_with = "root")]
    strict: bool,
    /// Repair what is safe to repair, also while others work
    #[arg(long)]
    fix: bool,
    /// Compete in this directory, as standard input says; for lokt's own use
    #[arg(long, hide = true, value_name = "DIR")]
    rival: Option<PathBuf>,
    #[command(flatten)]
    root: RootArg,
}

#[derive(Serialize)]
struct Answer<'a> {
    protocol_version: u32,
    root_method: &'static str,
    root_path: String,
    checks: Vec<CheckJson<'a>>,
    overall: &'static str,
}

#[derive(Serialize)]
struct CheckJson<'a> {
    name: &'a str,
    #[serde(flatten)]
    finding: FindingJson<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<FindingJson<'a>>,
}

#[derive(Serialize)]
struct FindingJson<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fixed: Option<&'a str>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    if let Some(dir) = &args.rival {
        let served = rival(dir);
        return served.map(|()| Report::new(Exit::Done)).map_err(|error| Failure::io(error.to_string(), None));
    }
    if args.strict {
        let report = super::doctor_strict::run(args.fix, format)?;
        return Ok(if args.fix { report.changes() } else { report });
    }
    let context = Context::read(&args.root)?;
    let doctor = Doctor {
        surroundings: &context.surroundings,
        root: &context.root,
        me: &context.me,
        rival: &start_rival,
        fix: args.fix,
    };
    let checkup = doctor.examine();
    let exit = if checkup.overall() == Status::Fail { Exit::Failed } else { Exit::Done };
    let report = Report::new(exit);
    let report = if args.fix { report.changes() } else { report };
    Ok(match format {
        Format::Json => report.json(&answer(&context, &checkup)),
        Format::Text => report.text(text(&context, &checkup)),
    })
}

/// This very program, wherever its file is by now.
pub(super) fn start_rival(dir: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["doctor", "--rival"]).arg(dir);
    command
}

fn answer<'a>(context: &Context, checkup: &'a Checkup) -> Answer<'a> {
    Answer {
        protocol_version: 1,
        root_method: context.root.method.as_str(),
        root_path: context.root.path.to_string_lossy().into_owned(),
        checks: checkup.checks.iter().map(check_json).collect(),
        overall: checkup.overall().as_str(),
    }
}

/// One finding is the check's own; several are summed up and listed.
fn check_json(check: &Check) -> CheckJson<'_> {
    let status = check.status().as_str();
    let (finding, findings) = match check.findings.as_slice() {
        [] => (FindingJson { status, message: None, hint: None, fixed: None }, Vec::new()),
        [one] => (finding_json(one), Vec::new()),
        several => {
            let (repaired, message) = (several.iter().filter(|one| one.fixed().is_some()).count(), several.len());
            let message = match repaired {
                0 => format!("{message} findings"),
                repaired => format!("{message} findings, {repaired} of them fixed"),
            };
            let sum = FindingJson { status, message: Some(message), hint: None, fixed: None };
            (sum, several.iter().map(finding_json).collect())
        }
    };
    CheckJson { name: check.name, finding, findings }
}

fn finding_json(finding: &Finding) -> FindingJson<'_> {
    FindingJson {
        status: finding.status().as_str(),
        message: Some(finding.message.clone()),
        hint: finding.hint.as_deref(),
        fixed: finding.fixed(),
    }
}

fn text(context: &Context, checkup: &Checkup) -> String {
    let path = &context.root.path;
    let base = path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
    let via = match context.root.method {
        RootMethod::Flag => "--root",
        RootMethod::Env => "LOKT_ROOT env",
        RootMethod::Git => "git common dir",
        RootMethod::LoktRepository => "lokt repository",
        RootMethod::Local => ".lokt/ fallback",
    };
    let (base, path) = (clean(&base), clean(&path.to_string_lossy()));
    let head = format!("lokt doctor\n\nRoot: {base} (via {via})\nPath: {path}");
    checkup::text(&head, checkup.overall(), checkup.checks.iter().map(check_text))
}

fn check_text(check: &Check) -> CheckText<'_> {
    let finding = |finding: &Finding| {
        let details = [("hint", finding.hint.as_deref()), ("fixed", finding.fixed())].into_iter();
        FindingText {
            message: clean(&finding.message),
            details: details.filter_map(|(what, words)| Some((what, words?.to_owned()))).collect(),
        }
    };
    CheckText {
        label: label(check.name),
        status: check.status(),
        fixed: check.findings.iter().any(|finding| finding.fixed().is_some()),
        findings: check.findings.iter().map(finding).collect(),
    }
}

/// What a check is called in text; the old ones as they always were.
fn label(name: &str) -> &str {
    match name {
        "writable" => "Directory writable",
        "file_system" => "File system",
        "overlay" => "Overlay",
        "namespaces" => "Namespaces",
        "clock" => "Clock sanity",
        "second_root" => "One root",
        "permissions" => "Permissions",
        "mutex" => "Mutex",
        "records" => "Lock records",
        "freezes" => "Freezes",
        "endless" => "Holds that end",
        "pulses" => "Nothing left behind",
        "tokens" => "Token counter",
        "audit" => "Audit log",
        name => name,
    }
}
