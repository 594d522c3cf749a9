//! Nothing odd in `state/` wedges a name or slows it down for good.

use lokt_testkit::cmd::Place;
use lokt_testkit::swarm::put;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_lokt"))
}

#[test]
fn a_line_that_cannot_be_read_does_not_keep_anybody_from_unlocking() {
    for args in [["unlock", "x"].as_slice(), &["unlock", "--force", "x"]] {
        let place = place();
        place.take("a", &["x"]);
        put(&place.root().join("state/line/x"), "not a directory");
        let ended = place.run("a", args);
        assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn a_token_file_that_is_too_long_costs_one_leap_and_not_one_per_token() {
    let place = place();
    let (_, first) = place.take("a", &["a"]);
    let next = place.root().join("state/next");
    let mut bytes = std::fs::read(&next).expect("it exists");
    bytes.extend_from_slice(b"junk");
    put(&next, bytes);
    let (_, second) = place.take("a", &["b"]);
    let (_, third) = place.take("a", &["c"]);
    assert!(second > first, "token-order");
    assert_eq!(third, second + 1, "it is repaired");
}
