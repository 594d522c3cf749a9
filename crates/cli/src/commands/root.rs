//! `lokt root`: where, and how it was found.

use lokt_named::{RootMethod, RootState};
use serde::Serialize;

use crate::args::RootArg;
use crate::context::Context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::clean;

/// Show the root directory and how it was found
#[derive(clap::Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    root: RootArg,
}

#[derive(Serialize)]
struct Root {
    root_path: String,
    root_method: &'static str,
    exists: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    owner: String,
    agent_id: String,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let context = Context::read(&args.root)?;
    let state = context.root.state();
    let report = Report::new(Exit::Done);
    Ok(match format {
        Format::Json => report.json(&Root {
            root_path: context.root.path.to_string_lossy().into_owned(),
            root_method: context.root.method.as_str(),
            exists: state == RootState::There,
            problem: if let RootState::Unusable(why) = state { Some(why) } else { None },
            owner: context.me.owner,
            agent_id: context.me.agent_id,
        }),
        Format::Text => {
            let how = match context.root.method {
                RootMethod::Flag => "--root",
                RootMethod::Env => "LOKT_ROOT",
                RootMethod::Git => "git common directory",
                RootMethod::LoktRepository => "lokt repository (.jvs)",
                RootMethod::Local => "nearest .lokt, or the current directory",
            };
            let remark = match state {
                RootState::There => String::new(),
                RootState::Missing => " (not there yet; the first lock makes it)".into(),
                RootState::Unusable(why) => format!(" (it can't be used: {})", clean(&why)),
            };
            let me = clean(&context.me.owner);
            report
                .text(format!("{}\n", context.root.path.display()))
                .note(format!("found via: {how}{remark}; you are {me}"))
        }
    })
}
