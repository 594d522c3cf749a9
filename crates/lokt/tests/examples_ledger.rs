//! The example of a ledger transaction runs, and prints what it promises.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The example, which `cargo test` builds beside the tests. A run of this test alone doesn't: then
/// it is built here.
fn example() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let mut path = std::env::current_exe().expect("this program has a path");
        path.pop();
        path.pop();
        path.push("examples/transact");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/transact.rs");
        if changed_at(&path) < changed_at(&source) {
            let cargo = option_env!("CARGO").unwrap_or("cargo");
            let arguments = ["build", "--quiet", "--offline", "--package", "lokt", "--example", "transact"];
            let built = Command::new(cargo).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).status();
            assert!(built.expect("cargo runs").success(), "the example doesn't build");
        }
        path
    })
}

fn changed_at(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}

fn run(arguments: &[&str]) -> Output {
    let path = example();
    Command::new(path).args(arguments).output().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(ToOwned::to_owned).collect()
}

#[test]
fn of_five_guests_three_get_a_seat_each() {
    let lines = lines(&run(&[]));
    assert_eq!(lines.len(), 4, "{lines:?}");
    for (seat, line) in (1..).zip(&lines[..3]) {
        assert!(line.starts_with(&format!("{seat} seat_booked {{\"guest\":\"")), "{line}");
        assert!(line.ends_with(&format!(",\"seat\":{seat}}}")), "{line}");
    }
    assert_eq!(lines[3], "refused: 2, sound: true");
}

#[test]
fn a_ledger_that_is_sold_out_stays_so() {
    let dir = tempfile::tempdir().expect("there is room for a temp directory");
    let dir = dir.path().to_str().expect("a temp directory has a plain name");
    let first = lines(&run(&[dir]));
    let second = lines(&run(&[dir]));
    assert_eq!(first[..3], second[..3], "no seat was booked twice");
    assert_eq!(second[3], "refused: 5, sound: true");
}
