//! The duration of claims: `meta.json` beside the ledger.

use lokt_core::ledger::meta::{LOCK_TIMEOUT_SEC, META_BYTES_MAX, lock_timeout_sec};

use super::FileLog;
use lokt_sys::disk::Entry;
use lokt_sys::warnings::Warning;

const META: &str = "meta.json";

impl FileLog {
    /// The duration of claims in seconds, and a warning if `meta.json` is odd.
    pub(crate) fn lock_timeout(&self) -> (u64, Option<Warning>) {
        let odd = |what: String| {
            let path = self.dir.join(META);
            (LOCK_TIMEOUT_SEC, Some(format!("{} {what}; claims last 5m", path.display())))
        };
        let (ttl_sec, odd) = match self.above.read(META, META_BYTES_MAX) {
            Ok(Entry::Missing) => (LOCK_TIMEOUT_SEC, None),
            Ok(Entry::File(content)) => lock_timeout_sec(&content.bytes),
            Ok(Entry::NotRegular(kind)) => odd(format!("is {kind}")),
            Ok(Entry::TooBig(bytes)) => odd(format!("has {bytes} bytes")),
            Err(error) => odd(format!("can't be read: {error}")),
        };
        (ttl_sec, odd.map(Warning::Setting))
    }
}
