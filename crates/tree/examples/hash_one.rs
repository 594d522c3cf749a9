//! Reads files and hashes them with BLAKE3 on one thread, a megabyte at a time: what a snapshot that clones can't do without.
//! `benches/snapshot.py` measures against it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

fn main() -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    for path in std::env::args_os().skip(1) {
        let (mut file, mut hasher) = (File::open(&path)?, blake3::Hasher::new());
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => hasher.update(&buffer[..count]),
            };
        }
        writeln!(io::stdout(), "{}  {}", hasher.finalize().to_hex(), path.to_string_lossy())?;
    }
    Ok(())
}
