//! Any bytes in lokt's own small files and variables, and where people type: pulses, the token counter, the list of holds, names,
//! durations.
#![cfg_attr(fuzzing, no_main)]

use libfuzzer_sys::fuzz_target;
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::counter::{Next, encode_ceiling, parse_ceiling};
use lokt_core::duration;
use lokt_core::name::LockName;
use lokt_core::pulse::Pulse;
use lokt_core::time::parse_wall;

fuzz_target!(|bytes: &[u8]| {
    if let Some(pulse) = Pulse::parse(bytes) {
        let written = pulse.encode();
        assert_eq!(Pulse::parse(&written).map(|again| again.encode()), Some(written), "a pulse reads back");
    }
    if let Some(next) = Next::parse(bytes) {
        let written = next.encode();
        assert_eq!(Next::parse(&written).map(|again| again.encode()), Some(written), "the counter reads back");
    }
    if let Some(ceiling) = parse_ceiling(bytes) {
        assert_eq!(parse_ceiling(&encode_ceiling(ceiling)), Some(ceiling), "the ceiling reads back");
    }
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let inherited_holds = InheritedHolds::parse(text).to_string();
    assert_eq!(InheritedHolds::parse(&inherited_holds).to_string(), inherited_holds, "holds read back");
    let _ = parse_wall(text);
    if let Ok(name) = LockName::new(text) {
        assert!(!name.as_str().contains('/') && !name.as_str().contains("..") && !name.as_str().starts_with('-'));
        assert_eq!(LockName::from_file_name(&format!("{name}.json")).as_ref(), Some(&name), "its file names it");
    }
    lasts(text);
});

/// Anything that somebody types where a duration should be.
fn lasts(text: &str) {
    let Ok(lasts) = duration::parse(text) else { return };
    let seconds = duration::whole_seconds(lasts);
    assert!(u128::from(seconds) * 1000 >= lasts.as_millis(), "rounded up, never down");
    assert!(!duration::show(lasts).is_empty(), "it can be shown");
    if let Ok(signed) = i64::try_from(seconds) {
        let again = duration::parse(&duration::show_seconds(signed)).map(duration::whole_seconds);
        assert_eq!(again, Ok(seconds), "what is shown can be typed");
    }
}
