//! The texts of `prime`. Every command in them can be typed as it stands.

use std::fmt::Write as _;

use lokt_core::hold::Identity;

use super::escape::{cell, code, plain_or_code, shell_word, short, yaml};
use super::scripts::Operation;
use super::status::{Standing, bullets};

const PURPOSE: &str = "Several agents and people work on this project at the same time. lokt keeps them from running the same \
    operation at once: whoever wants to run it takes its lock, and the others wait or are told who has it.";

/// Windsurf reads no more.
const FEW_CHARS_MAX: usize = 2000;

/// For the context of an agent that is about to work: with who it is, and what is held.
pub(super) fn briefing(operations: &[Operation], me: &Identity, named_owner: bool, locks: &[Standing]) -> String {
    let you = format!("{}@{}", short(&me.owner), short(&me.host));
    format!(
        "# lokt: working beside others\n\n{PURPOSE}\n\n\
         ## Guarded Operations\n\n{}\n## When a lock is held by another\n\n{}\n## Diagnostics\n\n{}\n\
         ## Your Identity\n\nYou are: {} (agent {}){}\n\n{}\n## Current Status\n\n{}",
        table(operations),
        list(&rules(operations)),
        list(&diagnostics(operations)),
        plain_or_code(&you),
        plain_or_code(&short(&me.agent_id)),
        if named_owner { "" } else { "; `LOKT_OWNER` is not set" },
        identity(operations),
        bullets(locks),
    )
}

/// A section for a file of rules in Markdown.
pub(super) fn section(operations: &[Operation]) -> String {
    format!(
        "## lokt: working beside others\n\n{PURPOSE}\n\n{}\n### Rules\n\n{}\n### Diagnostics\n\n{}\n{}",
        table(operations),
        list(&rules(operations)),
        list(&diagnostics(operations)),
        identity(operations),
    )
}

/// Commands to the agent.
pub(super) fn imperatives(operations: &[Operation]) -> String {
    let mut lines: Vec<String> = operations.iter().map(|it| format!("ALWAYS {}", instead(it))).collect();
    if lines.is_empty() {
        lines.push(format!("ALWAYS run what must not run twice at once under a lock: {}", code(&waiting(operations))));
    }
    lines.extend(rules(operations));
    lines.extend(diagnostics(operations));
    format!("# lokt\n\n{PURPOSE}\n\n{}- {}", list(&lines), identity(operations))
}

/// The least, and never too much.
pub(super) fn few_lines(operations: &[Operation]) -> String {
    let mut text = String::from("# lokt: only one at a time\n\n");
    let rest = format!(
        "- Exit code 2: it did not run, because another holds the lock or it is frozen. Never run it without the lock. Wait in line: {}\n\
         - Exit code 79: the lock was lost meanwhile. Check the result and run it again.\n\
         - Who holds what: `lokt status`. Why not me: {}\n\
         - Set LOKT_OWNER to a name of your own, other than every other agent's.\n",
        code(&waiting(operations)),
        code(&format!("lokt why {}", sample(operations).0)),
    );
    for operation in operations {
        let line = format!("- {}\n", instead(operation));
        if text.chars().count() + line.chars().count() + rest.chars().count() >= FEW_CHARS_MAX {
            break;
        }
        text.push_str(&line);
    }
    text + &rest
}

/// Markdown after a front matter in YAML.
pub(super) fn with_front_matter(operations: &[Operation]) -> String {
    let description = yaml("Which operations of this project run under a lock, and what to do when it is held");
    format!("---\ndescription: {description}\n---\n\n{}", section(operations))
}

/// A configuration in YAML.
pub(super) fn aider(operations: &[Operation]) -> String {
    let about = |words: &[&str]| {
        operations.iter().find(|it| words.iter().any(|word| it.name.to_ascii_lowercase().contains(word)))
    };
    let settings = [("lint-cmd", about(&["lint", "fmt"])), ("test-cmd", about(&["test"]))];
    let mut text = String::from("# lokt: these run under a lock, so that no two agents run them at once.\n");
    for (key, operation) in settings {
        if let Some(operation) = operation {
            let _ = writeln!(text, "{key}: {}", yaml(&operation.script));
        }
    }
    let is_set = |it: &&Operation| settings.iter().any(|(_, set)| set.is_some_and(|set| set == *it));
    for operation in operations.iter().filter(|it| !is_set(it)) {
        let _ = writeln!(text, "# {}: {}", operation.name, operation.script);
    }
    if operations.is_empty() {
        let _ = writeln!(text, "# For example: {}", waiting(operations));
    }
    text.push_str("# Exit code 2 and the line `lokt: not run`: another holds the lock; `lokt status` says who, --wait waits in line for it.\n");
    text
}

