//! Deadlock detection: finds a cycle of processes, each of which holds what the next one waits for.
//!
//! Every pulse in a queue lists what its process holds, so the queues together are the whole graph.
//! It is read without the mutex, one queue after the other, so the combined graph may never have
//! existed at any one moment. But a real deadlock persists: a cycle counts only if a second read
//! finds it again.

use std::collections::HashSet;

use lokt_core::decide::InheritedHold;
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;

use crate::inspect::Inspection;
use crate::store::{Call, Depth, Scan, Waiter};
use lokt_sys::error::Error;

/// One process in a cycle.
#[derive(Debug, Clone)]
pub struct Link {
    /// The lock that it holds.
    pub holds: LockName,
    /// The lock that it waits for.
    pub waits_for: LockName,
    /// The process itself.
    pub waiter: Waiter,
}

impl Inspection<'_> {
    /// Returns the cycle that keeps `name` from ever becoming free, if there is one.
    pub fn deadlock(self, name: &LockName) -> Result<Option<Vec<Link>>, Error> {
        let Some(found) = circle(&self.links()?, name) else { return Ok(None) };
        // Tickets and holds never come back: those found by both reads existed all the time between
        // them.
        let now = self.links()?;
        Ok(found.iter().all(|link| now.iter().any(|same| same.is(link))).then_some(found))
    }

    /// Returns all processes that hold something and wait for something.
    fn links(self) -> Result<Vec<Link>, Error> {
        let queues = self.lokt.scan(Scan::Awaited, Depth::QUEUE, |name, view| Some((name.clone(), view.queue)))?;
        let mut links = Vec::new();
        for (waits_for, waiters) in queues {
            for waiter in waiters {
                for (holds, inherited_hold) in InheritedHolds::parse(&waiter.pulse.holds).iter() {
                    if self.is_held_as(holds, inherited_hold) {
                        let (holds, waits_for, waiter) = (holds.clone(), waits_for.clone(), waiter.clone());
                        links.push(Link { holds, waits_for, waiter });
                    }
                }
            }
        }
        Ok(links)
    }

    fn is_held_as(self, name: &LockName, inherited_hold: &InheritedHold) -> bool {
        let Ok(view) = self.lokt.store().view(name, Depth::HOLDER, None, &Call::UNLIMITED) else { return false };
        view.slot.holder().is_some_and(|holder| {
            let InheritedHold { lock_id, token, .. } = inherited_hold;
            holder.lives() && holder.hold.lock_id == *lock_id && holder.hold.token == *token
        })
    }
}

impl Link {
    fn is(&self, other: &Self) -> bool {
        let key = |link: &Self| (link.holds.clone(), link.waits_for.clone(), link.waiter.ticket.number);
        key(self) == key(other)
    }
}

/// Follows the links from `name` until it reaches a lock that is already on the current path.
fn circle(links: &[Link], name: &LockName) -> Option<Vec<Link>> {
    follow(links, name, &mut Vec::new(), &mut HashSet::new())
}

fn follow(links: &[Link], name: &LockName, way: &mut Vec<Link>, been: &mut HashSet<LockName>) -> Option<Vec<Link>> {
    if let Some(start) = way.iter().position(|link| link.holds == *name) {
        return Some(way.split_off(start));
    }
    // No cycle can be reached from a lock that was already visited.
    if !been.insert(name.clone()) {
        return None;
    }
    for link in links.iter().filter(|link| link.holds == *name) {
        way.push(link.clone());
        if let Some(found) = follow(links, &link.waits_for, way, been) {
            return Some(found);
        }
        way.pop();
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
        let links = circle(links, &name(start))?;
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

    #[test]
    fn many_ways_to_the_same_end_are_gone_once() {
        let names: Vec<String> = (0..40).map(|n| format!("n{n}")).collect();
        let twice = names.windows(2).flat_map(|pair| [link(&pair[0], &pair[1]), link(&pair[0], &pair[1])]);
        let links: Vec<Link> = twice.collect();
        assert_eq!(found(&links, "n0"), None, "2^39 ways lead to n39, and none back");
    }
}
