//! Tokens that never repeat, with one sync per thousand.
//!
//! Two files keep the count. The *ceiling* is synced: every token ever issued is below it. The
//! *next* file is not synced: it says which token comes next. It is trusted only on the boot and
//! the mount that wrote it, because a power cut or a remount may have lost its last writes. If it
//! can't be trusted, counting restarts at the ceiling, which is raised and synced first.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::fnv::fnv1a_32;
use crate::hold::Fence;

/// Number of tokens per sync of the ceiling.
pub const BLOCK: u64 = 1_000;
/// Distance above every token seen at which counting restarts if a used root has lost its ceiling:
/// more than could have been issued unseen.
pub const LEAP: u64 = 1_000_000;
/// Maximum number of mounts in the next file: one per mount namespace that uses the root at a time.
pub const MOUNTS_MAX: usize = 16;
/// Size of the next file in bytes. It is constant, so that one write replaces the content in place.
pub const NEXT_BYTES: usize = 1024;
/// Reserved bytes: the next number may have one digit more, and a newline ends the file.
const ROOM_TO_COUNT: usize = 8;

/// The content of the next file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    version: u32,
    boot_id: String,
    mounts: Vec<u64>,
    next: u64,
    ceiling: u64,
}

/// The boot and the mount on which a token is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// This boot.
    pub boot_id: Option<&'a str>,
    /// This mount's unique id; kernels before 6.8 have none.
    pub mount: Option<u64>,
}

/// The steps to issue one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draw {
    /// The token.
    pub token: Fence,
    /// Write and sync this ceiling first.
    pub raise: Option<u64>,
    /// Then write this next file, before the token is used.
    pub next: Next,
}

impl Next {
    /// Parses the file; `None` if anything is wrong with it.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        // Content that fills the file may no longer fit after the next increment.
        let text = core::str::from_utf8(bytes).ok()?.trim_end();
        let text = Some(text).filter(|text| text.len() <= NEXT_BYTES - ROOM_TO_COUNT)?;
        let (body, check) = text.rsplit_once(' ')?;
        if u32::from_str_radix(check, 16).ok()? != fnv1a_32(body.as_bytes()) {
            return None;
        }
        let next: Self = serde_json::from_str(body).ok()?;
        (next.version == 1 && next.next <= next.ceiling && next.ceiling <= Fence::LIMIT).then_some(next)
    }

    /// The file's content, always [`NEXT_BYTES`] long.
    pub fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_string(self).expect("strings and numbers");
        let mut bytes = format!("{body} {:08x}", fnv1a_32(body.as_bytes())).into_bytes();
        debug_assert!(bytes.len() < NEXT_BYTES, "16 mounts of 20 digits fit");
        bytes.resize(NEXT_BYTES - 1, b' ');
        bytes.push(b'\n');
        bytes
    }

    /// The ceiling according to this file.
    pub fn ceiling(&self) -> u64 {
        self.ceiling
    }

    /// Reports whether this file was written on this boot and lists this mount.
    fn is_trusted(&self, place: Place<'_>) -> bool {
        place.boot_id == Some(&self.boot_id) && place.mount.is_some_and(|mount| self.mounts.contains(&mount))
    }
}

/// The ceiling file's content.
pub fn encode_ceiling(ceiling: u64) -> Vec<u8> {
    format!("{{\"version\":1,\"ceiling\":{ceiling}}}\n").into_bytes()
}

/// Reads the ceiling file.
pub fn parse_ceiling(bytes: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Ceiling {
        version: u32,
        ceiling: u64,
    }
    let file: Ceiling = serde_json::from_slice(bytes).ok()?;
    (file.version == 1 && file.ceiling <= Fence::LIMIT).then_some(file.ceiling)
}

/// Issues a token if `next` alone allows it. Then the ceiling needn't be read.
pub fn quick(next: Option<&Next>, place: Place<'_>) -> Option<Draw> {
    let next = next.filter(|next| next.is_trusted(place) && next.next < next.ceiling)?;
    let token = Fence::new(next.next)?;
    Some(Draw { token, raise: None, next: Next { next: next.next + 1, ..next.clone() } })
}

