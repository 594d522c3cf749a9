//! How long claims last: what `meta.json` beside the ledger says.

use lokt_core::ledger::meta::{LOCK_TIMEOUT_SEC, LOCK_TIMEOUT_SEC_MAX, META_BYTES_MAX, lock_timeout_sec};

use super::Ledger;
use crate::error::{Error, ErrorKind};
use crate::sys::disk::Entry;

const META: &str = "meta.json";

impl Ledger {
    /// For how many seconds a claim is made, if somebody asks for `asked`. What is odd about it is told, but stops nobody.
    pub(super) fn ttl_sec(&self, asked: Option<u64>, warnings: &mut Vec<String>) -> Result<u64, Error> {
        match asked {
            Some(0) => Err(Error::new(ErrorKind::BadEvent, "a claim lasts at least a second")),
            Some(ttl_sec) => {
                if ttl_sec > LOCK_TIMEOUT_SEC_MAX {
                    warnings.push("other programs expect a claim to last an hour at most".to_owned());
                }
                Ok(ttl_sec)
            }
            None => {
                let (ttl_sec, warning) = self.lock_timeout();
                warnings.extend(warning);
                Ok(ttl_sec)
            }
        }
    }

    fn lock_timeout(&self) -> (u64, Option<String>) {
        let odd = |what: String| {
            let path = self.dir.join(META);
            (LOCK_TIMEOUT_SEC, Some(format!("{} {what}; claims last 5m", path.display())))
        };
        match self.above.read(META, META_BYTES_MAX) {
            Ok(Entry::Missing) => (LOCK_TIMEOUT_SEC, None),
            Ok(Entry::File(content)) => lock_timeout_sec(&content.bytes),
            Ok(Entry::NotRegular(kind)) => odd(format!("is {kind}")),
            Ok(Entry::TooBig(bytes)) => odd(format!("has {bytes} bytes")),
            Err(error) => odd(format!("can't be read: {error}")),
        }
    }
}
