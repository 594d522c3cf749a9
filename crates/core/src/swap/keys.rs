//! The keys of a space, built and parsed.
//!
//! ```text
//! /lokt/<space>/meta, meta/life                format, id, base; life of a space-wide freeze
//! /lokt/<space>/n/<name>/cell                  version of the name
//! /lokt/<space>/n/<name>/m/<lock_id>/who       member: the record of a hold
//! /lokt/<space>/n/<name>/m/<lock_id>/process   life of its process part
//! /lokt/<space>/n/<name>/m/<lock_id>/owner     life of its owner part, if that has a TTL
//! /lokt/<space>/n/<name>/freeze/who, life      freeze, and its life if it has a TTL
//! /lokt/<space>/n/<name>/line/<place>/<session> ticket
//! /lokt/<space>/a/<rev>/<op>/<i>               audit event; rev: the look it was judged by
//! /lokt/<space>/d/<name>/<owner hash>          last refusal
//! ```
//!
//! Names, lock ids and session ids have no `/`, so one span below `n/<name>` is exactly one name.
//! Numbers in keys are hexadecimal with leading zeros, so that keys sort like the numbers.

use alloc::format;
use alloc::string::String;

use super::Op;
use crate::engine::{Key, Rev, SessionId, Span};
use crate::fnv::fnv1a_64;
use crate::hold::LockId;
use crate::name::LockName;

/// A space: a separate set of names on an engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Space {
    /// It ends with a `/`.
    prefix: String,
}

/// The meaning of a key of a space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The version of the space.
    Meta,
    /// The life of a space-wide freeze.
    MetaLife,
    /// A key of a name.
    Name(LockName, NamePlace),
    /// An audit event.
    Audit {
        /// The revision of the read on which the decision was based.
        rev: Rev,
        /// The request.
        op: Op,
        /// Its number in the change.
        i: u32,
    },
    /// The last refusal of an owner.
    Denial(LockName, String),
}

/// The meaning of a key of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamePlace {
    /// The version of the name.
    Cell,
    /// The record of a member.
    Who(LockId),
    /// The life of a member's process part.
    Process(LockId),
    /// The life of a member's owner part.
    Owner(LockId),
    /// The record of a freeze.
    FreezeWho,
    /// The life of a freeze.
    FreezeLife,
    /// A waiter's ticket.
    Ticket(Rev, SessionId),
}

impl Space {
    /// The space of this name. Spaces are named like locks: without `/`.
    pub fn new(name: &LockName) -> Self {
        Self { prefix: format!("/lokt/{name}/") }
    }

    fn key(&self, rest: &str) -> Key {
        Key(format!("{}{rest}", self.prefix))
    }

    /// The version of the space.
    pub fn meta(&self) -> Key {
        self.key("meta")
    }

    /// The life of a space-wide freeze.
    pub fn meta_life(&self) -> Key {
        self.key("meta/life")
    }

    /// The keys of a name.
    pub fn name(&self, name: &LockName) -> NameKeys {
        NameKeys { prefix: format!("{}n/{name}/", self.prefix) }
    }

    /// All names.
    pub fn names(&self) -> Span {
        Span::Below(self.key("n"))
    }

    /// An audit event: number `i` of a change that `op` planned after a read at `rev`.
    pub fn audit(&self, rev: Rev, op: Op, i: u32) -> Key {
        self.key(&format!("a/{:016x}/{op}/{i}", rev.0))
    }

    /// All audit events.
    pub fn audits(&self) -> Span {
        Span::Below(self.key("a"))
    }

    /// The last refusal of `owner`.
    pub fn denial(&self, name: &LockName, owner: &str) -> Key {
        self.key(&format!("d/{name}/{:016x}", fnv1a_64(owner.as_bytes())))
    }

    /// Returns the meaning of `key`; `None` if it isn't in this space, or is of an unknown kind.
    pub fn parse(&self, key: &Key) -> Option<Place> {
        let rest = key.0.strip_prefix(self.prefix.as_str())?;
        let mut words = rest.split('/');
        let place = match (words.next()?, words.next()) {
            ("meta", None) => Place::Meta,
            ("meta", Some("life")) => Place::MetaLife,
            ("n", Some(name)) => Place::Name(LockName::new(name).ok()?, name_place(&mut words)?),
            ("a", Some(rev)) => {
                let rev = Rev(from_hex::<16>(rev)?.try_into().ok()?);
                let op = Op(from_hex::<32>(words.next()?)?);
                Place::Audit { rev, op, i: words.next()?.parse().ok()? }
            }
            ("d", Some(name)) => Place::Denial(LockName::new(name).ok()?, words.next()?.into()),
            _ => return None,
        };
        words.next().is_none().then_some(place)
    }
}

fn name_place<'k>(words: &mut impl Iterator<Item = &'k str>) -> Option<NamePlace> {
    Some(match words.next()? {
        "cell" => NamePlace::Cell,
        "m" => {
            let id = LockId::from_text(words.next()?);
            match words.next()? {
                "who" => NamePlace::Who(id),
                "process" => NamePlace::Process(id),
                "owner" => NamePlace::Owner(id),
                _ => return None,
            }
        }
        "freeze" => match words.next()? {
            "who" => NamePlace::FreezeWho,
            "life" => NamePlace::FreezeLife,
            _ => return None,
        },
        "line" => {
            let place = Rev(from_hex::<16>(words.next()?)?.try_into().ok()?);
            NamePlace::Ticket(place, SessionId(from_hex::<16>(words.next()?)?.try_into().ok()?))
        }
        _ => return None,
    })
}