/// Issues a token when [`quick`] can't. `floor` is above every token ever issued: it is the synced
/// ceiling or, if that is lost, the result of a scan of all records and audit files. `None`: no
/// tokens are left.
pub fn raise(next: Option<&Next>, floor: u64, place: Place<'_>) -> Option<Draw> {
    let trusted = next.filter(|next| next.is_trusted(place));
    // A trusted file says exactly which tokens were issued; otherwise any below its ceiling may
    // have been.
    let start = trusted.map_or_else(|| next.map_or(0, |next| next.ceiling).max(floor), |next| next.next).max(1);
    let token = Fence::new(start)?;
    let known = place.boot_id.zip(place.mount);
    // Without a boot and a mount, a stale next file can't be recognized, so every token is synced.
    let block = if known.is_some() { BLOCK } else { 1 };
    let ceiling = (start + block).max(if trusted.is_some() { floor } else { 0 }).min(Fence::LIMIT);
    let (boot_id, mounts) = known.map_or_else(Default::default, |(boot_id, mount)| {
        let mut mounts = next.filter(|next| next.boot_id == boot_id).map_or_else(Vec::new, |next| next.mounts.clone());
        mounts.retain(|known| *known != mount);
        mounts.push(mount);
        mounts.drain(..mounts.len().saturating_sub(MOUNTS_MAX));
        (boot_id.into(), mounts)
    });
    Some(Draw { token, raise: Some(ceiling), next: Next { version: 1, boot_id, mounts, next: start + 1, ceiling } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HERE: Place<'_> = Place { boot_id: Some("boot"), mount: Some(7) };

    #[test]
    fn a_new_root_starts_at_one_and_syncs_a_thousand_ahead() {
        let first = raise(None, 0, HERE).expect("tokens are left");
        assert_eq!((first.token.get(), first.raise), (1, Some(1001)));
        let second = quick(Some(&first.next), HERE).expect("the block lasts");
        assert_eq!((second.token.get(), second.raise), (2, None));
    }

    #[test]
    fn another_boot_or_an_unknown_mount_starts_at_the_ceiling() {
        let here = raise(None, 0, HERE).expect("tokens are left").next;
        for place in [Place { boot_id: Some("other"), ..HERE }, Place { mount: Some(8), ..HERE }] {
            assert_eq!(quick(Some(&here), place), None);
            let draw = raise(Some(&here), 1001, place).expect("tokens are left");
            assert_eq!((draw.token.get(), draw.raise), (1001, Some(2001)));
            assert!(quick(Some(&draw.next), place).is_some(), "a mount is unknown only once");
        }
    }

    #[test]
    fn two_mount_namespaces_take_turns_without_a_sync() {
        let a = raise(None, 0, HERE).expect("tokens are left").next;
        let b = raise(Some(&a), 1001, Place { mount: Some(8), ..HERE }).expect("tokens are left").next;
        assert!(quick(Some(&b), HERE).is_some());
    }

    #[test]
    fn without_a_mount_id_every_token_is_synced_and_nobody_falls_behind_it() {
        let here = raise(None, 0, HERE).expect("tokens are left").next;
        let blind = Place { mount: None, ..HERE };
        let draw = raise(Some(&here), 1001, blind).expect("tokens are left");
        assert_eq!((draw.token.get(), draw.raise), (1001, Some(1002)));
        assert_eq!(quick(Some(&draw.next), HERE), None, "what the blind one left is not believed");
        assert_eq!(raise(Some(&draw.next), 1002, HERE).map(|d| d.token.get()), Some(1002));
    }

    #[test]
    fn damage_is_noticed() {
        let bytes = raise(None, 0, HERE).expect("tokens are left").next.encode();
        assert_eq!(bytes.len(), NEXT_BYTES);
        assert!(Next::parse(&bytes).is_some());
        for place in [0, 40, 90] {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert_eq!(Next::parse(&damaged), None, "bit {place}");
        }
        assert_eq!(Next::parse(&bytes[..60]), None);
        assert_eq!(Next::parse(b""), None);
    }

    #[test]
    fn a_next_file_that_contradicts_itself_is_not_believed() {
        let good = Next { version: 1, boot_id: "boot".into(), mounts: [7].into(), next: 5, ceiling: 9 };
        let read = |next: &Next| Next::parse(&next.encode());
        assert_eq!(read(&good).as_ref(), Some(&good));
        assert_eq!(read(&good).map(|next| next.ceiling()), Some(9), "it knows the ceiling");
        let last = Next { next: Fence::LIMIT, ceiling: Fence::LIMIT, ..good.clone() };
        assert_eq!(read(&last).as_ref(), Some(&last), "the last block may be used up");
        for odd in [
            Next { version: 2, ..good.clone() },
            Next { next: 10, ..good.clone() },
            Next { ceiling: Fence::LIMIT + 1, ..good.clone() },
        ] {
            assert_eq!(read(&odd), None, "{odd:?}");
        }
    }

    #[test]
    fn a_next_file_that_is_full_to_its_end_is_not_believed_because_its_successor_would_be_cut_off() {
        let file = |length: usize| {
            let empty = r#"{"version":1,"boot_id":"boot","mounts":[7],"next":9,"ceiling":99}"#;
            let body = empty.replace("[7]", &format!("[7{}]", ",7".repeat((length - 9 - empty.len()) / 2)));
            format!("{body} {:08x}", fnv1a_32(body.as_bytes())).into_bytes()
        };
        let most = Next::parse(&file(NEXT_BYTES - ROOM_TO_COUNT)).expect("this much fits");
        let after = quick(Some(&most), HERE).expect("the block lasts").next;
        let body = serde_json::to_string(&after).expect("strings and numbers");
        let whole = format!("{body} {:08x} ", fnv1a_32(body.as_bytes()));
        assert!(after.encode().starts_with(whole.as_bytes()), "what it becomes is written whole");
        assert_eq!(Next::parse(&file(NEXT_BYTES - 1)), None);
    }

    #[test]
    fn a_block_that_is_used_up_hands_out_nothing() {
        let next = Next { version: 1, boot_id: "boot".into(), mounts: [7].into(), next: 8, ceiling: 9 };
        let last = quick(Some(&next), HERE).expect("one is left");
        assert_eq!(last.token.get(), 8);
        assert_eq!(quick(Some(&last.next), HERE), None, "token-order: the ceiling itself is the next block's");
    }

    #[test]
    fn the_ceiling_reads_back_and_anything_odd_is_none() {
        for ceiling in [0, 1, 2, 1_001, Fence::LIMIT] {
            assert_eq!(parse_ceiling(&encode_ceiling(ceiling)), Some(ceiling));
        }
        assert_eq!(parse_ceiling(&encode_ceiling(Fence::LIMIT + 1)), None, "no token is so great");
        for odd in
            [&b""[..], b"{", br#"{"version":2,"ceiling":7}"#, br#"{"version":1,"ceiling":-7}"#, br#"{"version":1}"#]
        {
            assert_eq!(parse_ceiling(odd), None);
        }
    }

    #[test]
    fn tokens_end_below_two_to_the_53() {
        assert_eq!(raise(None, Fence::LIMIT - 1, HERE).map(|d| d.token.get()), Some(Fence::LIMIT - 1));
        assert_eq!(raise(None, Fence::LIMIT, HERE), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// token-order: tokens increase, whatever is lost between two draws (the next file, its
        /// last writes, the boot, the mount).
        #[test]
        fn token_order_survives_lost_writes(steps in prop::collection::vec((0_u8..6, 0_u64..3, 0_u64..2), 1..200)) {
            let mut ceiling = 0;
            let mut live: Option<Next> = None;
            let mut stale: Option<Next> = None;
            let mut last = 0;
            // After writes were lost, the old mounts never return: that makes their ids unique.
            let mut generation = 0;
            for (event, mount, boot) in steps {
                match event {
                    0 => { live = stale.clone(); generation += 1; }
                    1 => { live = None; }
                    2 => { stale = live.clone(); }
                    _ => {}
                }
                let boot = std::format!("boot{boot}-{generation}");
                let place = Place { boot_id: Some(&boot), mount: (mount > 0).then_some(generation * 10 + mount) };
                let draw = quick(live.as_ref(), place).or_else(|| raise(live.as_ref(), ceiling, place)).expect("tokens are left");
                prop_assert!(draw.token.get() > last, "token {} after {last}", draw.token);
                last = draw.token.get();
                ceiling = draw.raise.unwrap_or(ceiling);
                prop_assert!(last < ceiling, "the synced ceiling is above every token");
                live = Some(draw.next);
            }
        }
    }
}
