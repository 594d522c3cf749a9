//! The token counter's files in a few bytes, and the real arithmetic on them.

use std::cell::RefCell;
use std::collections::HashMap;

use lokt_core::counter::{Next as Stored, Place, quick, raise};
use lokt_core::fnv::fnv1a_32;

use super::disk::Disk;
use super::record::{boot_id, boot_number};

/// The next file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Next {
    /// The boot and the mount that wrote it: here a mount lasts as long as its boot.
    pub boot: u8,
    /// The token that comes next.
    pub next: u16,
    /// Where it ends.
    pub ceiling: u16,
}

/// The counter's files and the boot.
type Key = (Option<Next>, u16, u8);

/// How to hand out a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Draw {
    /// The token.
    pub token: u16,
    /// Write and sync this ceiling first.
    pub raise: Option<u16>,
    /// Then write this next file.
    pub next: Next,
}

impl Draw {
    /// Peeks: what the product would do with the files as they are.
    pub(super) fn peek(disk: &Disk, boot: u8) -> Self {
        thread_local! {
            /// There are few counters and many looks at them.
            static PEEKED: RefCell<HashMap<Key, Draw>> = RefCell::default();
        }
        let key = (disk.next, disk.ceiling, boot);
        PEEKED.with_borrow_mut(|peeked| {
            *peeked.entry(key).or_insert_with(|| Self::compute(disk.next, disk.ceiling, boot))
        })
    }

    fn compute(next: Option<Next>, ceiling: u16, boot: u8) -> Self {
        let boot_id = boot_id(boot);
        let place = Place { boot_id: Some(&boot_id), mount: Some(mount(boot)) };
        let stored = next.map(Next::to_stored);
        let draw = quick(stored.as_ref(), place)
            .or_else(|| raise(stored.as_ref(), u64::from(ceiling), place))
            .expect("tokens are left");
        let small = |number: u64| u16::try_from(number).expect("tokens are small here");
        Self { token: small(draw.token.get()), raise: draw.raise.map(small), next: Next::from_stored(&draw.next) }
    }
}

impl Next {
    /// Written out and read again by the product's own code.
    fn to_stored(self) -> Stored {
        let body = format!(
            r#"{{"version":1,"boot_id":"{}","mounts":[{}],"next":{},"ceiling":{}}}"#,
            boot_id(self.boot),
            mount(self.boot),
            self.next,
            self.ceiling
        );
        let bytes = format!("{body} {:08x}", fnv1a_32(body.as_bytes())).into_bytes();
        Stored::parse(&bytes).expect("a good next file")
    }

    fn from_stored(stored: &Stored) -> Self {
        let value = serde_json::to_value(stored).expect("strings and numbers");
        let number = |key: &str| value[key].as_u64().and_then(|number| u16::try_from(number).ok());
        Self {
            boot: boot_number(value["boot_id"].as_str().expect("a next file names its boot")),
            next: number("next").expect("tokens are small here"),
            ceiling: number("ceiling").expect("tokens are small here"),
        }
    }
}

fn mount(boot: u8) -> u64 {
    u64::from(boot) + 10
}
