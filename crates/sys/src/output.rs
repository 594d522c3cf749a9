//! An output that may have no reader for a while, or no reader any more: a pipe, a terminal.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::wakeup::poll_for;

/// The number of bytes that a pipe takes at once, if it has room at all.
const PIPE_BYTES: usize = 4096;

/// Waits until `output` accepts more, for at most `patience`. A full pipe and a paused terminal
/// (Ctrl-S) accept nothing; an output whose reader is gone accepts everything, with an error.
pub fn has_room(output: impl AsFd, patience: Duration) -> io::Result<bool> {
    let mut polled = [PollFd::new(&output, PollFlags::OUT)];
    poll_for(&mut polled, patience)?;
    Ok(!polled[0].revents().is_empty())
}

/// Reports whether the reader of `output` is still there.
pub fn has_reader(output: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&output, PollFlags::empty())];
    let is_known = poll_for(&mut polled, Duration::ZERO).is_ok();
    !is_known || !polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Writes as much as `output` accepts without waiting. The rest is lost.
pub fn write_at_once(output: impl AsFd, bytes: &[u8]) {
    if has_room(&output, Duration::ZERO).is_ok_and(|has_room| has_room) {
        let _ = rustix::io::write(&output, &bytes[..bytes.len().min(PIPE_BYTES)]);
    }
}

/// Writes all of `bytes`, without a time limit. `BrokenPipe`: nothing will ever read them.
pub fn write_all(output: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(&output, rest) {
            Ok(0) => return Err(io::ErrorKind::BrokenPipe.into()),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Another program that shares the output made it non-blocking.
            Err(Errno::AGAIN) => drop(has_room(&output, Duration::from_secs(1))),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pipe_has_no_room_and_a_closed_one_no_reader() {
        let (reader, writer) = io::pipe().expect("there are descriptors");
        let has_room_now = || has_room(&writer, Duration::ZERO).expect("it can be polled");
        assert!(has_room_now() && has_reader(&writer));
        while has_room_now() {
            write_at_once(&writer, &[b'x'; 5000]);
        }
        write_at_once(&writer, b"lost");
        assert!(has_reader(&writer), "it is only full");
        drop(reader);
        // A child that another test starts now has a copy of the reader until it calls `exec`.
        let has_left = || {
            let has_left = !has_reader(&writer);
            if !has_left {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            has_left
        };
        assert!((0..1_000).any(|_| has_left()) && has_room_now(), "nothing is waited for any more");
        assert_eq!(write_all(&writer, b"x").map_err(|error| error.kind()), Err(io::ErrorKind::BrokenPipe));
    }
}
