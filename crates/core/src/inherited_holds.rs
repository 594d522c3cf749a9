//! The holds of a process, as its children inherit them in `LOKT_HOLDS`:
//! `name=lock_id:token:pulse,…`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::decide::InheritedHold;
use crate::hold::{Fence, Hold, LockId};
use crate::name::LockName;

/// The holds that a process runs under, outermost first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InheritedHolds(Vec<(LockName, InheritedHold)>);

impl InheritedHolds {
    /// Parses the list. Invalid entries are left out: a hold that can't be read grants nothing.
    pub fn parse(text: &str) -> Self {
        let entry = |entry: &str| {
            let (name, inherited_hold) = entry.split_once('=')?;
            let mut fields = inherited_hold.split(':');
            let lock_id = fields.next().filter(|id| !id.is_empty())?;
            let number = |field: &str| field.parse().map_err(drop);
            let token = fields.next().map(|field| number(field).and_then(|token| Fence::new(token).ok_or(())));
            let pulse = fields.next().map(number).transpose().ok()?;
            let inherited_hold =
                InheritedHold { lock_id: LockId::from_text(lock_id), token: token.transpose().ok()?, pulse };
            fields.next().is_none().then_some((LockName::new(name).ok()?, inherited_hold))
        };
        Self(text.split(',').filter_map(entry).collect())
    }

    /// The innermost hold of `name`.
    pub fn of(&self, name: &LockName) -> Option<&InheritedHold> {
        self.all_of(name).next()
    }

    /// Every hold of `name`, innermost first: holds of several roots can have the same name.
    pub fn all_of(&self, name: &LockName) -> impl Iterator<Item = &InheritedHold> {
        self.0.iter().rev().filter(move |(held, _)| held == name).map(|(_, inherited_hold)| inherited_hold)
    }

    /// Adds a hold.
    pub fn push(&mut self, name: LockName, hold: &Hold) {
        let pulse = hold.pulse.map(|pulse| pulse.number);
        self.0.push((name, InheritedHold { lock_id: hold.lock_id.clone(), token: hold.token, pulse }));
    }

    /// The name and the inherited hold of each entry.
    pub fn iter(&self) -> impl Iterator<Item = (&LockName, &InheritedHold)> {
        self.0.iter().map(|(name, inherited_hold)| (name, inherited_hold))
    }
}

impl core::fmt::Display for InheritedHolds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let entry =
            |(name, inherited_hold): &(LockName, InheritedHold)| match (inherited_hold.token, inherited_hold.pulse) {
                (Some(token), Some(pulse)) => format!("{name}={}:{token}:{pulse}", inherited_hold.lock_id),
                (Some(token), None) => format!("{name}={}:{token}", inherited_hold.lock_id),
                (None, _) => format!("{name}={}", inherited_hold.lock_id),
            };
        let entries: Vec<String> = self.0.iter().map(entry).collect();
        f.write_str(&entries.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn a_list_reads_back_and_the_innermost_hold_of_a_name_counts() {
        let text = "a=1f:7,b=2e,a=3d:9:4";
        let inherited_holds = InheritedHolds::parse(text);
        assert_eq!(inherited_holds.to_string(), text);
        let a = LockName::new("a").expect("a name");
        assert_eq!(inherited_holds.of(&a).and_then(|inherited_hold| inherited_hold.token).map(Fence::get), Some(9));
        assert_eq!(inherited_holds.of(&LockName::new("c").expect("a name")), None);
    }

    #[test]
    fn what_is_no_entry_opens_nothing() {
        for text in ["", ",", "a", "a=", "=1f", "a=1f:x", "a=1f:0", "a=1f:7:x", "a=1f:7:8:9", "../x=1f:7"] {
            assert_eq!(InheritedHolds::parse(text), InheritedHolds::default(), "{text:?}");
        }
    }
}
