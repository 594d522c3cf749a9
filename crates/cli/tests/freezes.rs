//! Freezes, as far as they exist: files made by hand are honoured.

use crate::common::{Root, go_lease, host};

#[test]
fn a_freeze_refuses_new_holds_and_says_so() {
    let root = Root::used();
    root.put_freeze("build", &go_lease("build", "ops", 600, 600));
    let said = root.run("a", "lock build").exits(2, "nothing is granted under a freeze");
    said.notes(&format!("error: operation \"build\" frozen by ops (agent: agent-beef)@{} for", host()), "it says who")
        .notes("remaining", "it says how long");
    let said = root.run("a", "lock build --json").exits(2, "nothing is granted under a freeze");
    assert_eq!(said.json()["status"], "blocked", "a freeze blocks");
    assert_eq!(said.json()["code"], "E_FROZEN", "the code says freeze");
    assert!(said.json()["freeze_owner"].is_string(), "it says who froze it");
    assert!(said.json().get("holder_owner").is_none(), "whoever froze it doesn't hold it");
    assert!(!root.has_record("build"), "no record was made");
    assert_eq!(root.events_of("build"), ["freeze-deny", "freeze-deny"], "each refusal leaves one event");
    assert_eq!(root.audit_of("build")[0]["extra"]["freeze_owner"], "ops", "the event names whoever froze it");
}

#[test]
fn a_freeze_does_not_stop_the_refresh_of_a_live_hold() {
    let root = Root::new();
    root.run("a", "lock build --ttl 5m").exits(0, "it is free");
    root.put_freeze("build", &go_lease("build", "ops", 600, 600));
    root.run("a", "lock build --ttl 5m").exits(0, "a live hold is refreshed under a freeze");
    root.run("a", "unlock build").exits(0, "a freeze doesn't keep anybody from leaving");
    root.run("a", "lock build").exits(2, "but nobody gets in again");
}

#[test]
fn a_freeze_stops_the_revival_of_an_expired_hold() {
    let root = Root::used();
    root.put_record("build", &go_lease("build", "a", 60, -10));
    root.put_freeze("build", &go_lease("build", "ops", 600, 600));
    root.run("a", "lock build").exits(2, "an expired hold is not revived under a freeze");
}

#[test]
fn a_freeze_of_an_old_program_counts_and_a_lock_of_that_name_does_not() {
    let root = Root::used();
    root.put_record("freeze-build", &go_lease("freeze-build", "ops", 600, 600));
    root.run("a", "lock build").exits(2, "freeze-build of an old program freezes build");
    root.run("a", "lock freeze-deploy").exits(0, "freeze-deploy is a name like any other");
    root.run("b", "lock deploy").exits(0, "and freezes nothing");
}

#[test]
fn a_damaged_freeze_is_called_a_freeze() {
    let root = Root::used();
    root.put("freezes/x.json", "garbage");
    root.put("freezes/y.json", r#"{"version": 2}"#);
    let said = root.run("a", "status").exits(0, "the list can be made");
    said.says("freeze \"x\" has corrupted data", "it is no lock").says("freeze \"y\": unsupported", "neither is this");
    let json = root.run("a", "status --json").exits(0, "the list can be made").json();
    for row in json.as_array().expect("it is a list") {
        let hint = row["hint"].as_str().expect("there is one");
        assert!(
            hint.contains(&format!("freezes/{}.json", row["name"].as_str().expect("a name"))),
            "what helps: {hint}"
        );
        assert!(!hint.contains("lokt lock") && !hint.contains("--force"), "neither would help: {hint}");
    }
    let said = root.run("a", "why x").exits(2, "it counts as a freeze");
    let path = root.path().join("freezes/x.json");
    said.says(&format!("  - Look at {}: ", path.display()), "it says where to look, as it can be typed");
}
