//! Paths that are left out of snapshots: the file `.lokt-ignore` in the root of a worktree, with
//! the syntax of `.gitignore`.
//!
//! Every pattern is a list of steps, and a path is matched by following all ways through them at
//! once: no pattern is slow, whatever it contains.

use alloc::vec;
use alloc::vec::Vec;

/// Name of the file, in the root of a worktree.
pub const IGNORE_FILE: &str = ".lokt-ignore";
/// Maximum size of the file in bytes.
pub const IGNORE_BYTES_MAX: usize = 1 << 20;

/// The patterns of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignore {
    patterns: Vec<Pattern>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    /// It began with `!`: what it matches is included after all.
    keeps: bool,
    /// It ended with `/`.
    dirs_only: bool,
    /// It had no `/` elsewhere: it is compared with the last name only.
    name_only: bool,
    /// Required beginning: most paths need no further check.
    head: Vec<u8>,
    /// Steps between beginning and end.
    steps: Vec<Step>,
    /// Required end.
    tail: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Byte(u8),
    /// `?`: any byte except `/`.
    One,
    /// `[...]`
    Class(Class),
    /// `*`: any bytes except `/`.
    Star,
    /// `**` at the end: everything.
    Any,
    /// `**/`: any directories, or none. The step that always follows it matches some.
    Dirs,
    /// Inside the names of directories, which end with a `/`.
    InDirs,
}

/// A set of bytes, never with `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Class {
    negated: bool,
    /// First and last byte, both included.
    ranges: Vec<(u8, u8)>,
}

impl Ignore {
    /// Parses the file. Every line is a pattern, or nothing: an invalid pattern matches nothing.
    pub fn parse(text: impl AsRef<[u8]>) -> Self {
        let text = text.as_ref();
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        Self { patterns: text.split(|byte| *byte == b'\n').filter_map(Pattern::parse).collect() }
    }

    /// Reports whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Reports whether this is left out, if the directories above it are included. A caller that
    /// walks through a tree doesn't enter directories that are left out, and asks about each entry
    /// that it sees.
    pub fn is_ignored(&self, path: &[u8], is_dir: bool) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        // The last pattern that matches counts.
        let said = self.patterns.iter().rev().find(|pattern| pattern.matches(path, name, is_dir));
        !path.is_empty() && said.is_some_and(|pattern| !pattern.keeps)
    }

    /// Reports whether this, or a directory above it, is left out.
    pub fn hides(&self, path: &[u8], is_dir: bool) -> bool {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.into_iter().any(|(slash, _)| self.is_ignored(&path[..slash], true)) || self.is_ignored(path, is_dir)
    }
}

impl Pattern {
    fn parse(line: &[u8]) -> Option<Self> {
        if line.first() == Some(&b'#') {
            return None;
        }
        let line = without_trailing_spaces(line.strip_suffix(b"\r").unwrap_or(line));
        let (keeps, line) = line.strip_prefix(b"!").map_or((false, line), |rest| (true, rest));
        let (dirs_only, line) = line.strip_suffix(b"/").map_or((false, line), |rest| (true, rest));
        let name_only = !line.contains(&b'/');
        let line = line.strip_prefix(b"/").unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        let mut steps = steps(line)?;
        let bytes = |steps: &mut dyn Iterator<Item = &Step>| -> Vec<u8> {
            steps.map_while(|step| if let Step::Byte(byte) = step { Some(*byte) } else { None }).collect()
        };
        let head = bytes(&mut steps.iter());
        steps.drain(..head.len());
        let mut tail = bytes(&mut steps.iter().rev());
        steps.truncate(steps.len() - tail.len());
        tail.reverse();
        Some(Self { keeps, dirs_only, name_only, head, steps, tail })
    }

    fn matches(&self, path: &[u8], name: &[u8], is_dir: bool) -> bool {
        let text = if self.name_only { name } else { path };
        let rest = text.strip_prefix(self.head.as_slice()).and_then(|rest| rest.strip_suffix(self.tail.as_slice()));
        (is_dir || !self.dirs_only) && rest.is_some_and(|rest| follows(&self.steps, rest))
    }
}

/// Removes spaces at the end, except after a backslash.
fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        at += if *byte == b'\\' { 2 } else { 1 };
        if *byte != b' ' {
            end = at.min(line.len());
        }
    }
    &line[..end]
}

