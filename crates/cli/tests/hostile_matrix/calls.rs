//! Every command, as it is called in this matrix, and its exit code by what it finds.

use crate::common::{Root, Said};

/// One call per row. `NAME` is where a lock's name goes; the caller is the owner `b`.
///
/// The second column says what the call may do: `acts` may change the root, `looks` changes nothing, `tells` doesn't even look at it. Of
/// those that work on a ledger or a repository, and not on the root, `owned` ask for the owner, and `apart` don't; here they find none.
/// The third says what `--json` prints: `one` value, a value per line (`lines`), or nothing but what `own` command prints.
///
/// Then come the exit codes, first by what is found at `locks/NAME.json`, then by what is found at `freezes/NAME.json`: nothing that could
/// be a record; a file that is none; a record of a newer version; a record that counts, of owner `a` on another machine; one that is over.
const TABLE: &str = r#"
guard NAME -- true                    | acts  | own   | 65  0 65  2  0 |  2  2  2  2  0
guard NAME other --ttl 5m -- true     | acts  | own   | 65  0 65  2  0 |  2  2  2  2  0
run other NAME -- true                | acts  | own   | 65  0 65  2  0 |  2  2  2  2  0
lock NAME                             | acts  | one   | 65  0 65  2  0 |  2  2  2  2  0
lock NAME --ttl 5m --reason why       | acts  | one   | 65  0 65  2  0 |  2  2  2  2  0
lock NAME --timeout 20ms              | acts  | one   | 65  0 65  2  0 |  2  2  2  2  0
unlock NAME                           | acts  | one   | 65 65 65  4  4 |  3  3  3  3  3
unlock --force NAME                   | acts  | one   |  0  0  0  0  0 |  3  3  3  3  3
unlock --break-stale NAME             | acts  | one   | 65  0 65  1  0 |  3  3  3  3  3
unlock --all                          | acts  | one   |  0  0  0  0  0 |  0  0  0  0  0
freeze NAME --ttl 5m                  | acts  | one   |  0  0  0  0  0 | 65  2 65  2  0
freeze NAME --drain --timeout 20ms    | acts  | one   | 65  0 65  2  0 | 65  2 65  2  0
unfreeze NAME                         | acts  | one   |  3  3  3  3  3 | 65 65 65  4  3
unfreeze --force NAME                 | acts  | one   |  3  3  3  3  3 |  0  0  0  0  0
fence check NAME --token 1            | looks | one   | 65  6 65  6  6 |  6  6  6  6  6
publish NAME source target --token 1  | acts  | one   | 65  6 65  6  6 |  6  6  6  6  6
status                                | looks | one   |  0  0  0  0  0 |  0  0  0  0  0
status NAME                           | looks | one   | 65 65 65  0  0 |  3  3  3  3  3
status --prune-expired                | acts  | one   |  0  0  0  0  0 |  0  0  0  0  0
queue NAME                            | looks | one   |  0  0  0  0  0 |  0  0  0  0  0
exists NAME                           | looks | one   | 65  3 65  0  3 |  3  3  3  3  3
why NAME                              | looks | one   | 65  0 65  2  0 |  2  2  2  2  0
audit --name NAME                     | looks | lines |  0  0  0  0  0 |  0  0  0  0  0
doctor                                | acts  | one   |  1  1  0  0  0 |  1  1  0  0  0
doctor --fix                          | acts  | one   |  1  0  0  0  0 |  1  1  0  0  0
torture --dir /proc                   | apart | one   |  1  1  1  1  1 |  1  1  1  1  1
ledger init -d /proc                  | apart | one   |  1  1  1  1  1 |  1  1  1  1  1
ledger append {"type":"x"}            | apart | one   |  3  3  3  3  3 |  3  3  3  3  3
ledger show                           | apart | lines |  3  3  3  3  3 |  3  3  3  3  3
ledger head                           | apart | one   |  3  3  3  3  3 |  3  3  3  3  3
ledger follow                         | apart | lines |  3  3  3  3  3 |  3  3  3  3  3
ledger verify                         | apart | one   |  3  3  3  3  3 |  3  3  3  3  3
ledger checkpoint                     | apart | one   |  3  3  3  3  3 |  3  3  3  3  3
ledger doctor --fix                   | apart | one   |  3  3  3  3  3 |  3  3  3  3  3
ledger export                         | apart | lines |  3  3  3  3  3 |  3  3  3  3  3
claim take 1.1                        | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
claim release 1.1                     | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
claim extend 1.1                      | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
claim reap                            | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
claim list                            | apart | one   |  3  3  3  3  3 |  3  3  3  3  3
claim run 1.1 -- true                 | owned | own   |  3  3  3  3  3 |  3  3  3  3  3
worktree init --isolation x           | owned | one   | 64 64 64 64 64 | 64 64 64 64 64
worktree create feature               | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
worktree list                         | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
worktree rename feature other         | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
worktree remove feature               | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
lease acquire                         | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
lease renew                           | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
lease steal                           | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
lease release                         | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
lease status                          | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
lease break --force --reason why      | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
lease run -- true                     | owned | own   |  3  3  3  3  3 |  3  3  3  3  3
lease fence check --token 1           | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
lease audit                           | owned | lines |  3  3  3  3  3 |  3  3  3  3  3
snapshot create                       | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
snapshot history                      | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
snapshot info                         | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
snapshot show latest                  | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
snapshot diff latest                  | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
snapshot restore latest               | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
snapshot verify                       | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
snapshot pin latest                   | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
snapshot unpin latest                 | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
snapshot gc run                       | owned | one   |  3  3  3  3  3 |  3  3  3  3  3
prime                                 | looks | one   |  0  0  0  0  0 |  0  0  0  0  0
complete -- lokt unlock N             | looks | own   |  0  0  0  0  0 |  0  0  0  0  0
completions bash                      | tells | one   |  0  0  0  0  0 |  0  0  0  0  0
man lock                              | tells | one   |  0  0  0  0  0 |  0  0  0  0  0
root                                  | tells | one   |  0  0  0  0  0 |  0  0  0  0  0
version                               | tells | one   |  0  0  0  0  0 |  0  0  0  0  0
help                                  | tells | own   |  0  0  0  0  0 |  0  0  0  0  0
"#;

