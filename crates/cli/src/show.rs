//! How holds, times and strings from files are shown to people.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;

use icu_properties::props::{DefaultIgnorableCodePoint, NoncharacterCodePoint};
use icu_properties::{CodePointSetData, CodePointSetDataBorrowed};
use jiff::Timestamp;
use lokt_core::denial::{Denial, Holder};
use lokt_core::duration;
use lokt_core::hold::{Hold, PartKind};
use lokt_core::liveness::Liveness;
use lokt_core::time::{millis_between, show_wall_seconds};

/// Text from a file or the environment, fit for a terminal: nothing in it can move the cursor or start a new line.
pub(crate) fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            let _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// JSON that is fit for a terminal too: what JSON itself leaves as it is (DEL, the C1 controls, which some terminals obey, and what
/// turns text around) is written as an escape, which means the same.
pub(crate) fn clean_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && c.is_control() || is_invisible(c) {
            // Beyond the first 65,536 characters JSON has only pairs.
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Characters that are drawn as nothing, or that reorder what stands beside them: formatting, tags, variation selectors, fillers.
const IGNORABLE: CodePointSetDataBorrowed<'static> = CodePointSetData::new::<DefaultIgnorableCodePoint>();
/// Characters that never will be any.
const NONCHARACTERS: CodePointSetDataBorrowed<'static> = CodePointSetData::new::<NoncharacterCodePoint>();

/// Characters that a reader can't see, and that a program, or a language model, reads all the same.
fn is_invisible(c: char) -> bool {
    // What neither property has: separators of lines and paragraphs, annotations between lines, and the empty Braille cell.
    let is_blank = || matches!(c, '\u{2028}' | '\u{2029}' | '\u{2800}' | '\u{fff9}'..='\u{fffb}');
    !c.is_ascii() && (IGNORABLE.contains(c) || NONCHARACTERS.contains(c) || is_blank())
}

/// `"name"`, as in every message.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", clean(name))
}

/// Where to look for what was no lock record.
pub(crate) fn moved_aside(root: &Path, aside: &str) -> String {
    let path = clean(&root.join(aside).to_string_lossy());
    format!("note: what was there could not be read as a lock record; it was moved to {path}")
}

/// Whole seconds from `from` to `now`, never negative.
pub(crate) fn seconds_since(from: Option<Timestamp>, now: Timestamp) -> i64 {
    from.map_or(0, |from| (millis_between(from, now) / 1000).max(0))
}

/// `5m0s` since `from`.
pub(crate) fn age(from: Option<Timestamp>, now: Timestamp) -> String {
    duration::show_seconds(seconds_since(from, now))
}

/// `45s`, `3m`, `2h`, `2h5m`, `3d`, `3d4h`: for people who look, not for scripts.
pub(crate) fn rough(secs: i64) -> String {
    let two = |large: i64, unit, small: i64, smaller| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{smaller}"),
    };
    match secs {
        ..60 => format!("{secs}s"),
        60..3_600 => format!("{}m", secs / 60),
        3_600..86_400 => two(secs / 3_600, 'h', secs % 3_600 / 60, 'm'),
        _ => two(secs / 86_400, 'd', secs % 86_400 / 3_600, 'h'),
    }
}

/// `3m ago`
pub(crate) fn ago(secs: i64) -> String {
    format!("{} ago", rough(secs))
}

/// `999 B`, `1.5 kB`, `45.6 MB`: thousands, as disks count.
pub(crate) fn size(bytes: u64) -> String {
    let mut unit = 1_u64;
    for name in ["B", "kB", "MB", "GB", "TB", "PB"] {
        // What would be rounded up to a thousand is one of the next.
        if bytes / unit < 1_000 && (name == "B" || tenths(bytes, unit) < 10_000) {
            let tenths = tenths(bytes, unit);
            return if name == "B" { format!("{bytes} B") } else { format!("{}.{} {name}", tenths / 10, tenths % 10) };
        }
        unit *= 1_000;
    }
    let tenths = tenths(bytes, unit);
    format!("{}.{} EB", tenths / 10, tenths % 10)
}

