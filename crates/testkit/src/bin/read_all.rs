//! The least that any `status` must do: list a directory, open, read and close every file in it. A yardstick for the benchmarks.

use std::io::Write as _;

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};

fn main() -> std::io::Result<()> {
    let path = std::env::args_os().nth(1).expect("usage: read_all DIRECTORY");
    let dir = openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    let mut names: Vec<_> =
        Dir::read_from(&dir)?.filter_map(|entry| Some(entry.ok()?.file_name().to_owned())).collect();
    names.sort_unstable();
    let mut bytes = 0;
    let mut buffer = [0_u8; 4096];
    for name in names {
        let file = openat(&dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        // The two entries that are directories can't be read.
        bytes += rustix::io::read(&file, &mut buffer).unwrap_or(0);
    }
    writeln!(std::io::stdout(), "{bytes}")
}