/// Parses a number of exactly that many lowercase digits: every number has one key.
fn from_hex<const DIGITS: usize>(text: &str) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == DIGITS && text.bytes().all(is_digit)).then_some(())?;
    u128::from_str_radix(text, 16).ok()
}

/// The keys of one name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NameKeys {
    /// It ends with a `/`.
    prefix: String,
}

impl NameKeys {
    fn key(&self, rest: &str) -> Key {
        Key(format!("{}{rest}", self.prefix))
    }

    /// All keys of the name.
    pub fn all(&self) -> Span {
        Span::Below(Key(self.prefix.trim_end_matches('/').into()))
    }

    /// The version of the name.
    pub fn cell(&self) -> Key {
        self.key("cell")
    }

    /// The key below which the keys of a member are.
    pub fn member(&self, id: &LockId) -> Key {
        debug_assert!(!id.is_empty() && !id.as_str().contains('/'), "{id} can't be part of a key");
        self.key(&format!("m/{id}"))
    }

    /// The record of a member.
    pub fn who(&self, id: &LockId) -> Key {
        Key(format!("{}/who", self.member(id)))
    }

    /// The life of a member's process part.
    pub fn process(&self, id: &LockId) -> Key {
        Key(format!("{}/process", self.member(id)))
    }

    /// The life of a member's owner part.
    pub fn owner(&self, id: &LockId) -> Key {
        Key(format!("{}/owner", self.member(id)))
    }

    /// The key below which the keys of a freeze are.
    pub fn freeze(&self) -> Key {
        self.key("freeze")
    }

    /// The record of a freeze.
    pub fn freeze_who(&self) -> Key {
        self.key("freeze/who")
    }

    /// The life of a freeze.
    pub fn freeze_life(&self) -> Key {
        self.key("freeze/life")
    }

    /// A waiter's ticket.
    pub fn ticket(&self, place: Rev, session: SessionId) -> Key {
        self.key(&format!("line/{:016x}/{:016x}", place.0, session.0))
    }

    /// The whole queue.
    pub fn line(&self) -> Span {
        Span::Below(self.key("line"))
    }

    /// The queue ahead of a ticket.
    pub fn line_before(&self, ticket: &Key) -> Span {
        Span::Between(self.key("line/"), ticket.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> LockName {
        LockName::new(text).expect("a good name")
    }

    #[test]
    fn every_key_reads_back_as_what_it_was_built_for() {
        let space = Space::new(&name("acme"));
        let keys = space.name(&name("build"));
        let id = LockId::from_bits(7);
        let (place, session) = (Rev(0x1f), SessionId(0xabc));
        let of_name = |place| Place::Name(name("build"), place);
        let long = "/lokt/acme/n/build/m/00000000000000000000000000000007";
        for (key, text, place) in [
            (space.meta(), "/lokt/acme/meta", Place::Meta),
            (space.meta_life(), "/lokt/acme/meta/life", Place::MetaLife),
            (keys.cell(), "/lokt/acme/n/build/cell", of_name(NamePlace::Cell)),
            (keys.who(&id), &format!("{long}/who"), of_name(NamePlace::Who(id.clone()))),
            (keys.process(&id), &format!("{long}/process"), of_name(NamePlace::Process(id.clone()))),
            (keys.owner(&id), &format!("{long}/owner"), of_name(NamePlace::Owner(id.clone()))),
            (keys.freeze_who(), "/lokt/acme/n/build/freeze/who", of_name(NamePlace::FreezeWho)),
            (keys.freeze_life(), "/lokt/acme/n/build/freeze/life", of_name(NamePlace::FreezeLife)),
            (
                keys.ticket(place, session),
                "/lokt/acme/n/build/line/000000000000001f/0000000000000abc",
                of_name(NamePlace::Ticket(place, session)),
            ),
            (
                space.audit(Rev(0x2a), Op(1), 3),
                "/lokt/acme/a/000000000000002a/00000000000000000000000000000001/3",
                Place::Audit { rev: Rev(0x2a), op: Op(1), i: 3 },
            ),
        ] {
            assert_eq!(key.0, text);
            assert_eq!(space.parse(&key), Some(place));
        }
        let denial = space.denial(&name("build"), "alice");
        assert!(matches!(space.parse(&denial), Some(Place::Denial(_, hash)) if hash.len() == 16));
    }

    #[test]
    fn what_is_no_key_of_the_space_is_left_alone() {
        let space = Space::new(&name("acme"));
        for text in [
            "/lokt/acme2/meta",
            "/lokt/acme/",
            "/lokt/acme/meta/life/x",
            "/lokt/acme/n/a/b/cell",
            "/lokt/acme/n/build/m/1",
            "/lokt/acme/n/build/m/1/else",
            "/lokt/acme/n/build/line/1f/abc",
            "/lokt/acme/n/build/line/000000000000001F/0000000000000abc",
            "/lokt/acme/a/000000000000002a/1/0",
            "/lokt/acme/r/x",
        ] {
            assert_eq!(space.parse(&Key(text.into())), None, "{text}");
        }
    }

    #[test]
    fn the_order_of_tickets_is_that_of_their_places_and_then_of_their_sessions() {
        let keys = Space::new(&name("acme")).name(&name("build"));
        let ticket = |place, session| keys.ticket(Rev(place), SessionId(session));
        let line = [ticket(9, 2), ticket(9, 10), ticket(16, 1), ticket(u64::MAX, 0)];
        assert!(line.is_sorted());
        let before = keys.line_before(&line[2]);
        let found: alloc::vec::Vec<_> = line.iter().map(|key| before.contains(key)).collect();
        assert_eq!(found, [true, true, false, false]);
        assert!(line.iter().all(|key| keys.line().contains(key)));
    }
}
