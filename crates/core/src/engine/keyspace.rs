//! An engine in memory: keys, revisions and sessions, without requests in flight and without time.
//!
//! Changes are applied one after the other. A session ends when the caller says so: nothing here
//! reads a clock.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{Change, Item, Key, Made, Pin, Rev, SessionId, Sight, Span, Term, Write};

/// A change that puts a key under a session that doesn't exist. Nothing of it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NoSession(pub SessionId);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    value: Vec<u8>,
    born: Rev,
    since: Rev,
    session: Option<SessionId>,
}

impl Entry {
    fn item(&self, key: &Key) -> Item {
        let Self { value, born, since, session } = self;
        Item { key: key.clone(), value: value.clone(), born: *born, since: *since, session: *session }
    }
}

/// Keys with their revisions, and the sessions that exist.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Keyspace {
    at: Rev,
    term: Term,
    entries: BTreeMap<Key, Entry>,
    sessions: BTreeSet<SessionId>,
}

impl Keyspace {
    /// The revision of the last change.
    pub fn at(&self) -> Rev {
        self.at
    }

    /// The current term.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Makes another server the leader.
    pub fn elect(&mut self) {
        self.term.0 += 1;
    }

    /// Opens a session. Opening one that exists changes nothing.
    pub fn open(&mut self, session: SessionId) {
        self.sessions.insert(session);
    }

    /// Reports whether this session exists.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.contains(&session)
    }

    /// All sessions that exist.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.iter().copied()
    }

    /// Ends a session, and deletes its keys in one revision. Returns false if it doesn't exist.
    pub fn end(&mut self, session: SessionId) -> bool {
        let existed = self.sessions.remove(&session);
        let keys = self.entries.len();
        self.entries.retain(|_, entry| entry.session != Some(session));
        if self.entries.len() != keys {
            self.at.0 += 1;
        }
        existed
    }

    /// The item of one key.
    pub fn item(&self, key: &Key) -> Option<Item> {
        self.entries.get(key).map(|entry| entry.item(key))
    }

    /// Reads all spans at the current revision.
    pub fn look(&self, spans: &[Span]) -> Sight {
        let spans = spans.iter().map(|span| self.span(span)).collect();
        Sight { at: self.at, term: self.term, spans }
    }

    fn span(&self, span: &Span) -> Vec<Item> {
        let mut found = self.within(span).map(|(key, entry)| entry.item(key));
        match span {
            Span::Last(..) => found.next_back().into_iter().collect(),
            _ => found.collect(),
        }
    }

    fn within<'s>(&'s self, span: &'s Span) -> impl DoubleEndedIterator<Item = (&'s Key, &'s Entry)> + 's {
        self.entries.iter().filter(|(key, _)| span.contains(key))
    }

    fn holds(&self, pin: &Pin) -> bool {
        match pin {
            Pin::Since(key, since) => self.entries.get(key).map_or(Rev::NEVER, |entry| entry.since) == *since,
            Pin::Born(key, born) => self.entries.get(key).map_or(Rev::NEVER, |entry| entry.born) == *born,
            Pin::Empty(span) => self.within(span).next().is_none(),
        }
    }

    /// Applies a change as one step. Pins are checked before sessions, as in etcd: a change whose
    /// pins fail is answered with a read, even if its session is gone.
    pub fn apply(&mut self, change: &Change) -> Result<Made, NoSession> {
        debug_assert!(are_apart(&change.writes), "no two writes concern one key: {change:?}");
        if !change.pins.iter().all(|pin| self.holds(pin)) {
            return Ok(Made::Else(self.look(&change.look)));
        }
        let gone = change.writes.iter().find_map(|write| match write {
            Write::Put(_, _, Some(session)) if !self.has_session(*session) => Some(*session),
            _ => None,
        });
        if let Some(session) = gone {
            return Err(NoSession(session));
        }
        self.at.0 += 1;
        for write in &change.writes {
            self.write(write);
        }
        Ok(Made::Done { at: self.at, term: self.term })
    }

    fn write(&mut self, write: &Write) {
        match write {
            Write::Put(key, value, session) => {
                let born = self.entries.get(key).map_or(self.at, |entry| entry.born);
                let entry = Entry { value: value.clone(), born, since: self.at, session: *session };
                self.entries.insert(key.clone(), entry);
            }
            Write::Drop(key) => drop(self.entries.remove(key)),
            Write::DropBelow(above) => {
                self.entries.retain(|key, _| !super::is_below(key, above));
            }
        }
    }
}