/// Rounded.
fn tenths(bytes: u64, unit: u64) -> u128 {
    (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit)
}

/// `1 file`, `2 files`
pub(crate) fn count(number: u64, one: &str, several: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {several}") }
}

/// `alice@host`
pub(crate) fn owner_at(hold: &Hold) -> String {
    format!("{}@{}", clean(&hold.owner), clean(&hold.host))
}

/// `alice (agent: agent-1a2b)@host`
pub(crate) fn agent_at(hold: &Hold) -> String {
    let agent = if hold.agent_id.is_empty() { String::new() } else { format!(" (agent: {})", clean(&hold.agent_id)) };
    format!("{}{agent}@{}", clean(&hold.owner), clean(&hold.host))
}

/// ` (pid 42)` of the process behind a hold. The pid in an owner's hold is that of a `lock` command that has long exited: shown, it
/// would read as if the lock were stale.
pub(crate) fn pid_of(hold: &Hold) -> String {
    if hold.has(PartKind::Process) { format!(" (pid {})", hold.pid) } else { String::new() }
}

/// `alice (agent: agent-1a2b)@host (pid 42)`
pub(crate) fn holder_line(hold: &Hold) -> String {
    format!("{}{}", agent_at(hold), pid_of(hold))
}

/// The advice that ends somebody else's hold or freeze without asking. It is for a person who reads a terminal: what is piped is read by
/// scripts and agents, for whom every command that is named is an invitation.
pub(crate) fn if_certain(reader: &impl IsTerminal, command: &str, effect: &str) -> Option<String> {
    reader.is_terminal().then(|| format!("If you are certain: `{command}` {effect}"))
}

/// Why it was taken, if that was said.
pub(crate) fn reason(hold: &Hold) -> Option<&str> {
    hold.reason.as_deref().filter(|reason| !reason.is_empty())
}

/// Is it a running guard's, which renews its lease while its command runs?
pub(crate) fn renews(holder: &Holder) -> bool {
    let only_process = holder.part_lives(PartKind::Process) && !holder.part_lives(PartKind::Owner);
    only_process && holder.hold.pulse.is_some() && holder.liveness == Liveness::Alive
}

/// What will end a live hold, in words.
pub(crate) fn until(holder: &Holder, now: Timestamp) -> String {
    let hold = &holder.hold;
    let end = holder.left_ms().map(|left_ms| at_and_in(left_ms, now));
    let process = holder.part_lives(PartKind::Process);
    let owner = holder.part_lives(PartKind::Owner);
    let ends = if holder.liveness == Liveness::Orphan {
        "what its guard left running ends".to_owned()
    } else {
        format!("process {} ends", hold.pid)
    };
    match (end, process, owner) {
        (Some(end), true, false) if renews(holder) => {
            format!("{ends}; it renews its lease, now until {end}")
        }
        (Some(end), true, false) => format!("{end}, or until {ends}"),
        (Some(end), ..) => end,
        (None, true, false) => ends,
        (None, true, true) => format!("`lokt unlock {}` by {}, and {ends}", clean(&hold.name), clean(&hold.owner)),
        (None, ..) => format!("`lokt unlock {}` by {}; it has no TTL", clean(&hold.name), clean(&hold.owner)),
    }
}

/// When something ends that has so much time left, and in how long.
pub(crate) fn at_and_in(left_ms: u64, now: Timestamp) -> String {
    let at = lokt_core::time::plus_millis(now, left_ms);
    format!("{} (in {})", show_wall_seconds(at), duration::show_seconds(seconds(left_ms)))
}

/// Whole seconds in milliseconds.
pub(crate) fn seconds(ms: u64) -> i64 {
    i64::try_from(ms / 1000).unwrap_or(i64::MAX)
}

/// What a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Lock,
    Freeze,
}

impl Subject {
    fn as_str(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Freeze => "freeze",
        }
    }
}

