//! Flags of `flock` that people type to `guard`, and what they are called here.

use std::ffi::OsString;

use crate::show::clean;

/// What to type instead of the flags of `flock` among the words before `--`.
pub(super) fn hint(words: &[OsString]) -> Option<String> {
    let mut ours = words.iter().take_while(|word| *word != "--").map(|word| word.to_string_lossy());
    let mut hints = Vec::new();
    while let Some(word) = ours.next() {
        let mut value = |prefix: &str| match word.strip_prefix(prefix).map(|rest| rest.trim_start_matches('=')) {
            None | Some("") => ours.next().map(|next| clean(&next)),
            Some(attached) => Some(clean(attached)),
        };
        let hint = if matches!(&*word, "-n" | "--nb" | "--nonblock") {
            "not waiting is the default, leave out -n".to_owned()
        } else if word.starts_with("-w") {
            let seconds = value("-w").unwrap_or_else(|| "SECONDS".to_owned());
            format!("`--timeout {seconds}` waits in line for at most that long")
        } else if word.starts_with("-c") || word.starts_with("--command") {
            let prefix = if word.starts_with("--") { "--command" } else { "-c" };
            let script = value(prefix).unwrap_or_else(|| "COMMAND".to_owned());
            format!("a shell runs it after two dashes: `-- sh -c {}`", quoted(&script))
        } else if matches!(&*word, "-s" | "--shared") {
            "every lock is exclusive, there are no shared ones".to_owned()
        } else if matches!(&*word, "-x" | "-e" | "--exclusive") {
            format!("every lock is exclusive, leave out {word}")
        } else {
            continue;
        };
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    (!hints.is_empty()).then(|| hints.join("; "))
}

/// One word for a shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
