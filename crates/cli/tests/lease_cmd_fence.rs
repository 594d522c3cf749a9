//! `lokt lease fence`: whoever lost the lease publishes nothing.

use std::fs;

use serde_json::json;

use crate::common::grove::{Grove, LONG};
use crate::common::{LOKT, eventually};

#[test]
fn check_says_whether_a_token_is_good() {
    let grove = Grove::new();
    let json = grove.json("alice", "lease fence check --token 1", 6);
    assert_eq!(
        (&json["status"], &json["code"]),
        (&json!("error"), &json!("E_FENCING_MISMATCH")),
        "nobody has it: {json}"
    );
    let token = grove.acquire("alice", LONG);
    let said = grove.run("anybody", &format!("lease fence check --token {token}")).exits(0, "it is the one");
    assert_eq!(said.stdout, format!("token {token} of worktree \"main\" is good\n"));
    said.notes("note: alice", "whose it is").notes("holds it until 20", "until when");
    let json = grove.json("alice", &format!("lease fence check --token {token}"), 0);
    assert_eq!(
        (&json["status"], &json["worktree"], &json["fencing_token"], &json["lock"]["fencing_token"]),
        (&json!("current"), &json!("main"), &json!(token), &json!(token)),
        "{json}"
    );
    for other in [0, token - 1, token + 1, u64::MAX] {
        let said = grove.run("alice", &format!("lease fence check --token {other}")).exits(6, "it is none");
        said.notes(
            &format!("token {other} is not the current one of worktree \"main\": that is {token}, of alice"),
            "why",
        );
    }
    grove.run("alice", "lease release").exits(0, "it is hers");
    let said = grove.run("alice", &format!("lease fence check --token {token}")).exits(6, "it was given back");
    said.notes("nobody holds its lease", "why").notes("`lokt lease acquire`", "what to do");
}

#[test]
fn a_token_whose_lease_has_ended_is_told_apart() {
    let grove = Grove::new();
    let token = grove.acquire("alice", "--lease 200ms --skew 1h --grace 1h");
    eventually("it ends", || grove.state("main") == "expired_grace");
    grove.put("source", "new");
    for words in
        [format!("lease fence check --token {token}"), format!("lease fence publish --token {token} source target")]
    {
        grove.run("alice", &words).exits(5, "its time is over").notes("has ended", "why");
        assert_eq!(grove.json("alice", &words, 5)["code"], "E_LOCK_EXPIRED", "{words}");
    }
    assert!(!grove.top().join("target").exists(), "nothing is to be seen of it");
}

#[test]
fn publish_puts_a_whole_copy_in_its_place() {
    let grove = Grove::new();
    let token = grove.acquire("alice", LONG);
    grove.put("main/source", "new");
    grove.put("main/target", "old");
    let said = grove.run("alice", &format!("lease fence publish main/source main/target --token {token}"));
    let said = said.exits(0, "the token is good");
    assert_eq!(said.stdout, format!("published main/target under token {token} of worktree \"main\"\n"));
    assert_eq!((grove.text("main/target"), grove.text("main/source")), ("new".to_owned(), "new".to_owned()), "a copy");
    let json = grove.json("alice", &format!("lease fence publish --token {token} main/source fresh"), 0);
    assert_eq!(
        json,
        json!({"status": "published", "worktree": "main", "fencing_token": token, "source": "main/source", "target": "fresh", "bytes": 3})
    );
    let outside = grove.outside().join("elsewhere");
    let source = grove.top().join("main/source");
    let said = grove.lokt("alice").args(["lease", "fence", "publish", "--token", &token.to_string()]);
    said.args([&source, &outside]).cwd(&grove.top().join("main")).run().exits(0, "anywhere on the file system");
    assert_eq!(fs::read_to_string(&outside).expect("it is there"), "new");
    let staged = fs::read_dir(grove.inside("staging/main")).map_or(0, Iterator::count);
    assert_eq!(staged, 0, "nothing is left over");
}

#[test]
fn whoever_was_overtaken_publishes_nothing() {
    let grove = Grove::new();
    let old = grove.acquire("alice", LONG);
    grove.run("bob", "lease break --force --reason test").exits(0, "that was wanted");
    let new = grove.acquire("bob", LONG);
    grove.put("source", "late");
    let said = grove.run("alice", &format!("lease fence publish --token {old} source target")).exits(6, "she is late");
    said.notes(&format!("that is {new}, of bob"), "who has it").notes("note: nothing was published", "plainly");
    let json = grove.json("alice", &format!("lease fence publish --token {old} source target"), 6);
    assert_eq!((&json["code"], &json["holder_owner"]), (&json!("E_FENCING_MISMATCH"), &json!("bob")), "{json}");
    assert!(!grove.top().join("target").exists(), "nothing is to be seen of it");
    assert!(!grove.events_of("fencing_failed").is_empty(), "it is in the log");
}

