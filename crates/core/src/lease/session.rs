//! The secret that proves ownership of a lease. The repository stores only a digest of it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::json::{Ordered, is_hex, object, text};
use crate::hold::LockId;
use crate::ledger::chain::Digest;

/// Maximum size of a session file in bytes.
pub const SESSION_BYTES_MAX: usize = 4096;

/// Version of the file format.
const VERSION: u64 = 1;
/// Number of digits of an id.
const ID_DIGITS: usize = 32;

/// A session: a process that has its file is the holder.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// 32 hex digits, public.
    pub id: String,
    secret: [u8; 32],
}

impl Session {
    /// Creates a session from random bits.
    pub fn new(id: u128, secret: [u128; 2]) -> Self {
        let mut bytes = [0; 32];
        for (part, bits) in bytes.chunks_exact_mut(16).zip(secret) {
            part.copy_from_slice(&bits.to_be_bytes());
        }
        Self { id: format!("{id:032x}"), secret: bytes }
    }

    /// Returns the bytes of its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let members =
            [("version", VERSION.into()), ("session_id", self.id.as_str().into()), ("secret", hex(self.secret).into())];
        Ordered(members.into()).to_bytes()
    }

    /// Parses a session file; the error says what is wrong, and never contains the secret.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > SESSION_BYTES_MAX {
            return Err("it is too long".into());
        }
        let members = object(bytes)?;
        match members.get("version").map(Value::as_u64) {
            Some(Some(VERSION)) => {}
            Some(Some(version)) => return Err(format!("its version is {version}, which this program doesn't know")),
            _ => return Err("it has no version".into()),
        }
        let id = text(&members, "session_id").filter(|id| is_hex(id, ID_DIGITS));
        let id = id.ok_or("its session_id is not 32 digits 0 to 9 and a to f")?;
        let secret = text(&members, "secret").and_then(|secret| secret.parse::<Digest>().ok());
        let secret = secret.ok_or("its secret is not 64 digits 0 to 9 and a to f")?;
        Ok(Self { id, secret: secret.0 })
    }

    /// Returns the nonce of a lease of this session: SHA-256 of the secret's bytes and the lock
    /// id's text, in hex.
    pub fn nonce(&self, lock_id: &LockId) -> String {
        let mut both = Sha256::new();
        both.update(self.secret);
        both.update(lock_id.as_str().as_bytes());
        hex(both.finalize().into())
    }
}

fn hex(bytes: [u8; 32]) -> String {
    format!("{}", Digest(bytes))
}

impl core::fmt::Debug for Session {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use proptest::prelude::*;

    use super::*;

    fn session() -> Session {
        Session::new(0xabc, [0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f, 0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f])
    }

    #[test]
    fn the_nonce_is_the_digest_of_secret_and_lock_id() {
        // python3: sha256(bytes(range(32)) + b"0123456789abcdef0123456789abcdef")
        let nonce = session().nonce(&LockId::from_text("0123456789abcdef0123456789abcdef"));
        assert_eq!(nonce, "c33791e94ef8e5058079931890e4122ae762ad8afcc6f88c17629ccc78d4c074");
    }

    #[test]
    fn a_session_reads_back() {
        let session = session();
        assert_eq!(session.id, "00000000000000000000000000000abc");
        assert_eq!(Session::parse(&session.to_bytes()), Ok(session));
    }

    #[test]
    fn what_is_no_session_is_refused_without_a_word_of_its_secret() {
        let good = String::from_utf8(session().to_bytes()).expect("JSON is text");
        let secret = hex(session().secret);
        for bad in [
            String::new(),
            "[]".to_string(),
            good.replace("\"version\":1", "\"version\":2"),
            good.replace("\"version\":1,", ""),
            good.replace("abc", "ABC"),
            good.replace("session_id", "id"),
            good.replace(&secret, &secret[1..]),
            good.replace(&secret, &secret.to_uppercase()),
            good.replace("\"}", ""),
            good.replace(&format!("\"{secret}\""), &secret),
        ] {
            let why = Session::parse(bad.as_bytes()).expect_err("that is no session");
            assert!(!why.contains(&secret[8..16]), "the secret is told in: {why}");
        }
        assert!(!format!("{:?}", session()).contains(&secret[8..16]), "the secret is told for debugging");
    }

    proptest! {
        #[test]
        fn every_session_reads_back(id in any::<u128>(), secret in any::<[u128; 2]>()) {
            let session = Session::new(id, secret);
            prop_assert_eq!(Session::parse(&session.to_bytes()), Ok(session));
        }

        #[test]
        fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Session::parse(&bytes).is_err());
        }
    }
}
