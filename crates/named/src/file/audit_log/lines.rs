//! The lines of one file, read piece by piece: a log of any length needs no more memory than its
//! longest line.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use lokt_core::audit::{LINE_BYTES_MAX, Line};

use crate::store::{Found, Show};
use lokt_sys::disk::OpenFile;
use lokt_sys::error::Error;

/// Number of bytes read at once.
pub(super) const BUFFER_BYTES: usize = 64 << 10;

/// A log that is being read.
pub(super) struct Reader {
    file: Box<dyn OpenFile>,
    path: PathBuf,
    id: (u64, u64),
    /// Offset of the next read.
    at: u64,
    /// The beginning of a line whose end hasn't been read yet.
    begun: Vec<u8>,
    /// Set if the rest up to the next newline belongs to a line that was already handled.
    skips: bool,
    /// Set if the file can't be found by its name any more.
    pub(super) is_gone: bool,
}

impl Reader {
    /// Returns a reader at the beginning. `path` is where the file was found, for messages.
    pub(super) fn new(file: Box<dyn OpenFile>, path: PathBuf) -> Result<Self, Error> {
        let stamp = file.stamp().map_err(|error| Error::io("read", &path, error))?;
        let id = (stamp.dev, stamp.ino);
        Ok(Self { file, path, id, at: 0, begun: Vec::new(), skips: false, is_gone: false })
    }

    /// Device and inode.
    pub(super) fn id(&self) -> (u64, u64) {
        self.id
    }

    /// Returns the same reader with the current path of its file.
    pub(super) fn found_as(self, other: Self) -> Self {
        Self { path: other.path, is_gone: false, ..self }
    }

    pub(super) fn failed(&self, error: io::Error) -> Error {
        Error::io("read", &self.path, error)
    }

    /// Goes to the end.
    pub(super) fn go_to_end(&mut self) -> io::Result<()> {
        self.at = self.file.stamp()?.size;
        Ok(())
    }

    /// Goes to the end, or to the beginning of a last line that isn't complete.
    pub(super) fn go_to_last_line(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let size = self.file.stamp()?.size;
        let floor = size.saturating_sub(LINE_BYTES_MAX as u64 + 1);
        let mut end = size;
        while end > floor {
            let start = end.saturating_sub(buffer.len() as u64).max(floor);
            let wanted = usize::try_from(end - start).unwrap_or(buffer.len());
            let got = self.file.read_at(&mut buffer[..wanted], start)?;
            if let Some(place) = buffer[..got].iter().rposition(|byte| *byte == b'\n') {
                self.at = start + place as u64 + 1;
                return Ok(());
            }
            end = start;
        }
        // No event is that long: what comes is the rest of such a line.
        self.skips = floor > 0;
        self.at = if self.skips { size } else { 0 };
        Ok(())
    }

    /// Reads to the end and shows every complete line.
    pub(super) fn read_on(&mut self, buffer: &mut [u8], show: &mut Show<'_>) -> io::Result<ControlFlow<()>> {
        if self.file.stamp()?.size < self.at {
            // The file was truncated; its contents are new.
            self.at = 0;
            self.begun.clear();
            self.skips = false;
        }
        loop {
            let got = self.file.read_at(buffer, self.at)?;
            if got == 0 {
                return Ok(ControlFlow::Continue(()));
            }
            for piece in buffer[..got].split_inclusive(|byte| *byte == b'\n') {
                if self.take(piece, show).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                self.at += piece.len() as u64;
            }
        }
    }

    /// Handles a piece of a line, which may be its last piece or all of it.
    fn take(&mut self, piece: &[u8], show: &mut Show<'_>) -> ControlFlow<()> {
        let text = piece.strip_suffix(b"\n");
        let ends = text.is_some();
        let text = text.unwrap_or(piece);
        if self.skips {
            self.skips = !ends;
            return ControlFlow::Continue(());
        }
        if self.begun.len() + text.len() > LINE_BYTES_MAX {
            let offset = self.at - self.begun.len() as u64;
            self.begun = Vec::new();
            self.skips = !ends;
            return show(Found::TooLong { path: &self.path, offset });
        }
        match (ends, self.begun.is_empty()) {
            (true, true) => tell(text, show),
            (true, false) => {
                self.begun.extend_from_slice(text);
                let told = tell(&self.begun, show);
                self.begun.clear();
                told
            }
            (false, _) => {
                self.begun.extend_from_slice(text);
                ControlFlow::Continue(())
            }
        }
    }

    /// Shows a last line that has no newline.
    pub(super) fn tell_rest(&mut self, show: &mut Show<'_>) -> ControlFlow<()> {
        let rest = std::mem::take(&mut self.begun);
        tell(&rest, show)
    }

    /// Shows a last line that has no newline, if it is already an event.
    pub(super) fn tell_if_whole(&mut self, show: &mut Show<'_>) -> ControlFlow<()> {
        if Line::parse(&self.begun).is_none() {
            return ControlFlow::Continue(());
        }
        self.skips = true;
        self.tell_rest(show)
    }
}

fn tell(text: &[u8], show: &mut Show<'_>) -> ControlFlow<()> {
    match Line::parse(text) {
        Some(line) => show(Found::Event(line)),
        None if text.trim_ascii().is_empty() => ControlFlow::Continue(()),
        None => show(Found::NoEvent),
    }
}