/// Reports whether every key belongs to at most one write.
fn are_apart(writes: &[Write]) -> bool {
    writes.iter().enumerate().all(|(n, write)| {
        writes.iter().skip(n + 1).all(|other| match (write, other) {
            (Write::DropBelow(above), Write::Put(key, ..) | Write::Drop(key))
            | (Write::Put(key, ..) | Write::Drop(key), Write::DropBelow(above)) => !super::is_below(key, above),
            (Write::DropBelow(one), Write::DropBelow(two)) => {
                one != two && !super::is_below(one, two) && !super::is_below(two, one)
            }
            (Write::Put(one, ..) | Write::Drop(one), Write::Put(two, ..) | Write::Drop(two)) => one != two,
        })
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn key(text: &str) -> Key {
        Key(text.into())
    }

    fn put(text: &str) -> Change {
        Change { writes: vec![Write::Put(key(text), vec![], None)], ..Change::default() }
    }

    fn keys(space: &Keyspace, span: Span) -> Vec<std::string::String> {
        let sight = space.look(&[span]);
        sight.spans.into_iter().flatten().map(|item| item.key.0).collect()
    }

    #[test]
    fn revisions_grow_over_all_keys_and_a_key_keeps_its_birth() {
        let mut space = Keyspace::default();
        for text in ["a", "b", "a"] {
            space.apply(&put(text)).expect("it has no session");
        }
        let item = space.item(&key("a")).expect("it was put");
        assert_eq!((item.born, item.since, space.at()), (Rev(1), Rev(3), Rev(3)));
    }

    #[test]
    fn a_span_below_a_key_has_neither_the_key_nor_its_neighbours() {
        let mut space = Keyspace::default();
        for text in ["n/a", "n/a-b/cell", "n/a/cell", "n/a/m/1", "n/a.c/cell", "n/a0"] {
            space.apply(&put(text)).expect("it has no session");
        }
        assert_eq!(keys(&space, Span::Below(key("n/a"))), ["n/a/cell", "n/a/m/1"]);
        assert_eq!(keys(&space, Span::Between(key("n/a/"), key("n/a0"))), ["n/a/cell", "n/a/m/1"]);
        assert_eq!(keys(&space, Span::Last(key("n/a/"), key("n/a0"))), ["n/a/m/1"]);
    }

    #[test]
    fn a_change_is_made_whole_or_not_at_all() {
        let mut space = Keyspace::default();
        space.apply(&put("a")).expect("it has no session");
        let refused = Change {
            pins: vec![Pin::Since(key("a"), Rev(1)), Pin::Since(key("b"), Rev(7))],
            writes: vec![Write::Drop(key("a"))],
            look: vec![Span::One(key("a"))],
        };
        let Ok(Made::Else(sight)) = space.apply(&refused) else { panic!("b is absent") };
        assert_eq!((sight.at, sight.spans[0].len(), space.at()), (Rev(1), 1, Rev(1)));
    }

    #[test]
    fn pins_hold_by_last_write_by_birth_and_by_absence() {
        let mut space = Keyspace::default();
        space.apply(&put("a/x")).expect("it has no session");
        space.apply(&put("a/x")).expect("it has no session");
        for (pin, holds) in [
            (Pin::Since(key("a/x"), Rev(2)), true),
            (Pin::Since(key("a/x"), Rev(1)), false),
            (Pin::Since(key("b"), Rev::NEVER), true),
            (Pin::Born(key("a/x"), Rev(1)), true),
            (Pin::Born(key("b"), Rev(1)), false),
            (Pin::Empty(Span::Below(key("a"))), false),
            (Pin::Empty(Span::Below(key("a/x"))), true),
        ] {
            assert_eq!(space.holds(&pin), holds, "{pin:?}");
        }
    }

    #[test]
    fn a_session_takes_its_keys_along_and_nothing_is_put_under_one_that_is_gone() {
        let mut space = Keyspace::default();
        let session = SessionId(7);
        let leased = Change { writes: vec![Write::Put(key("a"), vec![], Some(session))], ..put("b") };
        assert_eq!(space.apply(&leased), Err(NoSession(session)));
        space.open(session);
        assert!(space.apply(&leased).is_ok());
        assert!(space.end(session));
        assert_eq!((space.item(&key("a")), space.at()), (None, Rev(2)));
        assert!(!space.end(session), "it has ended");
        assert_eq!(space.at(), Rev(2), "ending nothing changes nothing");
    }

    #[test]
    fn writes_that_overlap_are_told_apart() {
        let put = |text: &str| Write::Put(key(text), vec![], None);
        assert!(are_apart(&[put("a/b"), Write::DropBelow(key("a/c")), Write::Drop(key("a/d"))]));
        assert!(!are_apart(&[put("a/b"), Write::DropBelow(key("a"))]));
        assert!(!are_apart(&[Write::DropBelow(key("a/b")), Write::DropBelow(key("a"))]));
        assert!(!are_apart(&[put("a"), Write::Drop(key("a"))]));
    }
}