/// The sentence that a refusal begins with.
pub(crate) fn refusal(subject: Subject, name: &str, denial: &Denial, me: &str, now: Timestamp) -> String {
    let name = quoted(name);
    let subject = subject.as_str();
    match denial {
        Denial::Held(holder) => {
            format!("lock {name} held by {} for {}", holder_line(&holder.hold), age(holder.hold.began(), now))
        }
        Denial::Queued { ahead: 1 } => format!("lock {name} is free, but 1 other is first in line"),
        Denial::Queued { ahead } => format!("lock {name} is free, but {ahead} others are first in line"),
        Denial::Frozen(Some(freeze)) => {
            let hold = &freeze.hold;
            let left = match freeze.elapsed.left_ms() {
                Some(ms) if ms > 0 => format!(", {} remaining", duration::show_seconds(seconds(ms))),
                _ => String::new(),
            };
            format!("operation {name} frozen by {} for {}{left}", agent_at(hold), age(hold.began(), now))
        }
        Denial::Frozen(None) => format!("operation {name} is frozen by a freeze that can't be read"),
        Denial::BeingWritten => format!("{subject} {name} is being written by another program at this moment"),
        Denial::Newer { version } => {
            format!(
                "{subject} {name}: unsupported lockfile version: version {version} not supported (max: 1); upgrade lokt"
            )
        }
        Denial::Corrupt { why } => {
            format!("{subject} {name} has corrupted data: corrupted {subject} file: {}", clean(why))
        }
        Denial::Missing => format!("{subject} {name} not found"),
        Denial::NotYours(holder) => format!("{subject} {name} owned by {}, not {me}", owner_at(&holder.hold)),
        Denial::Guarded(holder) => {
            let (owner, pid) = (clean(&holder.hold.owner), holder.hold.pid);
            format!(
                "lock {name} is held by another process of the same owner ({owner}): a running guard (pid {pid}), not `lokt lock`"
            )
        }
        Denial::OtherHold(holder) => {
            format!(
                "lock {name} is another hold by now: lock id {} of {}",
                clean(holder.hold.lock_id.as_str()),
                owner_at(&holder.hold)
            )
        }
        Denial::StaleToken { named, current: Some(current) } => {
            format!("token {named} is not the current one of lock {name}: that is {current}")
        }
        Denial::StaleToken { named, current: None } => {
            format!("token {named} is not the current one of lock {name}: it has none")
        }
        Denial::OtherIssuer { named, holder } => {
            format!(
                "token {named} was issued elsewhere: here, {named} is the token of another hold of lock {name}, by {}",
                owner_at(&holder.hold)
            )
        }
        Denial::Over(holder) => {
            let token = holder.hold.token.map_or(0, lokt_core::hold::Fence::get);
            let why = match holder.staleness() {
                Some(lokt_core::denial::Staleness::Expired) => "its lease has expired",
                _ => "its process is gone",
            };
            format!("the hold of token {token} on lock {name} is over: {why}, and nobody has taken it since")
        }
        Denial::NotStale(holder) => not_stale(&name, holder),
        Denial::Kept => format!("lock {name} has not expired"),
        Denial::Lost(_) => format!("lock {name} is no longer yours"),
    }
}

fn not_stale(name: &str, holder: &Holder) -> String {
    let who = owner_at(&holder.hold);
    if holder.part_lives(PartKind::Owner) {
        let why = if holder.left_ms().is_some() { "its lease is not over" } else { "it has no TTL" };
        return format!("lock {name} held by {who} is not stale ({why})");
    }
    match holder.liveness {
        Liveness::Orphan => {
            format!("lock {name} held by {who} is not stale (its guard is gone, the command still runs)")
        }
        Liveness::Unknown => format!("lock {name} held by {who}: cannot verify PID on remote host"),
        _ => format!("lock {name} held by {who} is not stale (owner PID {} is alive)", holder.hold.pid),
    }
}

#[cfg(test)]
mod tests {
    use super::{IGNORABLE, NONCHARACTERS, ago, clean, clean_json, rough, size};

