//! What a process holds, as it is handed down in `LOKT_HOLDS`: `name=lock_id:token:pulse,…`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::decide::Badge;
use crate::hold::{Fence, Hold, LockId};
use crate::name::LockName;

/// The holds that a process runs under, outermost first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Badges(Vec<(LockName, Badge)>);

impl Badges {
    /// Reads the list. What isn't an entry is left out: a badge that can't be read opens nothing.
    pub fn parse(text: &str) -> Self {
        let entry = |entry: &str| {
            let (name, badge) = entry.split_once('=')?;
            let mut fields = badge.split(':');
            let lock_id = fields.next().filter(|id| !id.is_empty())?;
            let number = |field: &str| field.parse().map_err(drop);
            let token = fields.next().map(|field| number(field).and_then(|token| Fence::new(token).ok_or(())));
            let pulse = fields.next().map(number).transpose().ok()?;
            let badge = Badge { lock_id: LockId::from_text(lock_id), token: token.transpose().ok()?, pulse };
            fields.next().is_none().then_some((LockName::new(name).ok()?, badge))
        };
        Self(text.split(',').filter_map(entry).collect())
    }

    /// The innermost hold of `name`.
    pub fn of(&self, name: &LockName) -> Option<&Badge> {
        self.all_of(name).next()
    }

    /// Every hold of `name`, innermost first: holds of several roots can have one name.
    pub fn all_of(&self, name: &LockName) -> impl Iterator<Item = &Badge> {
        self.0.iter().rev().filter(move |(held, _)| held == name).map(|(_, badge)| badge)
    }

    /// One more hold.
    pub fn push(&mut self, name: LockName, hold: &Hold) {
        let pulse = hold.pulse.map(|pulse| pulse.number);
        self.0.push((name, Badge { lock_id: hold.lock_id.clone(), token: hold.token, pulse }));
    }

    /// Name and badge of each.
    pub fn iter(&self) -> impl Iterator<Item = (&LockName, &Badge)> {
        self.0.iter().map(|(name, badge)| (name, badge))
    }
}

impl core::fmt::Display for Badges {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let entry = |(name, badge): &(LockName, Badge)| match (badge.token, badge.pulse) {
            (Some(token), Some(pulse)) => format!("{name}={}:{token}:{pulse}", badge.lock_id),
            (Some(token), None) => format!("{name}={}:{token}", badge.lock_id),
            (None, _) => format!("{name}={}", badge.lock_id),
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
        let badges = Badges::parse(text);
        assert_eq!(badges.to_string(), text);
        let a = LockName::new("a").expect("a name");
        assert_eq!(badges.of(&a).and_then(|badge| badge.token).map(Fence::get), Some(9));
        assert_eq!(badges.of(&LockName::new("c").expect("a name")), None);
    }

    #[test]
    fn what_is_no_entry_opens_nothing() {
        for text in ["", ",", "a", "a=", "=1f", "a=1f:x", "a=1f:0", "a=1f:7:x", "a=1f:7:8:9", "../x=1f:7"] {
            assert_eq!(Badges::parse(text), Badges::default(), "{text:?}");
        }
    }
}