#[test]
fn what_cant_be_published_is_named() {
    let grove = Grove::new();
    let token = grove.acquire("alice", LONG);
    grove.put("source", "new");
    fs::create_dir(grove.top().join("dir")).expect("a temp directory is writable");
    for (files, code, name) in [
        ("missing target", 1, "missing"),
        ("dir target", 65, "dir"),
        ("source dir", 65, "dir"),
        ("source missing/target", 1, "missing/target"),
    ] {
        let words = format!("lease fence publish --token {token} {files}");
        let said = grove.run("alice", &words).exits(code, files);
        said.notes(name, files);
        grove.run("alice", &format!("{words} --json")).exits(code, files).failure();
    }
    for words in ["publish", "publish source", "publish a b c", "check source"] {
        let said = grove.run("alice", &format!("lease fence {words} --token {token}")).exits(64, words);
        assert!(said.stderr.starts_with("error: "), "{said}");
        assert_eq!(
            grove.run("alice", &format!("lease fence {words} --token {token} --json")).exits(64, words).failure(),
            "E_USAGE"
        );
    }
    assert_eq!(grove.state("main"), "held", "the lease is as it was");
}

#[test]
fn inside_a_run_the_token_need_not_be_given() {
    let grove = Grove::with(&["feature"]);
    let said = grove.run("alice", "lease fence check").exits(64, "which one?");
    said.notes("doesn't run inside `lokt lease run`", "it says so").notes("pass --token", "what to do");
    let token = grove.acquire("alice", &format!("--worktree feature {LONG}"));
    // As `lease run` tells its command.
    let inside = || {
        let call = grove.lokt("alice").env("LOKT_LEASE_WORKTREE", "feature").env("LOKT_LEASE_REPO", grove.top());
        let id = fs::read_to_string(grove.inside("repo_id")).expect("it has one");
        call.env("LOKT_LEASE_TOKEN", token.to_string()).env("LOKT_LEASE_REPO_ID", id.trim()).cwd(grove.outside())
    };
    let said = inside().env("LOKT_LEASE_REPO_ID", "").args(["lease", "fence", "check"]).run();
    said.exits(6, "a number alone is good in any repository that was made in the place of ours");
    let said = inside().args(["lease", "fence", "check"]).run().exits(0, "wherever the command is");
    assert_eq!(said.stdout, format!("token {token} of worktree \"feature\" is good\n"));
    inside().args(["lease", "fence", "check", "--worktree", "feature"]).run().exits(0, "it is that one");
    inside().args(["lease", "fence", "check", "--worktree", "main"]).run().exits(64, "of main it has none");
    inside().args(["lease", "fence", "check", "--token", "1"]).run().exits(3, "a given token is for where one is");
    for (name, value) in [("LOKT_LEASE_TOKEN", "x"), ("LOKT_LEASE_TOKEN", "-1"), ("LOKT_LEASE_TOKEN", "")] {
        inside().env(name, value).args(["lease", "fence", "check"]).run().exits(64, "that is none");
    }
    inside().env("LOKT_LEASE_WORKTREE", "../x").args(["lease", "fence", "check"]).run().exits(64, "that is no name");
    inside().env("LOKT_LEASE_REPO", grove.outside()).args(["lease", "fence", "check"]).run().exits(3, "no repository");
}

/// A link in the path of the target leads to another repository. An error while it is read must not hide that.
#[test]
fn an_error_does_not_lead_past_the_fence_of_another_repository() {
    lokt_testkit::need!("strace");
    let (grove, other) = (Grove::new(), Grove::new());
    std::os::unix::fs::symlink(other.top().join("main"), grove.top().join("main/out")).expect("a worktree is writable");
    let token = grove.acquire("alice", LONG);
    let trace = grove.outside().join("trace");
    let published = other.top().join("main/target");
    let mut met = 0;
    for call in ["?readlink", "?readlinkat", "newfstatat"] {
        for nth in 1.. {
            grove.put("main/source", "content");
            let inject = format!("inject={call}:error=EIO:when={nth}");
            let words = ["-e", &format!("trace={call}"), "-e", &inject, LOKT, "lease", "fence", "publish", "--token"];
            let strace = grove.call("strace").args(["-qq", "-o"]).args([&trace]).args(words).env("LOKT_OWNER", "alice");
            let said = strace.args([&token.to_string(), "source", "out/target"]).cwd(&grove.top().join("main")).run();
            assert!(!published.exists(), "{call} {nth} leads past the fence{said}");
            assert_ne!(said.code, 0, "{call} {nth}: nothing is published{said}");
            if !fs::read_to_string(&trace).expect("strace wrote it").contains("(INJECTED)") {
                said.exits(6, "without an error it is refused");
                break;
            }
            met += 1;
        }
    }
    assert!(met > 5, "errors were met: {met}");
}
