//! Any text where Linux should say something about processes, mounts, locks and users, and any bytes where git should say where a repository is.
#![cfg_attr(fuzzing, no_main)]

use libfuzzer_sys::fuzz_target;
use lokt_core::git::{commondir, gitdir};
use lokt_core::proc::{
    boot_id, command_name, flock_holder, hides_processes, ignores_signal, may_have_pid, mount_in, namespace_in,
    parse_stat, shares_flock, user_name,
};

fuzz_target!(|bytes: &[u8]| {
    repository(bytes);
    if let Some(id) = boot_id(bytes) {
        assert!(!id.is_empty() && id.trim() == id, "an id has no blanks around it: {id:?}");
        assert_eq!(boot_id(format!("{id}\n").as_bytes()).as_ref(), Some(&id), "a boot reads back");
    }
    let command = command_name(bytes);
    assert_eq!(command_name(command.as_bytes()), command, "a command reads back");
    let text = String::from_utf8_lossy(bytes);
    if let Some(stat) = parse_stat(&text) {
        let again = format!("1 (a)) {} {}{} x", stat.state, "1 ".repeat(19 - 1), stat.start);
        assert_eq!(parse_stat(&again), Some(stat), "whatever the command is called: {again}");
        assert!(stat.may_be(stat.start) && stat.may_be(0), "it is itself");
        assert!(!(stat.has_ended() && stat.is_stopped()), "it isn't both");
    }
    for pid in [0, 1, 42, i64::MAX] {
        let in_any = may_have_pid(&text, pid, None);
        let in_one = [true, false].iter().any(|there| may_have_pid(&text, pid, Some(*there)));
        assert_eq!(in_any, in_one, "where it lives is there or elsewhere");
    }
    let ignored = (i32::MIN..=0).rev().take(3).chain(65..70).chain([i32::MAX]);
    assert!(!ignored.into_iter().any(|number| ignores_signal(&text, number)), "there are 64 signals");
    if let Some(inode) = namespace_in(&text, "pid") {
        assert_eq!(namespace_in(&format!("pid:[{inode}]"), "pid"), Some(inode), "a namespace reads back");
    }
    if let Some(mount) = mount_in(&text, 43) {
        assert!(text.contains(" - "), "it has a file system: {mount:?}");
    }
    let _ = hides_processes(&text);
    assert!(!shares_flock(&text) || text.contains("lock:") && text.contains("FLOCK"), "a lock is listed");
    if let Some(pid) = flock_holder(&text, (0, 0x27), 2) {
        assert!(pid > 0 && text.contains("FLOCK") && text.contains(&pid.to_string()), "it is named there: {pid}");
    }
    if let Some(name) = user_name(&text, 1000) {
        assert!(!name.is_empty() && !name.contains([':', '\n']), "a name is one word of a line: {name:?}");
    }
});

/// A path has no line end at its end and no NUL, is part of what was read, and reads back.
fn repository(bytes: &[u8]) {
    for (path, before) in [(gitdir(bytes), &b"gitdir: "[..]), (commondir(bytes), b"")] {
        let Some(path) = path else { continue };
        assert!(
            !path.is_empty() && !path.contains(&0) && !path.ends_with(b"\n") && !path.ends_with(b"\r"),
            "it is a path"
        );
        assert!(bytes.windows(path.len()).any(|part| part == path), "it is what was read");
        let again = [before, path, b"\n"].concat();
        let read = if before.is_empty() { commondir(&again) } else { gitdir(&again) };
        assert_eq!(read, Some(path), "a path reads back");
    }
}
