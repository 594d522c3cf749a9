//! Names that are none: refused before the first file is touched.

use std::fs;

use lokt_testkit::dose::is_due;

use super::calls::{self, FORMATS};
use super::scene::Scene;

fn bad_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "",
        ".",
        "..",
        "...",
        "a..b",
        "a/b",
        "/",
        "/etc/x",
        "../x",
        "../precious",
        "x/../../precious",
        "-",
        "-x",
        "--x",
        "a b",
        " x",
        "x\n",
        "\n",
        "x\t",
        "\u{1b}[2J",
        "naïve",
        "王",
        "x\u{202e}",
        "a,b",
        "a=b",
        "a:b",
        "*",
        "~",
        "$HOME",
        "x\\",
        "\u{ff0f}etc",
    ]
    .map(ToOwned::to_owned)
    .to_vec();
    names.push("n".repeat(201));
    names.push("n".repeat(100_000));
    names
}

#[test]
fn a_bad_name_is_a_usage_error_and_touches_nothing() {
    let missing = Scene::new();
    fs::remove_dir_all(missing.root.path()).expect("it is ours");
    for scene in [Scene::used(), missing] {
        let is_there = scene.root.path().exists();
        let before = is_there.then(|| scene.inside());
        for (m, call) in calls::with_a_name().iter().enumerate() {
            for (n, name) in bad_names().iter().enumerate().filter(|(n, _)| is_due(n + m)) {
                let json = FORMATS[n % 2];
                let said = scene.root.lokt("b").args(call.words(name, json)).run();
                assert_eq!(said.code, 64, "{name:?} is no name{said}");
                if json {
                    call.check_json(&said);
                    let code = said.failure();
                    assert!(matches!(code.as_str(), "E_BAD_NAME" | "E_USAGE"), "the code says so{said}");
                } else {
                    assert!(!said.stderr.is_empty(), "it says so{said}");
                }
                scene.is_untouched(&said);
            }
        }
        assert_eq!(is_there.then(|| scene.inside()), before, "nothing in the root is touched");
        assert_eq!(scene.root.path().exists(), is_there, "and none is made");
    }
}

#[test]
fn the_longest_name_there_is_works() {
    let scene = Scene::new();
    let name = "n".repeat(200);
    for call in calls::with_a_name() {
        for json in FORMATS {
            let said = scene.root.lokt("b").args(call.words(&name, json)).run();
            assert!([0, 3, 6].contains(&said.code), "it is a name like any other{said}");
        }
    }
}
