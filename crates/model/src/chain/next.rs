//! Is anything stuck for good? Somebody new comes after a long time, alone.

use super::state::{Op, Session, State};
use super::{GRACE, LEASE, Leases, step};

/// More steps than anybody needs who is alone.
const STEPS: usize = 60;

/// Does it get the lease?
pub(super) fn works(model: Leases, state: &State) -> bool {
    let mut state = state.clone();
    state.now += LEASE + GRACE + 1;
    state.clients.push(None);
    state.sessions.push(Session::default());
    let client = u8::try_from(state.clients.len() - 1).expect("clients are few");
    step::start(model, &mut state, client, Op::Acquire);
    for _ in 0..STEPS {
        if step::step(model, &mut state, client).is_none() {
            break;
        }
    }
    state.clients.last().is_some_and(Option::is_none) && state.sessions.last().is_some_and(|session| session.token != 0)
}
