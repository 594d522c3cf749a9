//! The system calls of the native program's append, and nothing else: a yardstick for the benchmarks. It folds nothing, and is started faster than
//! a program with a runtime of its own.

#![expect(clippy::disallowed_methods, reason = "it does what another program does, which replaces and removes")]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let (Some(dir), Some(event)) = (words.next(), words.next()) else { panic!("usage: native_append LEDGER EVENT") };
    let dir = Path::new(&dir);
    fs::metadata(dir)?;
    let lock = dir.join("ledger.lock");
    let new = |path: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    new(&lock)?
        .write_all(b"{\"agent_id\":\"append-operation\",\"acquired_at\":\"2026-01-01T00:00:00.000000000Z\"}\n")?;
    let mut head = 0_u64;
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".json")?.parse().ok());
        head = head.max(number.unwrap_or(0));
    }
    let temp = dir.join(format!(".event-{}.tmp", std::process::id()));
    let mut file: File = new(&temp)?;
    file.write_all(event.as_bytes())?;
    file.sync_all()?;
    drop(file);
    fs::set_permissions(&temp, Permissions::from_mode(0o644))?;
    fs::rename(&temp, dir.join(format!("{:06}.json", head + 1)))?;
    // Is it still ours?
    fs::read(&lock)?;
    fs::remove_file(&lock)
}