    #[test]
    fn rough_times_have_one_unit_or_two() {
        let shown: Vec<String> = [0, 59, 60, 119, 3_599, 3_600, 3_900, 86_399, 86_400, 100_000].map(rough).into();
        assert_eq!(shown, ["0s", "59s", "1m", "1m", "59m", "1h", "1h5m", "23h59m", "1d", "1d3h"]);
        assert_eq!(ago(180), "3m ago");
    }

    #[test]
    fn sizes_have_at_most_four_digits() {
        let shown: Vec<String> =
            [0, 999, 1_000, 1_449, 1_450, 999_949, 999_950, 45_600_000, 1_000_000_000, u64::MAX].map(size).into();
        let expected =
            ["0 B", "999 B", "1.0 kB", "1.4 kB", "1.5 kB", "999.9 kB", "1.0 MB", "45.6 MB", "1.0 GB", "18.4 EB"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn json_means_the_same_after_cleaning() {
        let text = serde_json::to_string_pretty(&["\u{9b}31m\u{7f}\u{202e}\n\u{1b}", "Zoë"]).expect("strings");
        let cleaned = clean_json(&text);
        assert!(cleaned.chars().all(|c| c == '\n' || !c.is_control()), "no control character is left: {cleaned:?}");
        let (before, after): (Vec<String>, Vec<String>) =
            (serde_json::from_str(&text).expect("JSON"), serde_json::from_str(&cleaned).expect("still JSON"));
        assert_eq!(before, after, "an escape means the same");
    }

    /// Every character that must not be shown as it is, by the tables of Unicode and by what was found in attacks.
    fn unseen() -> impl Iterator<Item = char> {
        let named = "\u{ad}\u{34f}\u{61c}\u{115f}\u{1160}\u{17b4}\u{180b}\u{180c}\u{180d}\u{180e}\u{200b}\u{200d}\u{2028}\u{2029}\u{202e}\
            \u{2066}\u{206a}\u{206f}\u{2800}\u{3164}\u{fe00}\u{fe0f}\u{feff}\u{ffa0}\u{fff9}\u{fffb}\u{1d173}\u{1d17a}\u{e0001}\
            \u{e0041}\u{e007f}\u{e0100}\u{e01ef}\u{fdd0}\u{fffe}\u{ffff}\u{10ffff}";
        let has_property = |c: &char| IGNORABLE.contains(*c) || NONCHARACTERS.contains(*c);
        named.chars().chain(('\u{0}'..=char::MAX).filter(has_property))
    }

    #[test]
    fn no_invisible_character_reaches_a_reader_and_json_means_the_same() {
        assert!(unseen().count() > 4_000, "the tables are there");
        for c in unseen() {
            let text = format!("al{c}ice");
            let cleaned = clean(&text);
            assert!(!cleaned.contains(c), "U+{:04X} in text: {cleaned:?}", u32::from(c));
            assert_ne!(cleaned, "alice", "U+{:04X} is shown", u32::from(c));
            let json = clean_json(&serde_json::to_string(&text).expect("a string"));
            assert!(!json.contains(c), "U+{:04X} in JSON: {json:?}", u32::from(c));
            let back: String = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
            assert_eq!(back, text, "an escape means the same");
        }
    }

    #[test]
    fn what_can_be_seen_is_shown_as_it_is() {
        for text in ["Zoë", "Zoe\u{308}", "日本語", "हिन्दी", "עברית", "ไทย", "한글", "✓ ☃ 🦀", "a b\u{a0}c", "𝕏"]
        {
            assert_eq!(clean(text), text);
            assert_eq!(clean_json(text), text);
        }
    }

    #[test]
    fn nothing_from_a_file_can_forge_a_line_or_move_the_cursor() {
        assert_eq!(clean("a\nb"), "a\\nb");
        assert_eq!(clean("\u{1b}[31m"), "\\u{1b}[31m");
        assert_eq!(clean("x\u{202e}y"), "x\\u{202e}y");
        assert_eq!(clean("Zoë ✓"), "Zoë ✓");
    }
}
