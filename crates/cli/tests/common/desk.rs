//! A reader at a desk with terminals, who does what a page says and compares what is shown with what the page shows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use lokt_testkit::session::{PATIENCE, Start, Terminal};
use lokt_testkit::swarm::wait_until;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::page::{Deed, Part, Step};
use super::programs::program;
use super::transcript::{Place, agrees, visible};
use super::{LOKT, chmod, put};

/// The width that the pages are written for.
const COLUMNS: u16 = 100;
/// Ends the output of a command.
const END: char = '\u{1}';
/// A shell that takes commands from a pipe, so that what they read is the terminal. `$?` is what a reader would see.
const SHELL: &str = r#"
    exec 250<>"$1"
    trap : INT
    code=0
    printf '\001'
    while IFS= read -r -d '' -u 250 typed; do
        (exit $code)
        eval "$typed"
        code=$?
        printf '\001'
    done"#;

/// An empty directory in an empty home, and the terminals in it.
pub(crate) struct Desk {
    /// Before the directory, which can't go while it is used.
    seats: BTreeMap<usize, Seat>,
    dir: TempDir,
    /// What is being read.
    page: &'static str,
}

struct Seat {
    terminal: Terminal,
    pipe: File,
    /// What was shown up to here has been compared.
    compared: usize,
    /// The command that has been typed last, until its end was seen.
    running: Option<String>,
}

/// One thing in a console block.
enum Item {
    Command(String),
    Output(String),
    Interrupt,
}

impl Desk {
    pub(crate) fn new(page: &'static str) -> Self {
        let dir = tempfile::tempdir().expect("there is room for a temp directory");
        let desk = Self { seats: BTreeMap::new(), dir, page };
        for path in [desk.home().join("bin"), desk.project()] {
            std::fs::create_dir_all(path).expect("a temp directory is writable");
        }
        std::os::unix::fs::symlink(LOKT, desk.home().join("bin/lokt")).expect("a temp directory is writable");
        // Whoever uses git has said once who they are.
        let git = "[user]\nname = Alice\nemail = alice@example.com\n[init]\ndefaultBranch = main\n";
        put(&desk.home().join(".gitconfig"), git);
        desk
    }

    fn home(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("it is there").join("home")
    }

    fn project(&self) -> PathBuf {
        self.home().join("project")
    }

    /// Does everything in `part`, and leaves nothing running.
    pub(crate) fn work_through(&mut self, part: &Part) {
        for (at, step) in part.iter().enumerate() {
            match &step.deed {
                Deed::Type { terminal } => {
                    let later = part[at + 1..].iter().find(|later| later.deed == step.deed);
                    let goes_on = later.is_some_and(|later| !later.text.starts_with("$ "));
                    self.read_along(*terminal, step, goes_on);
                }
                Deed::Run => self.run(step),
                Deed::Write { path } => {
                    let path = self.project().join(path);
                    if step.text.starts_with("#!") {
                        program(&path, &step.text);
                    } else {
                        put(&path, &step.text);
                        chmod(&path, 0o644);
                    }
                }
                Deed::Skip { .. } => {}
            }
        }
        for (number, seat) in &self.seats {
            assert_eq!(seat.running, None, "terminal {number} is free again at the end");
        }
    }

    /// Types the commands of a block, and compares.
    fn read_along(&mut self, terminal: usize, step: &Step, goes_on: bool) {
        let place = Place { home: self.home(), page: self.page };
        let seat = self.seat(terminal);
        let mut shown = Vec::new();
        let mut started = step.line;
        for (at, item) in items(&step.text) {
            match item {
                Item::Command(command) => {
                    seat.ends(&place, started, &shown);
                    seat.types(command);
                    shown.clear();
                    started = step.line + at;
                }
                Item::Output(line) => shown.push(line),
                Item::Interrupt => {
                    seat.shows(&place, started, &shown);
                    seat.terminal.types("\u{3}");
                    shown.clear();
                }
            }
        }
        if goes_on {
            seat.shows(&place, started, &shown);
        } else {
            seat.ends(&place, started, &shown);
        }
    }

    /// Runs a script in the first terminal; what it prints is its own business.
    fn run(&mut self, step: &Step) {
        let place = Place { home: self.home(), page: self.page };
        let script = self.home().join(format!("script-{}", step.line));
        put(&script, &step.text);
        let seat = self.seat(1);
        seat.types(format!("bash -e {} > ~/said 2>&1 || cat ~/said", script.display()));
        seat.ends(&place, step.line, &[]);
    }

