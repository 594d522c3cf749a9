//! Duration of a lease, and the allowance for doubt before another session may acquire it.

use core::fmt;

/// Durations that define a lease, all in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeasePolicy {
    /// D: duration of the lease without renewals.
    pub lease_ms: u64,
    /// Interval between renewals.
    pub renew_ms: u64,
    /// K: maximum difference between clocks.
    pub skew_ms: u64,
    /// G: additional margin.
    pub grace_ms: u64,
}

/// Reason why a policy is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPolicy(pub &'static str);

impl fmt::Display for BadPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for BadPolicy {}

/// Durations that a user or a configuration asks for; the others are defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyWish {
    /// D.
    pub lease_ms: Option<u64>,
    /// Interval between renewals.
    pub renew_ms: Option<u64>,
    /// K.
    pub skew_ms: Option<u64>,
    /// G.
    pub grace_ms: Option<u64>,
}

impl PolicyWish {
    /// Adds the durations that only `other` has.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            lease_ms: self.lease_ms.or(other.lease_ms),
            renew_ms: self.renew_ms.or(other.renew_ms),
            skew_ms: self.skew_ms.or(other.skew_ms),
            grace_ms: self.grace_ms.or(other.grace_ms),
        }
    }

    /// Returns the policy that is asked for. Unless an interval is given, a lease shorter than the
    /// default is renewed at every third of its duration.
    pub fn policy(self) -> Result<LeasePolicy, BadPolicy> {
        let default = LeasePolicy::DEFAULT;
        let lease_ms = self.lease_ms.unwrap_or(default.lease_ms);
        let policy = LeasePolicy {
            lease_ms,
            renew_ms: self.renew_ms.unwrap_or(default.renew_ms.min(lease_ms / 3)),
            skew_ms: self.skew_ms.unwrap_or(default.skew_ms),
            grace_ms: self.grace_ms.unwrap_or(default.grace_ms),
        };
        policy.checked()
    }
}

impl LeasePolicy {
    /// Default of the seed.
    pub const DEFAULT: Self = Self { lease_ms: 30_000, renew_ms: 10_000, skew_ms: 2_000, grace_ms: 1_000 };
    /// Minimum duration of a lease.
    pub const LEASE_MS_MIN: u64 = 100;
    /// Maximum duration of a lease: a day.
    pub const LEASE_MS_MAX: u64 = 86_400_000;
    /// Maximum of the skew, and of the grace: an hour.
    pub const DOUBT_MS_MAX: u64 = 3_600_000;

    /// Returns the policy, if its durations are within the limits and it is renewed before it
    /// expires.
    pub fn checked(self) -> Result<Self, BadPolicy> {
        if !(Self::LEASE_MS_MIN..=Self::LEASE_MS_MAX).contains(&self.lease_ms) {
            return Err(BadPolicy("a lease lasts from 100ms to 24h"));
        }
        if self.renew_ms == 0 || self.renew_ms >= self.lease_ms {
            return Err(BadPolicy("a lease must be renewed before it is over: the interval is shorter than the lease"));
        }
        if self.skew_ms > Self::DOUBT_MS_MAX {
            return Err(BadPolicy("clocks may differ by 1h at most"));
        }
        if self.grace_ms > Self::DOUBT_MS_MAX {
            return Err(BadPolicy("the grace is 1h at most"));
        }
        Ok(self)
    }

    /// Returns the nearest policy within the limits: the record of another process is never
    /// believed beyond them.
    #[must_use]
    pub fn clamped(self) -> Self {
        let lease_ms = self.lease_ms.clamp(Self::LEASE_MS_MIN, Self::LEASE_MS_MAX);
        Self {
            lease_ms,
            renew_ms: self.renew_ms.clamp(1, lease_ms - 1),
            skew_ms: self.skew_ms.min(Self::DOUBT_MS_MAX),
            grace_ms: self.grace_ms.min(Self::DOUBT_MS_MAX),
        }
    }

    /// Returns D + K + G: the time without a renewal after which others may acquire the lease.
    pub fn steal_after_ms(self) -> u64 {
        self.lease_ms.saturating_add(self.skew_ms).saturating_add(self.grace_ms)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn policy(lease_ms: u64, renew_ms: u64, skew_ms: u64, grace_ms: u64) -> LeasePolicy {
        LeasePolicy { lease_ms, renew_ms, skew_ms, grace_ms }
    }

    #[test]
    fn what_nobody_says_is_default() {
        assert_eq!(PolicyWish::default().policy(), Ok(LeasePolicy::DEFAULT));
        let short = PolicyWish { lease_ms: Some(100), ..PolicyWish::default() };
        assert_eq!(short.policy(), Ok(policy(100, 33, 2_000, 1_000)));
        let long = PolicyWish { lease_ms: Some(86_400_000), ..PolicyWish::default() };
        assert_eq!(long.policy(), Ok(policy(86_400_000, 10_000, 2_000, 1_000)));
        let said =
            PolicyWish { skew_ms: Some(0), ..short }.or(PolicyWish { skew_ms: Some(7), grace_ms: Some(5), ..long });
        assert_eq!(said.policy(), Ok(policy(100, 33, 0, 5)), "the first one who says something counts");
    }

    #[test]
    fn numbers_beyond_the_limits_are_refused() {
        for (bad, good) in [
            (policy(99, 33, 0, 0), policy(100, 33, 0, 0)),
            (policy(86_400_001, 1, 0, 0), policy(86_400_000, 1, 0, 0)),
            (policy(100, 100, 0, 0), policy(100, 99, 0, 0)),
            (policy(100, 0, 0, 0), policy(100, 1, 0, 0)),
            (policy(100, 1, 3_600_001, 0), policy(100, 1, 3_600_000, 0)),
            (policy(100, 1, 0, 3_600_001), policy(100, 1, 0, 3_600_000)),
        ] {
            assert!(bad.checked().is_err(), "{bad:?} was accepted");
            assert_eq!(good.checked(), Ok(good));
            assert_eq!(bad.clamped(), good, "somebody else's record is read as the nearest policy");
        }
    }

    proptest! {
        #[test]
        fn a_clamped_policy_is_within_the_limits(lease in any::<u64>(), renew in any::<u64>(), skew in any::<u64>(), grace in any::<u64>()) {
            let clamped = policy(lease, renew, skew, grace).clamped();
            prop_assert_eq!(clamped.checked(), Ok(clamped));
            prop_assert_eq!(clamped.steal_after_ms(), clamped.lease_ms + clamped.skew_ms + clamped.grace_ms);
        }
    }
}
