//! Locks that somebody breaks by force: they stay broken, and the line in the log that says so is durable.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use lokt_testkit::dice::Dice;
use lokt_testkit::swarm::put;
use serde_json::{Value, json};

use super::locks::record;
use super::{Acks, Actor};
use crate::site::{Call, Highest, Site, Stop};
use crate::stored::{Stored, number, text};
use crate::tally::Tally;

const NAME: &str = "broken";

/// Somebody who locks, and somebody who breaks.
pub(crate) struct Breaks {
    tokens: Arc<Highest>,
    /// Ids of what was broken.
    broken: BTreeSet<(String, String)>,
    asked: bool,
}

impl Breaks {
    pub(crate) fn new(tokens: &Arc<Highest>) -> Self {
        Self { tokens: Arc::clone(tokens), broken: BTreeSet::new(), asked: false }
    }

    fn lock(&mut self, site: &Site) -> Result<String, Stop> {
        let answer = site.answer_soon(&Call::new("grace", &format!("lock {NAME} --json")), &record(site, NAME))?;
        // It may be a refresh of what was never answered: no new token then.
        self.tokens.given(0, number(&answer, "fencing_token"), NAME)?;
        Ok(text(&answer, "lock_id"))
    }

    /// Locks and breaks.
    fn break_one(&mut self, site: &Site) -> Result<String, Stop> {
        let id = self.lock(site)?;
        self.asked = true;
        site.answer(&Call::new("heidi", &format!("unlock --force {NAME} --lock-id {id} --json")))?;
        self.asked = false;
        self.broken.insert(("force-break".into(), id.clone()));
        Ok(id)
    }
}

impl Actor for Breaks {
    fn kind(&self) -> &'static str {
        "break"
    }

    fn kinds(&self) -> Vec<&'static str> {
        vec!["audit line", "break"]
    }

    fn move_in(&mut self, _: &Site) -> Result<(), Stop> {
        Ok(())
    }

    fn step(&mut self, site: &Site, _: &mut Dice) -> Result<Acks, Stop> {
        self.break_one(site)?;
        Ok(vec![("break", 1), ("audit line", 1)])
    }

    fn look(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        if self.asked {
            tally.in_flight("break");
        }
        self.asked = false;
        let stored = Stored::read(&record(site, NAME));
        let back = match &stored {
            Stored::Record { id, .. } => self.broken.iter().any(|(_, broken)| broken == id),
            Stored::Torn(_) => true,
            Stored::Nothing | Stored::Blank => false,
        };
        tally.check("break", !back, || format!("what was broken stays so: {stored}"));
        let events = events_in_log(site)?;
        for told in &self.broken {
            tally.check("audit line", events.contains(told), || format!("{told:?} is in the log"));
        }
        Ok(())
    }

    fn go_on(&mut self, site: &Site, _: &mut Tally) -> Result<(), Stop> {
        self.lock(site).map(drop)
    }

    fn lose(&mut self, site: &Site, kind: &'static str) -> Result<(), Stop> {
        let id = self.break_one(site)?;
        match kind {
            "break" => put(&record(site, NAME), json!({"lock_id": id, "fencing_token": 1}).to_string()),
            _ => lose_line(site, &id),
        }
        Ok(())
    }
}

/// Takes the lines about a hold or freeze out of the log.
pub(super) fn lose_line(site: &Site, id: &str) {
    let log = site.at("root/audit.log");
    let text = fs::read_to_string(&log).expect("a log can be read");
    let kept: String = text.split_inclusive('\n').filter(|line| !line.contains(id)).collect();
    put(&log, kept);
}

/// Which events the log has about which hold or freeze.
pub(super) fn events_in_log(site: &Site) -> Result<BTreeSet<(String, String)>, Stop> {
    let call = Call::new("reader", "audit --json");
    let ended = site.run(&call);
    site.judge(&call, &ended)?;
    let lines = ended.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(lines.map(|line| (text(&line, "event"), text(&line, "lock_id"))).collect())
}