    fn seat(&mut self, terminal: usize) -> &mut Seat {
        if !self.seats.contains_key(&terminal) {
            let seat = self.take_seat(terminal);
            self.seats.insert(terminal, seat);
        }
        self.seats.get_mut(&terminal).expect("it was just taken")
    }

    fn take_seat(&self, terminal: usize) -> Seat {
        let (home, project) = (self.home(), self.project());
        let path = self.dir.path().join(format!("pipe-{terminal}"));
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a temp directory is writable");
        let pipe = File::options().read(true).write(true).open(&path).expect("it was just made");
        let (home, path) = (home.display().to_string(), path.display().to_string());
        let (home_is, path_is) = (format!("HOME={home}"), format!("PATH={home}/bin:/usr/local/bin:/usr/bin:/bin"));
        let words = vec!["env", "-i", &home_is, &path_is, "TERM=xterm", "NO_COLOR=1", "LANG=C.UTF-8"];
        let words = [words, vec!["bash", "--norc", "--noprofile", "-c", SHELL, "bash", &path]].concat();
        let mut seat = Seat {
            terminal: Start { words, env: Vec::new(), dir: &project }.terminal(COLUMNS),
            pipe,
            compared: 0,
            running: None,
        };
        let end = END.to_string();
        seat.compared = seat.terminal.shows_after(0, &end);
        seat
    }
}

impl Seat {
    fn types(&mut self, command: String) {
        assert_eq!(self.running, None, "before `{command}` is typed the shell is free");
        self.pipe.write_all(command.as_bytes()).and_then(|()| self.pipe.write_all(b"\0")).expect("a shell reads it");
        self.running = Some(command);
    }

    /// Where the part of the screen begins that nothing was compared with. A line is compared as soon as its text is there; its end
    /// may come later.
    fn unseen(&self, screen: &str) -> usize {
        let (seen, rest) = screen.split_at(self.compared);
        let is_whole = seen.is_empty() || seen.ends_with(['\n', END]);
        let end = ["\r\n", "\n"].into_iter().find(|end| !is_whole && rest.starts_with(end));
        self.compared + end.map_or(0, str::len)
    }

    /// The running command has shown this much by now, or will soon.
    fn shows(&mut self, place: &Place, line: usize, expected: &[String]) {
        let Some(command) = self.running.clone() else { panic!("{place}:{line}: a command runs") };
        let mut shown = String::new();
        let agreed = wait_until(PATIENCE, || {
            let screen = self.terminal.screen();
            shown = visible(&screen[self.unseen(&screen)..]);
            let agreed = agrees(expected, &shown, place);
            if agreed {
                self.compared = screen.len();
            }
            agreed
        });
        assert!(agreed, "{place}:{line}: `{command}` shows\n{shown}\nwhere the page says\n{}\n", expected.join("\n"));
    }

    /// The running command, if there is one, ends, and has shown this.
    fn ends(&mut self, place: &Place, line: usize, expected: &[String]) {
        let Some(command) = self.running.take() else {
            assert!(expected.is_empty(), "{place}:{line}: only a command shows something");
            return;
        };
        let mut shown = None;
        wait_until(PATIENCE, || {
            let screen = self.terminal.screen();
            let unseen = self.unseen(&screen);
            let end = screen[unseen..].find(END).map(|end| unseen + end);
            shown = end.map(|end| visible(&screen[unseen..end]));
            self.compared = end.map_or(self.compared, |end| end + END.len_utf8());
            end.is_some()
        });
        let so_far = visible(&self.terminal.screen()[self.compared..]);
        let shown = shown.unwrap_or_else(|| panic!("{place}:{line}: `{command}` ends; so far it shows\n{so_far}"));
        let page = expected.join("\n");
        assert!(
            agrees(expected, &shown, place),
            "{place}:{line}: `{command}` shows\n{shown}\nwhere the page says\n{page}\n"
        );
    }
}

/// What a console block consists of, with the line of each.
fn items(text: &str) -> Vec<(usize, Item)> {
    let mut items: Vec<(usize, Item)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let item = match (line.strip_prefix("$ "), line.strip_prefix("> "), items.last_mut()) {
            (Some(command), _, _) => Item::Command(command.to_owned()),
            (_, Some(more), Some((_, Item::Command(command)))) => {
                command.push('\n');
                command.push_str(more);
                continue;
            }
            _ if line == "^C" => Item::Interrupt,
            _ => Item::Output(line.to_owned()),
        };
        items.push((at + 1, item));
    }
    items
}
