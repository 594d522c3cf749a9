//! What a guard does next: one situation at a time.

mod common {
    pub(crate) mod holds;
}
mod guarded {
    mod endings;
    mod tables;

    use lokt_core::denial::Holder;
    use lokt_core::guard::Event;
    use lokt_core::liveness::Liveness;
    use lokt_core::time::{Elapsed, Lease};

    pub(crate) const TERM: Event = Event::Signal { number: 15, ends: true, from_terminal: false };
    pub(crate) const CTRL_C: Event = Event::Signal { number: 2, ends: true, from_terminal: true };
    pub(crate) const USR1: Event = Event::Signal { number: 10, ends: false, from_terminal: false };

    /// Mallory, who has our lock now.
    pub(crate) fn holder() -> Box<Holder> {
        let elapsed = Elapsed { process: Lease::Endless, owner: Lease::Absent };
        Box::new(Holder { hold: super::common::holds::stored("mallory"), liveness: Liveness::Alive, elapsed })
    }
}
