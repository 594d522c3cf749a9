//! Every fuzz target without a fuzzer: its inputs from `fuzz/corpus`, and variations of them for about a second.
//!
//! That is a dose for every run of the tests, without another build. `scripts/fuzz` looks for new paths, and runs in
//! `scripts/test --full`.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use lokt_testkit::dice::Dice;
use lokt_testkit::swarm::now_ms;

// The targets say `use libfuzzer_sys::fuzz_target`. Here that is the macro below.
extern crate self as libfuzzer_sys;
pub use arbitrary;

/// How long variations are tried.
const LASTS_MS: u64 = 1_000;
/// The same variations every time, as far as the time goes.
const SEED: u64 = 1;
/// Longer inputs say little more and take longer.
const LEN_MAX: usize = 4_096;

/// The module of a target, and its test.
macro_rules! targets {
    ($($name:ident $path:literal)*) => {
        $(
            #[path = $path]
            mod $name;
        )*

        mod holds {
            $(
                #[test]
                fn $name() {
                    super::tried(stringify!($name), super::$name::run);
                }
            )*
        }
    };
}

targets! {
    audit_line "../../../fuzz/fuzz_targets/audit_line.rs"
    claims "../../../fuzz/fuzz_targets/claims.rs"
    descriptor "../../../fuzz/fuzz_targets/descriptor.rs"
    event "../../../fuzz/fuzz_targets/event.rs"
    fold "../../../fuzz/fuzz_targets/fold.rs"
    history "../../../fuzz/fuzz_targets/history.rs"
    ignore "../../../fuzz/fuzz_targets/ignore.rs"
    intents "../../../fuzz/fuzz_targets/intents.rs"
    lease_record "../../../fuzz/fuzz_targets/lease_record.rs"
    ledger_dir "../../../fuzz/fuzz_targets/ledger_dir.rs"
    ledger_files "../../../fuzz/fuzz_targets/ledger_files.rs"
    manifest "../../../fuzz/fuzz_targets/manifest.rs"
    proc "../../../fuzz/fuzz_targets/proc.rs"
    receipt "../../../fuzz/fuzz_targets/receipt.rs"
    record "../../../fuzz/fuzz_targets/record.rs"
    repository "../../../fuzz/fuzz_targets/repository.rs"
    root "../../../fuzz/fuzz_targets/root.rs"
    slot "../../../fuzz/fuzz_targets/slot.rs"
    state "../../../fuzz/fuzz_targets/state.rs"
}

/// Runs a target on its inputs, and on variations of them.
fn tried(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(&corpus).expect("every target has inputs").flatten().collect();
    files.sort_by_key(fs::DirEntry::file_name);
    let inputs: Vec<_> = files.iter().map(|file| fs::read(file.path()).expect("an input is a file")).collect();
    assert!(!inputs.is_empty(), "{} has inputs", corpus.display());
    for input in &inputs {
        run(input);
    }
    let (mut dice, ends_ms) = (Dice::new(SEED), now_ms() + LASTS_MS);
    while now_ms() < ends_ms {
        let input = varied(&inputs, &mut dice);
        let tried = catch_unwind(|| run(&input));
        assert!(tried.is_ok(), "{target} fails on b\"{}\"", input.escape_ascii());
    }
}

/// An input with a few changes: bytes that are others, gone or repeated, or the end of another input.
fn varied(inputs: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = inputs[dice.index(inputs.len())].clone();
    for _ in 0..=dice.below(4) {
        let at = dice.index(bytes.len() + 1);
        let end = bytes.len().min(at + dice.index(16));
        match dice.below(5) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.splice(at..at, bytes[at..end].to_vec()).for_each(drop),
            2 => {
                let other = &inputs[dice.index(inputs.len())];
                bytes.truncate(at);
                bytes.extend_from_slice(&other[dice.index(other.len() + 1)..]);
            }
            3 => bytes.insert(at, u8::try_from(dice.below(256)).expect("it is below 256")),
            _ if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            _ => bytes.push(0),
        }
    }
    bytes.truncate(LEN_MAX);
    bytes
}

/// A target as a function. It stands after the modules, which name it by its path.
#[macro_export]
macro_rules! fuzz_target {
    (|$bytes:ident: &[u8]| $body:block) => {
        pub(crate) fn run($bytes: &[u8]) $body
    };
}