/// What is found where a record is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    NoFile,
    NoRecord,
    Newer,
    Counts,
    Over,
}

/// Where it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Locks,
    Freezes,
}

impl Place {
    pub(super) fn dir(self) -> &'static str {
        match self {
            Self::Locks => "locks",
            Self::Freezes => "freezes",
        }
    }
}

/// Text or JSON.
pub(super) const FORMATS: [bool; 2] = [false, true];

/// A row of the table.
#[derive(Debug)]
pub(super) struct Call {
    words: Vec<&'static str>,
    pub(super) acts: bool,
    /// It needs the root.
    pub(super) looks: bool,
    /// It must know who asks.
    pub(super) asks_who: bool,
    json: &'static str,
    codes: Vec<i32>,
}

pub(super) fn all() -> Vec<Call> {
    TABLE.lines().filter(|line| !line.is_empty()).map(Call::parse).collect()
}

/// Those that take a lock's name.
pub(super) fn with_a_name() -> Vec<Call> {
    all().into_iter().filter(|call| call.words.contains(&"NAME")).collect()
}

impl Call {
    fn parse(line: &'static str) -> Self {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [words, kind, json, locks, freezes] = columns[..] else { panic!("a row has five columns: {line}") };
        let codes: Vec<i32> = [locks, freezes]
            .iter()
            .flat_map(|codes| codes.split_whitespace())
            .map(|code| code.parse().expect("an exit code is a number"))
            .collect();
        assert_eq!(codes.len(), 10, "a row has an exit code for everything that can be found: {line}");
        let words = words.split_whitespace().collect();
        let looks = matches!(kind, "acts" | "looks");
        Self { words, acts: kind == "acts", looks, asks_who: looks || kind == "owned", json, codes }
    }

    /// What is wrong is its answer, not an error: 1, with the paths.
    pub(super) fn examines(&self) -> bool {
        self.words[0] == "doctor"
    }

    /// It says what it can and is silent about the rest.
    pub(super) fn is_quiet(&self) -> bool {
        self.words[0] == "complete"
    }

    /// It asks about the repository that the current directory is in, and nothing about a root.
    pub(super) fn needs_directory(&self) -> bool {
        ["worktree", "lease", "snapshot"].contains(&self.words[0])
    }

    /// The exit code when `found` is at `place`.
    pub(super) fn code(&self, place: Place, found: Found) -> i32 {
        self.codes[place as usize * 5 + found as usize]
    }

    /// The words of the call.
    pub(super) fn words(&self, name: &str, json: bool) -> Vec<String> {
        let mut words: Vec<String> = self.words.iter().map(|word| word.replace("NAME", name)).collect();
        if json && self.words[0] != "complete" && self.words[0] != "help" {
            words.insert(1, "--json".into());
        }
        words
    }

    /// What `--json` prints is what was promised.
    #[track_caller]
    pub(super) fn check_json(&self, said: &Said) {
        match self.json {
            // Its command printed nothing; neither does a guard that did its work.
            "own" if said.code == 0 => {}
            "lines" if said.code == 0 => {
                for line in said.stdout.lines() {
                    serde_json::from_str::<serde_json::Value>(line)
                        .unwrap_or_else(|error| panic!("each line is one JSON value: {error}{said}"));
                }
            }
            _ => drop(said.json()),
        }
    }
}

#[test]
fn every_command_of_the_help_is_in_the_table() {
    let root = Root::new();
    let help = root.run("b", "help").exits(0, "help is no error").stdout;
    let (commands, _) = help.split_once("\nEvery command but ").expect("the list of commands ends with this");
    let listed = commands
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next().filter(|_| !line.starts_with("   ")));
    let calls = all();
    let mut count = 0;
    for command in listed {
        let is_called = |words: &[&str]| calls.iter().any(|call| call.words.starts_with(words));
        assert!(is_called(&[command]), "`lokt {command}` has a row in the table of this matrix");
        count += 1;
        // The line after a group has its commands.
        let group = help.split(&format!("\n  {command} <COMMAND>")).nth(1).and_then(|rest| rest.lines().nth(1));
        for word in group.iter().flat_map(|names| names.trim().split(", ")) {
            assert!(is_called(&[command, word]), "`lokt {command} {word}` has a row in the table of this matrix");
        }
    }
    assert!(count > 10, "the list of commands was found: {help}");
}