fn table(operations: &[Operation]) -> String {
    if operations.is_empty() {
        return "Run what must not run twice at once under a lock:\n\n```sh\nlokt guard build --ttl 5m --wait -- make\n\
                lokt guard test --wait -- sh -c 'make && make test'\n```\n"
            .to_owned();
    }
    let mut table = String::from(
        "Run these from the top of the project.\n\n| operation | use this | NOT this |\n| --- | --- | --- |\n",
    );
    for Operation { name, script, command } in operations {
        let _ = writeln!(table, "| {} | {} | {} |", plain_or_code(name), cell(script), cell(command));
    }
    table
}

/// `build: use this, not that`
fn instead(operation: &Operation) -> String {
    format!("{}: use {}, not {}", plain_or_code(&operation.name), code(&operation.script), code(&operation.command))
}

fn rules(operations: &[Operation]) -> Vec<String> {
    let (name, command) = sample(operations);
    let two = format!("lokt guard {name} --wait -- sh -c {}", shell_word(&format!("{command} && echo done")));
    vec![
        "Exit code 2, and `lokt: not run` is the last line on stderr: it did not run. Another holds the lock, the operation is frozen, or others are first in line; stderr says who, \
         since when and until when. Never run the operation without its lock, and never remove another's lock by force. Without that line the 2 \
         is the command's own; `-E 99` makes a refusal exit with 99."
            .to_owned(),
        format!(
            "To wait in line: {} waits for at most 10 minutes, `--timeout 2m` instead of `--wait` for at most 2. A guard inside a guard \
             of the same name runs at once, so this works with the scripts too.",
            code(&waiting(operations))
        ),
        format!("Two commands under one lock need a shell: {}", code(&two)),
        "Frozen: somebody stopped this operation on purpose. Wait for the end of the freeze, or ask who froze it; don't work around it."
            .to_owned(),
        "Exit code 79: the lock was lost while the command ran, and another may have run meanwhile. Check the result and run it again. \
         1, 64, 65, 69 and 75 can be lokt's own, too, and then nothing ran: stderr says so, and 75 means that trying again helps. \
         Any other code is the command's."
            .to_owned(),
        "The command finds its fencing token in `$LOKT_FENCING_TOKEN`. It grows with every hold: whatever is written to can refuse a \
         smaller one than it has seen."
            .to_owned(),
    ]
}

fn diagnostics(operations: &[Operation]) -> Vec<String> {
    let (name, _) = sample(operations);
    vec![
        "`lokt status`: who holds what, since when and until when, and what is frozen".to_owned(),
        format!("{}: whether you would get the lock, why not, and the next command", code(&format!("lokt why {name}"))),
        format!("{}: who waits for it, in order", code(&format!("lokt queue {name}"))),
        "`lokt help`: everything else; every command takes `--json`".to_owned(),
    ]
}

fn identity(operations: &[Operation]) -> String {
    let lock = code(&format!("lokt lock {}", sample(operations).0));
    format!(
        "Set `LOKT_OWNER` (and `LOKT_AGENT_ID`, which is only shown) to a name of your own before you start, as in `export \
         LOKT_OWNER=agent-1`. Equal owners share what {lock} takes; only different ones keep each other out.\n"
    )
}

/// An operation to show commands with.
fn sample(operations: &[Operation]) -> (&str, &str) {
    operations.first().map_or(("build", "make"), |first| (&first.name, &first.script))
}

/// How to wait for it.
fn waiting(operations: &[Operation]) -> String {
    let (name, command) = sample(operations);
    format!("lokt guard {name} --wait -- {command}")
}

fn list(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "- {line}");
        text
    })
}
