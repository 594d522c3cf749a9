//! File systems that know no renaming without replacing and no swapping: `renameat2` fails, `link` and `rename` must do.

use lokt_testkit::cmd::Place;
use lokt_testkit::swarm::Ended;

/// Runs a command on such a file system, with more that goes wrong.
fn run(place: &Place, owner: &str, args: &[&str], also: &[&str]) -> Ended {
    let injected = ["strace", "-qq", "-o", "/dev/null", "-e", "inject=renameat2:error=EINVAL"];
    place.run_words(owner, &[&injected, also, place.words(args).as_slice()].concat())
}

#[test]
fn a_lock_lives_its_whole_life() {
    lokt_testkit::need!("strace");
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    for (owner, args, code) in [
        ("a", ["lock", "x"], 0),
        ("b", ["lock", "x"], 2),
        ("a", ["lock", "x"], 0),
        ("a", ["unlock", "x"], 0),
        ("b", ["lock", "x"], 0),
    ] {
        let ended = run(&place, owner, &args, &[]);
        assert_eq!(ended.code, Some(code), "{owner} {args:?}: {}", ended.stderr);
    }
    assert_eq!(place.stored("x").expect("it is held")["owner"], "b");
}

/// The new name is there: the old one is a temp file, and the next command tidies it away.
#[test]
fn a_temp_name_that_cannot_be_removed_does_not_make_a_granted_lock_fail() {
    lokt_testkit::need!("strace");
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    place.take("a", &["w"]);
    let ended = run(&place, "a", &["lock", "x"], &["-e", "inject=unlinkat:error=EIO"]);
    let held = place.stored("x").is_some();
    assert_eq!(ended.code == Some(0), held, "the answer is true: {}", ended.stderr);
    place.take("a", &["y"]);
    let left = std::fs::read_dir(place.root().join("state/tmp")).expect("it exists").count();
    assert_eq!(left, 0, "temp files are cleaned up");
}
