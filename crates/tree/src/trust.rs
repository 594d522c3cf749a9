//! Decides which file systems keep the two promises that a snapshot needs.

use std::path::Path;

use lokt_sys::mounts::mounted_on;

const EXT: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;
const BTRFS: u64 = 0x9123_683E;
const F2FS: u64 = 0xF2F5_2010;
const OVERLAY: u64 = 0x794C_7630;

/// Reports whether a file system keeps both promises. Every change of a file updates its ctime
/// (even one through a memory map, if the pages were written back before), and `syncfs` makes
/// everything durable. tmpfs doesn't notice changes through maps. FUSE and network file systems
/// have caches with rules of their own. A volatile overlay syncs nothing, so it write-protects no
/// page either.
pub(super) fn keeps_promises(dir: &Path, magic: Option<u64>) -> bool {
    match magic {
        Some(EXT | XFS | BTRFS | F2FS) => true,
        Some(OVERLAY) => {
            let mount = mounted_on(dir);
            mount.kind == "overlay" && !mount.options.split(',').any(is_volatile)
        }
        _ => false,
    }
}

fn is_volatile(option: &str) -> bool {
    option == "volatile" || option == "fsync=volatile"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_strangers_are_not_trusted() {
        for magic in [None, Some(0x0102_1994), Some(0x6573_5546), Some(0x6969), Some(0)] {
            assert!(!keeps_promises(Path::new("/"), magic), "{magic:?}");
        }
        assert!(keeps_promises(Path::new("/"), Some(EXT)));
    }
}
