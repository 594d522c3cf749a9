//! Who waits for whom: a circle of processes each of which holds what the next one waits for.
//!
//! Every pulse in a line carries what its process holds, so the lines together are the whole graph. It is read without the mutex: what
//! it finds may be over a moment later, but a real deadlock stays.

use lokt_core::badges::Badges;
use lokt_core::decide::Badge;
use lokt_core::name::LockName;

use crate::error::{At as _, Error};
use crate::locks::Lokt;
use crate::store::line::{LINE_DIR, Waiter};
use crate::store::record_path;

/// One process in a circle.
#[derive(Debug, Clone)]
pub struct Link {
    /// What it holds.
    pub holds: LockName,
    /// What it waits for.
    pub waits_for: LockName,
    /// Who it is.
    pub waiter: Waiter,
}

impl Lokt {
    /// The circle that keeps `name` from ever becoming free, if there is one.
    pub fn deadlock(&self, name: &LockName) -> Result<Option<Vec<Link>>, Error> {
        let mut links = Vec::new();
        for line in self.disk().list(LINE_DIR).at("list", self.root(), LINE_DIR)? {
            let Ok(waits_for) = LockName::new(&line) else { continue };
            for waiter in self.queue(&waits_for)? {
                for (holds, badge) in Badges::parse(&waiter.pulse.holds).iter() {
                    if self.is_held_as(holds, badge) {
                        let (holds, waits_for, waiter) = (holds.clone(), waits_for.clone(), waiter.clone());
                        links.push(Link { holds, waits_for, waiter });
                    }
                }
            }
        }
        Ok(circle(&links, name, &mut Vec::new()))
    }

    fn is_held_as(&self, name: &LockName, badge: &Badge) -> bool {
        let found = self.store().find(&record_path(name), name.as_str(), &self.now());
        let lives = found.holder().is_some_and(|holder| holder.lives());
        lives && found.hold().is_some_and(|hold| hold.lock_id == badge.lock_id && hold.token == badge.token)
    }
}

/// Follows the links from `name` until it comes to a lock that it has been at.
fn circle(links: &[Link], name: &LockName, been: &mut Vec<Link>) -> Option<Vec<Link>> {
    if let Some(start) = been.iter().position(|link| link.holds == *name) {
        return Some(been.split_off(start));
    }
    for link in links.iter().filter(|link| link.holds == *name) {
        been.push(link.clone());
        if let Some(found) = circle(links, &link.waits_for, been) {
            return Some(found);
        }
        been.pop();
    }
    None
}

#[cfg(test)]
mod tests {
    use lokt_core::line::Ticket;
    use lokt_core::pulse::Pulse;

    use super::*;

    fn name(text: &str) -> LockName {
        LockName::new(text).expect("a name")
    }

    fn link(holds: &str, waits_for: &str) -> Link {
        let json = br#"{"version":1,"owner":"a","process":{"pid":1,"start":1},"since":""}"#;
        let pulse = Pulse::parse(json).expect("a pulse");
        let ticket = Ticket { number: 1, stopped: false, offered_ms: None };
        Link { holds: name(holds), waits_for: name(waits_for), waiter: Waiter { pulse, ticket } }
    }

    fn found(links: &[Link], start: &str) -> Option<Vec<String>> {
        let links = circle(links, &name(start), &mut Vec::new())?;
        Some(links.iter().map(|link| link.holds.to_string()).collect())
    }

    #[test]
    fn a_circle_is_found_from_wherever_it_blocks() {
        let links = [link("c", "a"), link("a", "b"), link("b", "c"), link("x", "a")];
        assert_eq!(found(&links, "a"), Some(vec!["a".into(), "b".into(), "c".into()]));
        assert_eq!(found(&links, "x"), Some(vec!["a".into(), "b".into(), "c".into()]), "x waits for the circle");
        assert_eq!(found(&links, "y"), None);
    }

    #[test]
    fn a_chain_that_ends_is_no_circle() {
        assert_eq!(found(&[link("a", "b"), link("b", "c")], "a"), None);
        let fork = [link("a", "b"), link("a", "c"), link("c", "a")];
        assert_eq!(found(&fork, "a"), Some(vec!["a".into(), "c".into()]), "one way of two leads back");
    }
}
