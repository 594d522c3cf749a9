//! What must be true of the disk when everybody is gone.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use lokt_torture::history::{Deed, Entry};
use serde_json::Value;

use super::{Check, FURNISHED};
use crate::ends::Ended;
use crate::scene::{BRIEF, LASTING, MESSY, NODES, Scene, WORKTREES, YARD};

/// Looks at everything.
pub(crate) fn check(scene: &Scene, entries: &[Entry]) -> Vec<Check> {
    let mut checks = vec![free_again(scene)];
    for ward in FURNISHED {
        let events = events(scene, ward);
        let verified = scene.run(ward, &["ledger", "verify"]);
        checks.push(Check::new(format!("{ward}: the ledger is sound"), not_0(&verified)));
        checks.push(Check::new(
            format!("no-overwrite: {ward}: every acknowledged event is there once, under its number"),
            lost_events(&events, ward, entries),
        ));
        let missed = [Entry { at: 0, who: 0, deed: promised(ward) }];
        let found = lost_events(&events, ward, &missed).len() == 1;
        checks.push(Check::holds(
            format!("{ward}: an acknowledged event that isn't there is missed"),
            found,
            "it isn't",
        ));
        checks.push(Check::new(
            format!("{ward}: no node was claimed while another had it, as the events tell"),
            double_claims(&events),
        ));
        checks.push(
            Check::holds(
                format!("{ward}: a node that is claimed while another has it is noticed"),
                double_claims(&with_double_claim(&events)).len() > double_claims(&events).len(),
                "it isn't, or nobody claimed any",
            )
            .about_the_run(),
        );
        checks.push(Check::new(
            format!("all-or-nothing: {ward}: every acknowledged snapshot is there and whole"),
            missing_snapshots(scene, ward),
        ));
    }
    checks.push(Check::new(
        "all-or-nothing: nest: every acknowledged snapshot is there and whole",
        missing_snapshots(scene, "nest"),
    ));
    checks.push(Check::new("one-holder: yard: its worktrees share one root", more_roots(scene)));
    for ward in ["main", "disk", "fenced", "yard", "nest"] {
        // What killed commands left behind is found, and can be mended; then nothing is left to find.
        let mended = scene.run(ward, &["doctor", "--strict", "--fix"]);
        let found = scene.run(ward, &["doctor", "--strict"]);
        let broken = not_0(&found).map(|why| format!("{why}; after {mended:?}"));
        checks.push(Check::new(format!("{ward}: doctor --strict finds nothing after the dust has settled"), broken));
    }
    for ward in ["main", "mess", "disk", "fenced", "twin", "yard", "nest"] {
        let mended = scene.run(ward, &["doctor", "--fix"]);
        let found = scene.run(ward, &["doctor"]);
        let broken = not_0(&found).map(|why| format!("{why}; after {mended:?}"));
        checks.push(Check::new(format!("{ward}: doctor finds nothing wrong with the root"), broken));
    }
    checks
}

fn not_0(ended: &Ended) -> Option<String> {
    (ended.code != Some(0)).then(|| format!("{ended:?}"))
}

/// Roots of the yard beside the one in its repository.
fn more_roots(scene: &Scene) -> Vec<String> {
    let base = scene.base("yard");
    let own = base.join(".jvs/lokt");
    let mut broken: Vec<String> = Vec::new();
    broken.extend((!own.join("locks").is_dir()).then(|| format!("{} isn't used", own.display())));
    let places = YARD.iter().map(|place| base.join(place)).chain([base.join("worktrees/w2")]);
    let roots = places.flat_map(|place| [place.join(".lokt"), place.join(".git/lokt")]);
    broken.extend(roots.filter(|root| root.exists()).map(|root| format!("{} is a second root", root.display())));
    broken
}

/// Whoever comes now gets everything: names at once, what has a lease when that is over.
fn free_again(scene: &Scene) -> Check {
    let mut broken = Vec::new();
    let mut demand = |ward: &str, args: &[&str]| {
        let ended = scene.run(ward, args);
        broken.extend(not_0(&ended).map(|why| format!("{ward}: {args:?}: {why}")));
    };
    let names = |ward: &str| match ward {
        "mess" => MESSY.to_vec(),
        "disk" | "yard" | "nest" => LASTING.to_vec(),
        "fenced" | "twin" => vec!["r"],
        _ => [LASTING.as_slice(), &BRIEF].concat(),
    };
    for ward in ["main", "mess", "disk", "fenced", "twin", "yard", "nest"] {
        for name in names(ward) {
            demand(ward, &["guard", name, "--", "true"]);
        }
    }
    for ward in FURNISHED {
        for node in NODES {
            demand(ward, &["claim", "take", node, "--ttl", "1m", "--timeout", "5s"]);
            demand(ward, &["claim", "release", node]);
        }
        for worktree in WORKTREES {
            let session = scene.dir.join("scratch/last.session").display().to_string();
            let same = ["--worktree", worktree, "--session", &session];
            demand(ward, &[&["lease", "acquire", "--timeout", "15s"], &same[..]].concat());
            demand(ward, &[&["lease", "release"], &same[..]].concat());
        }
    }
    Check::new("crash-frees: everything can be had again, and nothing is stuck", broken)
}

