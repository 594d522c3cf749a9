//! What the environment can look like.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use lokt_testkit::cmd::Place;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_lokt"))
}

#[test]
fn owners_that_are_no_text_are_refused_and_not_mixed_up() {
    let place = place();
    for owner in [b"\xff", b"\xfe"] {
        let ended = Command::new(env!("CARGO_BIN_EXE_lokt"))
            .args(["lock", "x"])
            .env("LOKT_ROOT", place.root())
            .env("LOKT_OWNER", OsStr::from_bytes(owner))
            .output()
            .expect("it runs");
        assert_eq!(ended.status.code(), Some(64), "one-holder: both would be the same owner in the record");
    }
    assert!(place.stored("x").is_none());
}

#[test]
fn an_absolute_root_needs_no_current_directory() {
    let place = place();
    place.take("a", &["x"]);
    let gone = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" unlock x";
    let ended = place.run_words("a", &["sh", "-c", gone, env!("CARGO_BIN_EXE_lokt")]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn a_file_size_limit_is_an_error_or_a_warning_and_never_a_death_after_the_fact() {
    let place = place();
    place.take("a", &["y"]);
    let text = "yes | head -c 200000 >> \"$LOKT_ROOT/audit.log\" && ulimit -f 100 && exec \"$0\" lock x";
    let ended = place.run_words("a", &["sh", "-c", text, env!("CARGO_BIN_EXE_lokt")]);
    assert_eq!(ended.code, Some(0), "it is held, and the caller is told: {}", ended.stderr);
    assert!(ended.stderr.contains("warning: audit"), "{}", ended.stderr);
}
