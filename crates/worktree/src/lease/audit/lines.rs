//! Reads the log line by line from any place. Whatever its length, it takes no more memory than its
//! longest line.

use std::io;

use lokt_core::lease::audit::{Anchor, Broken, Event, Head, read_line};
use serde_json::Value;

use lokt_sys::disk::OpenFile;

/// Bytes per read: a command has few lines that it hasn't seen yet.
const READ_BYTES: usize = 16 << 10;
/// Maximum length of a line in bytes: a reason is at most as long as a command's arguments.
const LINE_BYTES_MAX: usize = 4 << 20;

/// A place in the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// Number of lines before it.
    pub(super) count: u64,
    /// Hash of the last one.
    pub(super) hash: String,
    /// Number of bytes before it.
    pub(super) size: u64,
}

impl From<&Anchor> for Place {
    fn from(anchor: &Anchor) -> Self {
        Self { count: anchor.count, hash: anchor.hash.clone(), size: anchor.size }
    }
}

impl From<&Head> for Place {
    fn from(head: &Head) -> Self {
        Self { count: head.count, hash: head.hash.clone(), size: head.size }
    }
}

impl Place {
    pub(super) fn anchor(&self, logged: u64, boot_id: Option<String>) -> Anchor {
        if !self.has_good_line() {
            return Anchor { logged, boot_id, ..Anchor::default() };
        }
        Anchor { count: self.count, hash: self.hash.clone(), size: self.size, logged, boot_id }
    }

    /// Reports whether there is a line before it that the next one can follow. Rubbish has no hash:
    /// nothing about it could be checked.
    pub(super) fn has_good_line(&self) -> bool {
        !self.hash.is_empty()
    }
}

/// The next line.
#[derive(Debug)]
pub(super) enum Line {
    /// It follows the one before.
    Good(Box<Event>),
    /// It doesn't, or is not an event.
    Bad(Broken),
    /// Like `Bad`, but with bytes that no process writes: a file system may show them where it lost
    /// what was written.
    Wiped(Broken),
    /// The beginning of a line whose writer was killed, or ran out of space. The place stays before
    /// it.
    Torn,
}

/// Reads the lines of a log.
pub(super) struct Lines<'f> {
    file: &'f dyn OpenFile,
    /// The place after the last line that was returned.
    pub(super) place: Place,
    /// Bytes that were read and not returned yet: from `begin` on.
    buffer: Vec<u8>,
    begin: usize,
    /// Position in the file where the buffer ends.
    read_to: u64,
}

impl<'f> Lines<'f> {
    /// Begins at `place`.
    pub(super) fn new(file: &'f dyn OpenFile, place: Place) -> Self {
        Self { file, read_to: place.size, place, buffer: Vec::new(), begin: 0 }
    }

    /// Returns the next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        while let Some(Raw { bytes, length, is_ended }) = self.raw()? {
            let end = self.place.size + length + u64::from(is_ended);
            if bytes.trim_ascii().is_empty() {
                self.place.size = end;
                continue;
            }
            let number = self.place.count + 1;
            let read = if length > bytes.len() as u64 {
                Err(Broken { line: number, why: "it is longer than any event".into() })
            } else {
                read_line(&bytes, number, &self.place.hash)
            };
            if read.is_err() && !is_ended && is_begun(&bytes) {
                return Ok(Some(Line::Torn));
            }
            self.place.size = end;
            self.place.count += 1;
            return Ok(Some(match read {
                Ok((event, hash)) => {
                    self.place.hash = hash;
                    Line::Good(Box::new(event))
                }
                Err(broken) if bytes.contains(&0) => Line::Wiped(broken),
                Err(broken) => Line::Bad(broken),
            }));
        }
        Ok(None)
    }

    /// Returns the next line, valid or not.
    pub(super) fn raw(&mut self) -> io::Result<Option<Raw>> {
        let (mut looked, mut dropped) = (0, 0);
        loop {
            let rest = &self.buffer[self.begin..];
            if let Some(at) = rest[looked..].iter().position(|byte| *byte == b'\n') {
                let bytes = rest[..looked + at].to_vec();
                self.begin += bytes.len() + 1;
                let length = dropped + bytes.len() as u64;
                return Ok(Some(Raw { bytes, length, is_ended: true }));
            }
            looked = rest.len();
            if looked > LINE_BYTES_MAX {
                // Its content isn't needed, only its end.
                dropped += looked as u64;
                dropped -= 1;
                self.begin = self.buffer.len() - 1;
                looked = 1;
            }
            self.buffer.drain(..self.begin);
            self.begin = 0;
            self.buffer.resize(looked + READ_BYTES, 0);
            let got = self.file.read_at(&mut self.buffer[looked..], self.read_to)?;
            self.buffer.truncate(looked + got);
            self.read_to += got as u64;
            if got == 0 {
                let bytes = std::mem::take(&mut self.buffer);
                let length = dropped + bytes.len() as u64;
                return Ok((!bytes.is_empty()).then_some(Raw { bytes, length, is_ended: false }));
            }
        }
    }
}

/// Reports whether a line with this hash ends at `size`.
pub(super) fn ends_with(file: &dyn OpenFile, size: u64, hash: &str) -> io::Result<bool> {
    let mut bytes = Vec::new();
    let mut from = size;
    // Reads backwards until the beginning of the line is there.
    while from > 0 && bytes.len() <= LINE_BYTES_MAX && last_line(&bytes).is_none() {
        let mut before = vec![0; READ_BYTES.max(bytes.len()).min(usize::try_from(from).unwrap_or(usize::MAX))];
        from -= before.len() as u64;
        if !fill(file, &mut before, from)? {
            return Ok(false);
        }
        before.append(&mut bytes);
        bytes = before;
    }
    let last = last_line(&bytes).unwrap_or_else(|| bytes.trim_ascii_end());
    let value: Value = serde_json::from_slice(last).unwrap_or_default();
    let before = value.get("prev_hash").and_then(Value::as_str).unwrap_or_default();
    Ok(read_line(last, 0, before).is_ok_and(|(_, found)| found == hash))
}

/// Returns the last line, if these bytes begin before it.
fn last_line(bytes: &[u8]) -> Option<&[u8]> {
    let bytes = bytes.trim_ascii_end();
    bytes.iter().rposition(|byte| *byte == b'\n').map(|at| &bytes[at + 1..])
}

/// Fills `bytes` from `position` on. Returns false if the file ends before.
fn fill(file: &dyn OpenFile, bytes: &mut [u8], position: u64) -> io::Result<bool> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], position + filled as u64)? {
            0 => return Ok(false),
            got => filled += got,
        }
    }
    Ok(true)
}

/// A line as it is in the file.
pub(super) struct Raw {
    /// If the line is longer than any event, only its end.
    pub(super) bytes: Vec<u8>,
    pub(super) length: u64,
    /// Whether a newline follows.
    is_ended: bool,
}

/// Reports whether these may be the first bytes of an event.
fn is_begun(bytes: &[u8]) -> bool {
    bytes.starts_with(b"{") && serde_json::from_slice::<Value>(bytes).is_err_and(|error| error.is_eof())
}
