//! `lokt completions`: scripts that make a shell complete lokt's words. They ask `lokt complete` for candidates, so they need not be
//! made anew when lokt changes, and offer the locks that are held at that moment.

use clap::ValueEnum;
use serde::Serialize;

use crate::exit::Exit;
use crate::report::{Failure, Format, Report};

/// Print a script that completes commands, flags and live lock names
#[derive(clap::Parser)]
#[command(after_help = "\
bash: source <(lokt completions bash), in ~/.bashrc
zsh:  source <(lokt completions zsh), in ~/.zshrc after compinit
fish: lokt completions fish > ~/.config/fish/completions/lokt.fish")]
pub(crate) struct Args {
    /// The shell that is to run it
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(ValueEnum, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Serialize)]
struct Completions {
    shell: Shell,
    script: &'static str,
}

#[expect(clippy::unnecessary_wraps, reason = "every command has this shape")]
pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let script = match args.shell {
        Shell::Bash => include_str!("../completions/lokt.bash"),
        Shell::Zsh => include_str!("../completions/lokt.zsh"),
        Shell::Fish => include_str!("../completions/lokt.fish"),
    };
    let report = Report::new(Exit::Done);
    Ok(match format {
        Format::Json => report.json(&Completions { shell: args.shell, script }),
        Format::Text => report.text(script),
    })
}
