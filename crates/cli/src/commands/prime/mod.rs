//! `lokt prime`: what an agent should know before it works here, to be put into its context.
//!
//! The operations are found in the project's scripts, the status in the root. Both are hostile input in an agent's context: what is
//! shown of them is one line, short, without control characters, and can't leave the code span or table cell that it is in.

mod escape;
mod scripts;
mod status;
mod texts;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use lokt_named::RootMethod;
use lokt_sys::files::{exists, is_dir, is_file};
use serde::Serialize;

use self::scripts::Operation;
use self::status::Standing;
use crate::args::RootArg;
use crate::context::Context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};

/// Print what an agent should know about the locks of this project
#[derive(clap::Parser)]
#[command(
    after_help = "Without --format it also says who you are and what is held at this moment; the formats are for files that stay."
)]
pub(crate) struct Args {
    /// For which tool's file of rules
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Tool>,
    #[command(flatten)]
    root: RootArg,
}

/// Whose file of rules.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Tool {
    /// A section for CLAUDE.md
    ClaudeMd,
    /// For .cursorrules
    Cursorrules,
    /// For .windsurfrules, below 2000 characters
    Windsurfrules,
    /// For .github/copilot-instructions.md
    Copilot,
    /// For .clinerules
    Clinerules,
    /// For .aider.conf.yml
    Aider,
}

#[derive(Serialize)]
struct Prime<'a> {
    format: Option<Tool>,
    text: &'a str,
    operations: &'a [Operation],
    owner: &'a str,
    agent_id: &'a str,
    host: &'a str,
    locks: &'a [Standing],
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let context = Context::read(&args.root)?;
    let operations = scripts::find(&project(&context));
    // A file that stays says nothing about this moment, so it can be made without a root.
    let live = args.format.is_none() || format == Format::Json;
    let locks = if live { status::look(&context)? } else { Vec::new() };
    let text = match args.format {
        None => texts::briefing(&operations, &context.me, context.named_owner, &locks),
        Some(Tool::ClaudeMd | Tool::Copilot) => texts::section(&operations),
        Some(Tool::Cursorrules) => texts::imperatives(&operations),
        Some(Tool::Windsurfrules) => texts::few_lines(&operations),
        Some(Tool::Clinerules) => texts::with_front_matter(&operations),
        Some(Tool::Aider) => texts::aider(&operations),
    };
    let report = Report::new(Exit::Done);
    Ok(match format {
        Format::Text => report.text(text),
        Format::Json => report.json(&Prime {
            format: args.format,
            text: &text,
            operations: &operations,
            owner: &context.me.owner,
            agent_id: &context.me.agent_id,
            host: &context.me.host,
            locks: &locks,
        }),
    })
}

/// The directory of the project that the root belongs to.
fn project(context: &Context) -> PathBuf {
    let root = &context.root.path;
    let named = |path: &Path, name: &str| path.file_name().is_some_and(|last| last == name);
    let parent = root.parent().unwrap_or(root);
    if context.root.method == RootMethod::LoktRepository {
        return worktree(parent.parent().unwrap_or(parent), &context.surroundings.cwd);
    }
    let is_repository = is_file(&parent.join("HEAD")) && is_dir(&parent.join("objects"));
    if parent.as_os_str().as_encoded_bytes().ends_with(b".git") {
        return parent.parent().unwrap_or(parent).to_owned();
    }
    // The repository of a submodule is called otherwise; its files are elsewhere.
    if (named(root, ".lokt") || named(root, "lokt")) && !is_repository {
        return parent.to_owned();
    }
    let top = context.surroundings.cwd.ancestors().find(|dir| exists(&dir.join(".git")));
    top.unwrap_or(parent).to_owned()
}

/// The worktree of the lokt repository in `top` that `dir` is in, else `top`.
fn worktree(top: &Path, dir: &Path) -> PathBuf {
    let below: Vec<_> = dir.strip_prefix(top).map(|below| below.iter().collect()).unwrap_or_default();
    match below.as_slice() {
        [main, ..] if *main == "main" => top.join(main),
        [worktrees, name, ..] if *worktrees == "worktrees" => top.join(worktrees).join(name),
        _ => top.to_owned(),
    }
}
