//! Fencing tokens.

use std::fmt;
use std::num::{NonZero, ParseIntError};
use std::str::FromStr;

use lokt_core::hold::Fence;

/// A fencing token: the number of a hold. Each new hold of a name has a greater one, so a service
/// that remembers the greatest token it has seen can refuse a stale holder.
///
/// ```
/// use lokt::Token;
///
/// let (older, newer): (Token, Token) = ("4".parse()?, "5".parse()?);
/// assert!(older < newer);
/// assert_eq!(newer.get(), 5);
/// # Ok::<(), std::num::ParseIntError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(NonZero<u64>);

impl Token {
    /// Returns the token with this number; `None` for 0, which is not a token.
    pub fn new(number: u64) -> Option<Self> {
        NonZero::new(number).map(Self)
    }

    pub(crate) fn of(fence: Fence) -> Self {
        Self::new(fence.get()).expect("a token is at least 1")
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Token {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

impl From<Token> for u64 {
    fn from(token: Token) -> Self {
        token.get()
    }
}
