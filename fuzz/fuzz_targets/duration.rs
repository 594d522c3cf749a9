//! Anything that somebody types where a duration should be.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lokt_core::duration::{parse, show, show_seconds, whole_seconds};

fuzz_target!(|text: &str| {
    let Ok(duration) = parse(text) else { return };
    let seconds = whole_seconds(duration);
    assert!(u128::from(seconds) * 1000 >= duration.as_millis(), "rounded up, never down");
    assert!(!show(duration).is_empty(), "it can be shown");
    if let Ok(signed) = i64::try_from(seconds) {
        let again = parse(&show_seconds(signed)).map(whole_seconds);
        assert_eq!(again, Ok(seconds), "what is shown can be typed");
    }
});
