//! The queue of a name: its waiters, their order, and whom each of them waits for.
//!
//! A waiter waits for exactly one other process: the last one ahead of it that counts, or the
//! holder if there is none. So a release wakes one process, not all of them. Waiters that can't
//! take an offered lock are skipped; they keep their tickets and are first again when they can.

/// Maximum time in milliseconds for the head of the queue to take a free lock that it was offered.
/// After that it is skipped.
pub const OFFER_MS_MAX: u64 = 2_000;

/// A live waiter, as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Its position: a lower number comes first.
    pub number: u64,
    /// True if it is known to be unable to take anything now: suspended by a signal or a debugger.
    pub stopped: bool,
    /// The monotonic clock when a process found the lock free for it.
    pub offered_ms: Option<u64>,
}

impl Ticket {
    /// Reports whether it makes others wait: not while it is suspended or ignores a free lock.
    pub fn counts(&self, now_ms: u64) -> bool {
        let ignores_offer = self.offered_ms.is_some_and(|at| now_ms.saturating_sub(at) > OFFER_MS_MAX);
        !self.stopped && !ignores_offer
    }

    /// Reports whether the lock must be offered to this waiter: once. An offer from the future was
    /// made by another clock.
    fn wants_offer(&self, now_ms: u64) -> bool {
        self.offered_ms.is_none_or(|at| at > now_ms)
    }
}

/// Returns the tickets ahead of `mine` that count, in the order of `tickets`, which is that of
/// their numbers. A caller without a ticket is behind all of them.
pub fn ahead(tickets: &[Ticket], mine: Option<u64>, now_ms: u64) -> impl DoubleEndedIterator<Item = &Ticket> {
    tickets.iter().filter(move |ticket| mine.is_none_or(|mine| ticket.number < mine) && ticket.counts(now_ms))
}

/// Returns the ticket that `mine` waits for; `None` if it is the head, which waits for the holder.
pub fn predecessor(tickets: &[Ticket], mine: u64, now_ms: u64) -> Option<Ticket> {
    ahead(tickets, Some(mine), now_ms).next_back().copied()
}

/// Returns the waiter to which the free lock must be offered, if it wasn't yet: the first that
/// counts.
pub fn to_offer(tickets: &[Ticket], mine: Option<u64>, now_ms: u64) -> Option<u64> {
    let head = ahead(tickets, mine, now_ms).next()?;
    head.wants_offer(now_ms).then_some(head.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn ticket(number: u64) -> Ticket {
        Ticket { number, stopped: false, offered_ms: None }
    }

    fn stopped(number: u64) -> Ticket {
        Ticket { stopped: true, ..ticket(number) }
    }

    fn offered(number: u64, ms_ago: u64) -> Ticket {
        Ticket { offered_ms: Some(NOW - ms_ago), ..ticket(number) }
    }

    fn numbers(tickets: &[Ticket], mine: Option<u64>) -> std::vec::Vec<u64> {
        ahead(tickets, mine, NOW).map(|ticket| ticket.number).collect()
    }

    #[test]
    fn each_waits_for_the_last_one_ahead_that_counts() {
        let line = [ticket(3), ticket(5), stopped(7), ticket(9)];
        assert_eq!(predecessor(&line, 3, NOW), None, "the head waits for the holder");
        assert_eq!(predecessor(&line, 5, NOW), Some(ticket(3)));
        assert_eq!(predecessor(&line, 9, NOW), Some(ticket(5)), "a stopped one is passed over");
        assert_eq!(numbers(&line, None), [3, 5, 9], "whoever has no ticket is behind all");
        assert_eq!(predecessor(&line, 7, NOW), Some(ticket(5)), "a stopped one that wakes has kept its place");
    }

    #[test]
    fn an_offer_that_was_left_alone_for_two_seconds_passes_the_head_over() {
        assert_eq!(numbers(&[offered(3, OFFER_MS_MAX), ticket(5)], None), [3, 5]);
        assert_eq!(numbers(&[offered(3, OFFER_MS_MAX + 1), ticket(5)], None), [5]);
        assert_eq!(predecessor(&[offered(3, OFFER_MS_MAX + 1), ticket(5)], 5, NOW), None);
    }

    #[test]
    fn the_free_lock_is_offered_once_to_the_first_that_counts() {
        assert_eq!(to_offer(&[stopped(1), ticket(3), ticket(5)], None, NOW), Some(3));
        assert_eq!(to_offer(&[offered(3, 100), ticket(5)], None, NOW), None, "the first note stands");
        assert_eq!(to_offer(&[offered(3, 0), ticket(5)], None, NOW), None, "one of this very moment, too");
        assert_eq!(to_offer(&[offered(3, OFFER_MS_MAX + 1), ticket(5)], None, NOW), Some(5));
        assert_eq!(to_offer(&[ticket(3)], Some(3), NOW), None, "nobody is ahead");
        let future = Ticket { offered_ms: Some(NOW + 5), ..ticket(3) };
        assert_eq!(to_offer(&[future], None, NOW), Some(3), "another clock's note would hold the line up");
    }
}