/// Returns the steps of a pattern; `None` if it can't match anything.
fn steps(pattern: &[u8]) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut at = 0;
    while let Some(byte) = pattern.get(at) {
        at += 1;
        match byte {
            b'\\' => {
                steps.push(Step::Byte(*pattern.get(at)?));
                at += 1;
            }
            b'?' => steps.push(Step::One),
            b'[' => {
                let (class, length) = class(&pattern[at..])?;
                steps.push(Step::Class(class));
                at += length;
            }
            b'*' => {
                let first = at - 1;
                at += pattern[at..].iter().take_while(|byte| **byte == b'*').count();
                let is_alone = at - first > 1 && (first == 0 || pattern[first - 1] == b'/');
                match &pattern[at..] {
                    [] | [b'\\', b'/', ..] if is_alone => steps.push(Step::Any),
                    [b'/', ..] if is_alone => {
                        steps.extend([Step::Dirs, Step::InDirs]);
                        at += 1;
                    }
                    _ => steps.push(Step::Star),
                }
            }
            byte => steps.push(Step::Byte(*byte)),
        }
    }
    Some(steps)
}

/// Parses the set after a `[`. Returns it with its length, including the `]`; `None` if it has no
/// end, or an unknown name.
fn class(pattern: &[u8]) -> Option<(Class, usize)> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let first = at;
    let mut ranges = Vec::new();
    let mut from = None;
    loop {
        let byte = *pattern.get(at)?;
        at += 1;
        let single = match byte {
            // As the first byte, it is a member of the set.
            b']' if at - 1 > first => return Some((Class { negated, ranges }, at)),
            b'\\' => {
                at += 1;
                *pattern.get(at - 1)?
            }
            b'-' if from.is_some() && pattern.get(at).is_some_and(|next| *next != b']') => {
                let mut to = *pattern.get(at)?;
                at += 1;
                if to == b'\\' {
                    to = *pattern.get(at)?;
                    at += 1;
                }
                ranges.push((from.take()?, to));
                continue;
            }
            b'[' if pattern.get(at) == Some(&b':') => {
                let end = at + 1 + pattern[at + 1..].iter().position(|byte| *byte == b']')?;
                // Without a colon before its end, the bracket is a member of the set.
                if end >= at + 2 && pattern[end - 1] == b':' {
                    ranges.extend(named(&pattern[at + 1..end - 1])?);
                    at = end + 1;
                    from = None;
                    continue;
                }
                byte
            }
            _ => byte,
        };
        ranges.push((single, single));
        from = Some(single);
    }
}

/// Returns the bytes of a named set.
fn named(name: &[u8]) -> Option<&'static [(u8, u8)]> {
    Some(match name {
        b"alnum" => &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')],
        b"alpha" => &[(b'A', b'Z'), (b'a', b'z')],
        b"blank" => &[(b' ', b' '), (b'\t', b'\t')],
        b"cntrl" => &[(0, 31), (127, 127)],
        b"digit" => &[(b'0', b'9')],
        b"graph" => &[(b'!', b'~')],
        b"lower" => &[(b'a', b'z')],
        b"print" => &[(b' ', b'~')],
        b"punct" => &[(b'!', b'/'), (b':', b'@'), (b'[', b'`'), (b'{', b'~')],
        b"space" => &[(b' ', b' '), (b'\t', b'\r')],
        b"upper" => &[(b'A', b'Z')],
        b"xdigit" => &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')],
        _ => return None,
    })
}

impl Class {
    fn has(&self, byte: u8) -> bool {
        byte != b'/' && self.ranges.iter().any(|(from, to)| (*from..=*to).contains(&byte)) != self.negated
    }
}

/// Reports whether the steps match the whole text.
fn follows(steps: &[Step], text: &[u8]) -> bool {
    if steps.is_empty() {
        return text.is_empty();
    }
    // Steps before which the match can be; the last position is the end.
    let mut here = vec![false; steps.len() + 1];
    let mut next = here.clone();
    here[0] = true;
    skip(steps, &mut here);
    for byte in text {
        next.fill(false);
        for (at, step) in steps.iter().enumerate().filter(|(at, _)| here[*at]) {
            match step {
                Step::Byte(literal) => next[at + 1] |= literal == byte,
                Step::One => next[at + 1] |= *byte != b'/',
                Step::Class(class) => next[at + 1] |= class.has(*byte),
                Step::Star => next[at] |= *byte != b'/',
                Step::Any => next[at] = true,
                Step::Dirs => {}
                Step::InDirs => {
                    next[at] = true;
                    next[at + 1] |= *byte == b'/';
                }
            }
        }
        skip(steps, &mut next);
        core::mem::swap(&mut here, &mut next);
    }
    here[steps.len()]
}

/// Advances past steps that may match nothing.
fn skip(steps: &[Step], here: &mut [bool]) {
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Star | Step::Any => here[at + 1] |= here[at],
            Step::Dirs => {
                here[at + 1] |= here[at];
                here[at + 2] |= here[at];
            }
            Step::Byte(_) | Step::One | Step::Class(_) | Step::InDirs => {}
        }
    }
}
