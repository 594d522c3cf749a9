//! Many names, a page of keys at a time, all of one revision.

use std::collections::BTreeSet;

use lokt_core::engine::{Item, Key, Rev, Sight, Span};
use lokt_core::name::LockName;
use lokt_core::swap::View as Sighted;
use lokt_core::swap::keys::{NamePlace, Place};

use super::attempt::Pace;
use super::{Engine, Shared, Trouble};
use crate::store::{Call, Scan};
use lokt_sys::error::Error;

impl<E: Engine> Shared<E> {
    /// Returns all keys of a span, in their order. If the engine forgets an old revision in the
    /// meantime, they are read again.
    pub(super) fn all(&self, span: &Span, call: &Call<'_>) -> Result<Sight, Error> {
        let mut pace = Pace::default();
        loop {
            let mut found: Vec<Item> = Vec::new();
            let mut at: Option<Rev> = None;
            loop {
                let after: Option<Key> = found.last().map(|item| item.key.clone());
                match self.engine.page(span, after.as_ref(), at, call) {
                    Ok(Sight { at: seen, term, spans }) => {
                        let mut page: Vec<Item> = spans.into_iter().flatten().collect();
                        // The first page decides which revision is read.
                        let at = *at.get_or_insert(seen);
                        if page.is_empty() {
                            return Ok(Sight { at, term, spans: vec![found] });
                        }
                        found.append(&mut page);
                    }
                    Err(Trouble::Refused(_)) if at.is_some() && pace.rushed(self, call) => break,
                    Err(Trouble::Refused(error)) => return Err(error),
                    Err(_) if pace.troubled(self, call) => {}
                    Err(trouble) => return Err(trouble.into_error()),
                }
            }
        }
    }

    /// Returns the names for which something of this kind is stored, in order.
    pub(super) fn pages(&self, of: Scan, call: &Call<'_>) -> Result<Sighted, Error> {
        let mut sight = self.all(&self.space.names(), call)?;
        let is_of = |place: &NamePlace| match of {
            Scan::Held => matches!(place, NamePlace::Who(_)),
            Scan::Frozen => matches!(place, NamePlace::FreezeWho),
            Scan::Awaited => matches!(place, NamePlace::Ticket(..)),
        };
        let mut names: BTreeSet<LockName> = BTreeSet::new();
        for item in sight.spans.iter().flatten() {
            if let Some(Place::Name(name, place)) = self.space.parse(&item.key)
                && is_of(&place)
            {
                names.insert(name);
            }
        }
        let meta = self.see(&[Span::One(self.space.meta()), Span::One(self.space.meta_life())], call)?;
        sight.spans.splice(0..0, meta.spans);
        self.read(&names, &sight)
    }
}
