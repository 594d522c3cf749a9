//! A lock that a program holds, asked for once.

use lokt_core::decide::Terms;
use lokt_core::name::LockName;
use lokt_named::{Held, Holding, Lokt};
use lokt_sys::error::Error;
use lokt_sys::wait_policy::WaitPolicy;

/// Holds `name` as a program does, without waiting. `None`: it was refused.
pub fn held(lokt: &Lokt, name: &str, terms: &Terms) -> Result<Option<Held>, Error> {
    match lokt.hold(&[LockName::new(name).expect("a good name")], terms, &mut WaitPolicy::none())?.value {
        Holding::Held(mut held) => Ok(held.pop()),
        Holding::Denied { .. } | Holding::Interrupted => Ok(None),
    }
}
