//! Mistakes that lokt does not make, put back one at a time. Every one of them has a test that says which promise it breaks.

use super::bounds::Bounds;

/// One mistake in the shell, or in what it tells the rules of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The protocol as it is.
    None,
    /// Waiters are woken when a process closes its pulse, not when the lock is dropped, which is a moment later: so inotify does.
    WakeBeforeDrop,
    /// A release drops the pulse first and removes the record afterwards.
    PulseBeforeRecord,
    /// Every living waiter makes others wait, stopped or not.
    NoPassingOver,
    /// A pulse that vanished before it could be opened is waited for all the same.
    SleepWithoutLook,
    /// Whoever doesn't wait takes a free lock, whoever does.
    PlainOvertakes,
    /// A waiter that looks again keeps the note of an offer that it let pass.
    OfferNeverCleared,
    /// A waiter that is woken in vain draws another ticket.
    NewTicketWhenWoken,
    /// Nobody notes that a free lock was left alone.
    NoOffer,
    /// A waiter whose predecessor was granted the lock, or left, doesn't look at the record.
    BlindSecond,
    /// A waiter that sees a predecessor that isn't stopped doesn't look at the record.
    TrustsSight,
    /// A waiter doesn't read in its own pulse that it was offered the lock.
    OwnOfferUnread,
    /// A waiter chooses the holder's pulse though nobody keeps it, finds it free, and looks again at once.
    FreePulseChosen,
    /// A hold whose pulse is free counts as gone, although its command runs.
    PulseAloneProvesDeath,
}

impl Flaw {
    /// Every mistake with the promise that it breaks.
    pub const ALL: [(Self, &'static str); 13] = [
        (Self::WakeBeforeDrop, super::NO_LOST_WAKE),
        (Self::PulseBeforeRecord, super::NO_LOST_WAKE),
        (Self::NoPassingOver, super::NO_ENDLESS_WAIT),
        (Self::SleepWithoutLook, super::NO_LOST_WAKE),
        (Self::PlainOvertakes, super::IN_ORDER),
        (Self::OfferNeverCleared, super::IN_ORDER),
        (Self::NewTicketWhenWoken, super::KEEPS_PLACE),
        (Self::NoOffer, super::NO_ENDLESS_WAIT),
        (Self::BlindSecond, super::NO_ENDLESS_WAIT),
        (Self::TrustsSight, super::NO_ENDLESS_WAIT),
        (Self::OwnOfferUnread, super::IN_ORDER),
        (Self::FreePulseChosen, super::COMES_TO_REST),
        (Self::PulseAloneProvesDeath, super::ONE_HOLDER),
    ];

    /// As people call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::WakeBeforeDrop => "wake before the lock is dropped",
            Self::PulseBeforeRecord => "pulse before record",
            Self::NoPassingOver => "nobody is passed over",
            Self::SleepWithoutLook => "sleep without a look",
            Self::PlainOvertakes => "who doesn't wait overtakes",
            Self::OfferNeverCleared => "an offer that is never cleared",
            Self::NewTicketWhenWoken => "a new ticket for the woken",
            Self::NoOffer => "a free lock is not noted",
            Self::BlindSecond => "no look at the record",
            Self::TrustsSight => "a predecessor that sleeps is trusted",
            Self::OwnOfferUnread => "one's own offer is not read",
            Self::FreePulseChosen => "a free pulse is chosen",
            Self::PulseAloneProvesDeath => "a free pulse proves death",
        }
    }

    /// Far enough to catch it.
    pub fn bounds(self) -> Bounds {
        match self {
            Self::NoOffer => Bounds::APART,
            Self::TrustsSight => Bounds::UNSEEN,
            Self::NoPassingOver
            | Self::OfferNeverCleared
            | Self::NewTicketWhenWoken
            | Self::BlindSecond
            | Self::OwnOfferUnread
            | Self::FreePulseChosen
            | Self::PulseAloneProvesDeath => Bounds::WORLD,
            _ => Bounds::KERNEL,
        }
    }
}
