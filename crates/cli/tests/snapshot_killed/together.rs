//! Fifteen snapshots by one holder, at once.

use std::collections::BTreeSet;

use lokt_testkit::swarm::Swarm;
use lokt_testkit::tenancy::{answer, as_words};

use crate::store::Store;

#[test]
fn check_43_of_fifteen_at_once_every_acknowledged_one_is_reachable() {
    let store = Store::new(300, None);
    let args = store.args();
    let dir = format!("--chdir={}", store.tenancy.place.dir().display());
    let command = |_| {
        let words = store.tenancy.place.words(&as_words(&args));
        ([&["env", dir.as_str()], words.as_slice()].concat(), store.tenancy.place.env("a"))
    };
    for round in 0..3 {
        let before = store.visible("before");
        let ended = Swarm::at_gate((0..15).map(command)).and_then(Swarm::release).expect("they run");
        let mut acknowledged = BTreeSet::new();
        for ended in &ended {
            assert_eq!(ended.code, Some(0), "round {round}: all are hers: {ended:?}");
            acknowledged.insert(answer(ended)["snapshot_id"].as_str().expect("it has an id").to_owned());
        }
        assert_eq!(acknowledged.len(), 15, "round {round}: each is another one");
        let history = store.says("snapshot history --all", "after");
        let snapshots = history["snapshots"].as_array().expect("it is a list");
        let (mut reached, mut next) = (BTreeSet::new(), store.says("snapshot info", "after")["head"].clone());
        while let Some(id) = next.as_str() {
            assert!(reached.insert(id.to_owned()), "round {round}: {id} doesn't descend from itself");
            let found = snapshots.iter().find(|one| one["snapshot_id"] == id);
            next = found.unwrap_or_else(|| panic!("{id} is there: {history}"))["parent_snapshot_id"].clone();
        }
        let all: BTreeSet<String> = before.union(&acknowledged).cloned().collect();
        assert_eq!(reached, all, "round {round}: every one is reachable from the head");
        let plan = store.says("snapshot gc plan", "after");
        assert_eq!(plan["candidate_count"], 0, "round {round}: none of them would go: {plan}");
    }
    store.is_whole("after all");
}