/// All events of a ward's ledger, by number.
fn events(scene: &Scene, ward: &str) -> BTreeMap<u64, Value> {
    let entries = fs::read_dir(scene.base(ward).join("ledger")).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix("event-")?.strip_suffix(".json")?.parse().ok();
    let event = |entry: fs::DirEntry| {
        let number = number(entry.file_name().to_str()?)?;
        let value = fs::read(entry.path()).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Some((number, value.unwrap_or(Value::Null)))
    };
    entries.filter_map(event).collect()
}

fn lost_events(events: &BTreeMap<u64, Value>, ward: &str, entries: &[Entry]) -> Vec<String> {
    let mut numbers: HashMap<&str, Vec<u64>> = HashMap::new();
    for (number, event) in events {
        if let Some(text) = event["text"].as_str() {
            numbers.entry(text).or_default().push(*number);
        }
    }
    let mut broken: Vec<String> = Vec::new();
    for (text, numbers) in &numbers {
        if numbers.len() > 1 {
            broken.push(format!("{text} is there {} times: {numbers:?}", numbers.len()));
        }
    }
    for entry in entries {
        let Deed::Appended { ledger, key, number } = &entry.deed else { continue };
        if ledger == ward && numbers.get(key.as_str()).is_none_or(|numbers| !numbers.contains(number)) {
            broken.push(format!("{key} was acknowledged as event {number}, which says {:?}", events.get(number)));
        }
    }
    broken
}

/// An acknowledgement of what nobody appended.
fn promised(ward: &str) -> Deed {
    Deed::Appended { ledger: ward.into(), key: "nobody".into(), number: 1 }
}

/// Whoever claims a node frees it first in the same step if the claim before is over.
fn double_claims(events: &BTreeMap<u64, Value>) -> Vec<String> {
    let mut holders: HashMap<&str, (u64, &str)> = HashMap::new();
    let mut broken = Vec::new();
    for (number, event) in events {
        let Some(node) = event["node_id"].as_str() else { continue };
        let owner = event["owner"].as_str().unwrap_or_default();
        match event["type"].as_str() {
            Some("lock_acquired") => {
                if let Some((before, holder)) = holders.get(node)
                    && *holder != owner
                {
                    broken.push(format!("event {number}: {owner} claims {node}, which {holder} has since {before}"));
                }
                holders.insert(node, (*number, owner));
            }
            Some("lock_released" | "lock_reaped") => {
                holders.remove(node);
            }
            _ => {}
        }
    }
    broken
}

/// The same events, and one more right after the first claim: somebody else claims the same.
fn with_double_claim(events: &BTreeMap<u64, Value>) -> BTreeMap<u64, Value> {
    let mut planted: BTreeMap<u64, Value> = events.iter().map(|(number, event)| (2 * number, event.clone())).collect();
    let claim = events.iter().find(|(_, event)| event["type"] == "lock_acquired" && event["node_id"].is_string());
    if let Some((number, event)) = claim {
        let mut second = event.clone();
        second["owner"] = "intruder".into();
        planted.insert(2 * number + 1, second);
    }
    planted
}

fn missing_snapshots(scene: &Scene, ward: &str) -> Vec<String> {
    let acknowledged = fs::read_to_string(scene.dir.join(format!("snapshots-{ward}"))).unwrap_or_default();
    let history = scene.run(ward, &["snapshot", "history", "--all", "--json"]);
    let mut broken: Vec<String> = acknowledged
        .lines()
        .filter(|id| !history.stdout.contains(*id))
        .map(|id| format!("snapshot {id} was acknowledged and isn't there"))
        .collect();
    let count = acknowledged.lines().count();
    if count == 0 {
        broken.push("none was acknowledged, so nothing was shown".into());
    }
    let verified = scene.run(ward, &["snapshot", "verify", "--all"]);
    broken.extend(not_0(&verified));
    broken
}
