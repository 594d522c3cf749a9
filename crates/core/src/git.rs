//! Parsing of the two one-line files in which git says where a repository is. The library's `root`
//! module reads them.
//!
//! A path may contain any bytes, and ends with the line. Git, too, removes line ends and nothing
//! else.

/// Returns the path in a `.git` file (`gitdir: PATH`), which replaces the directory. `None`: it is
/// not such a file.
pub fn gitdir(content: &[u8]) -> Option<&[u8]> {
    path(content.strip_prefix(b"gitdir: ")?)
}

/// Returns the path in a `commondir` file: the directory that linked worktrees share. `None`: the
/// file has no path.
pub fn commondir(content: &[u8]) -> Option<&[u8]> {
    path(content)
}

fn path(line: &[u8]) -> Option<&[u8]> {
    let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))?;
    let path = &line[..=end];
    // A path can't contain a NUL.
    (!path.contains(&0)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_whatever_is_left_of_the_line() {
        let cases: [(&[u8], Option<&[u8]>); 14] = [
            (b"gitdir: /repo/.git/worktrees/w\n", Some(b"/repo/.git/worktrees/w")),
            (b"gitdir: ../.git/modules/m\n", Some(b"../.git/modules/m")),
            (b"gitdir: /repo\r\n", Some(b"/repo")),
            (b"gitdir: /repo\n\n", Some(b"/repo")),
            (b"gitdir: /repo", Some(b"/repo")),
            (b"gitdir:/repo\n", None),
            (b"gitdir: /a b\n", Some(b"/a b")),
            (b"gitdir: /ends with a blank \n", Some(b"/ends with a blank ")),
            (b"gitdir: /b\xfccher/.git\n", Some(b"/b\xfccher/.git")),
            (b"gitdir: /a\0b\n", None),
            (b"gitdir: \n", None),
            (b"gitdir:", None),
            (b"garbage", None),
            (b"", None),
        ];
        for (content, expected) in cases {
            assert_eq!(gitdir(content), expected, "{:?}", content.escape_ascii());
        }
    }

    #[test]
    fn what_is_shared_is_a_path_alone() {
        let cases: [(&[u8], Option<&[u8]>); 7] = [
            (b"../..\n", Some(b"../..")),
            (b"../..", Some(b"../..")),
            (b"/b\xfccher/.git\r\n", Some(b"/b\xfccher/.git")),
            (b" begins and ends with a blank \n", Some(b" begins and ends with a blank ")),
            (b"a\0b\n", None),
            (b"\n", None),
            (b"", None),
        ];
        for (content, expected) in cases {
            assert_eq!(commondir(content), expected, "{:?}", content.escape_ascii());
        }
    }
}
