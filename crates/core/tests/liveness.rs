//! The whole table of `liveness::weigh`: every combination of evidence, against the section on pulses of the design.
//!
//! The oracle below is written from that text and asks its questions in the text's order: is it the same machine, what does the pulse
//! say, what do the processes say.

mod common {
    pub(crate) mod askers;
    pub(crate) mod holds;
}

use common::askers::asker;
use common::holds::{BOOT, EXT4, HOST, stored};
use lokt_core::hold::{Hold, Identity};
use lokt_core::liveness::{Clues, Liveness, Process, PulseClue, is_local, weigh};

const NFS: u64 = 0x6969;

const PULSES: [PulseClue; 5] =
    [PulseClue::None, PulseClue::Misfit, PulseClue::Unreadable, PulseClue::Locked, PulseClue::Free];
const PROCESSES: [Process; 3] = [Process::Alive, Process::Dead, Process::Unseen];
const COMMANDS: [Option<Process>; 4] = [None, Some(Process::Alive), Some(Process::Dead), Some(Process::Unseen)];
const BOOTS: [Option<&str>; 3] = [None, Some(BOOT), Some("boot-2")];
const HOSTS: [&str; 2] = [HOST, "elsewhere"];
const NAMESPACES: [Option<u64>; 3] = [None, Some(1), Some(2)];
const FILE_SYSTEMS: [Option<u64>; 3] = [None, Some(EXT4), Some(NFS)];

/// Where a record was written, or where the asker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spot {
    host: &'static str,
    boot: Option<&'static str>,
    pid_ns: Option<u64>,
    fs: Option<u64>,
}

/// Where the processes of a record are, as seen by the asker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Machine {
    /// The same boot id.
    Same,
    /// The record names no boot, and the host name is ours: an old program's.
    SameByName,
    /// Another boot of a machine with our name, and both see a file system of one kernel and the same pids: it went down with its
    /// processes. (A container can have a boot id of its own; it has its own pids too.)
    SameBeforeItsReboot,
    /// Nothing here can be compared.
    Other,
}

fn machine(written: Spot, here: Spot) -> Machine {
    let same_name = written.host == here.host;
    match (written.boot, here.boot) {
        (None, _) if same_name => Machine::SameByName,
        (None, _) => Machine::Other,
        (Some(then), Some(now)) if then == now => Machine::Same,
        (Some(_), Some(_)) if same_name && is_ext4(written.fs) && is_ext4(here.fs) && same_pids(written, here) => {
            Machine::SameBeforeItsReboot
        }
        (Some(_), _) => Machine::Other,
    }
}

fn is_ext4(fs: Option<u64>) -> bool {
    fs == Some(EXT4)
}

/// A pid means something only in the namespace it was read in, and only if that is known.
fn seen(process: Process, written: Spot, here: Spot) -> Process {
    if same_pids(written, here) { process } else { Process::Unseen }
}

fn same_pids(written: Spot, here: Spot) -> bool {
    written.pid_ns.is_some() && written.pid_ns == here.pid_ns
}

/// The verdict by the text of the design.
fn verdict(written: Spot, here: Spot, clues: Clues) -> Liveness {
    let machine = machine(written, here);
    match machine {
        Machine::Other => return Liveness::Unknown,
        Machine::SameBeforeItsReboot => return Liveness::Gone,
        Machine::Same | Machine::SameByName => {}
    }
    // A pid of an old program is believed as that program believed it: it recorded no namespace.
    let old = written.boot.is_none() && written.pid_ns.is_none();
    let look = |process| if old { process } else { seen(process, written, here) };
    let holder = look(clues.holder);
    let command = clues.command.map(look);

    // Somebody keeps the pulse locked: whoever that is, the hold lives. With the guard dead, it is its command.
    if clues.pulse == PulseClue::Locked {
        return if holder == Process::Dead { Liveness::Orphan } else { Liveness::Alive };
    }
    // A pulse that can't be looked at may be locked: then nothing proves an end.
    if clues.pulse == PulseClue::Unreadable {
        return if holder == Process::Alive { Liveness::Alive } else { Liveness::Unknown };
    }
    // Gone needs: the same boot id, the recorded file, the lock obtained, and the recorded command dead.
    if clues.pulse == PulseClue::Free && machine == Machine::Same {
        return match command {
            None | Some(Process::Dead) => Liveness::Gone,
            Some(Process::Alive) => Liveness::Orphan,
            Some(Process::Unseen) => Liveness::Unknown,
        };
    }
    // What doesn't fit falls back to pid and start time, inside the same pid namespace.
    match holder {
        Process::Alive => Liveness::Alive,
        Process::Unseen => Liveness::Unknown,
        Process::Dead => match command {
            Some(Process::Alive) => Liveness::Orphan,
            Some(Process::Unseen) => Liveness::Unknown,
            None | Some(Process::Dead) => Liveness::Gone,
        },
    }
}

fn record_at(spot: Spot) -> Hold {
    Hold {
        host: spot.host.into(),
        boot_id: spot.boot.map(Into::into),
        pid_ns: spot.pid_ns,
        fs: spot.fs,
        ..stored("alice")
    }
}

fn asker_at(spot: Spot) -> Identity {
    Identity {
        host: spot.host.into(),
        boot_id: spot.boot.map(Into::into),
        pid_ns: spot.pid_ns,
        fs: spot.fs,
        ..asker("bob")
    }
}

fn every_spot() -> impl Iterator<Item = Spot> {
    HOSTS.into_iter().flat_map(|host| {
        BOOTS.into_iter().flat_map(move |boot| {
            NAMESPACES
                .into_iter()
                .flat_map(move |pid_ns| FILE_SYSTEMS.into_iter().map(move |fs| Spot { host, boot, pid_ns, fs }))
        })
    })
}

fn every_clue() -> impl Iterator<Item = Clues> {
    PULSES.into_iter().flat_map(|pulse| {
        PROCESSES
            .into_iter()
            .flat_map(move |holder| COMMANDS.into_iter().map(move |command| Clues { pulse, holder, command }))
    })
}

/// Everything there is, as (where the record was written, where the asker stands, what was found out).
fn every_case() -> impl Iterator<Item = (Spot, Spot, Clues)> {
    every_spot().flat_map(|written| {
        // The asker's host name never changes: only whether it is the record's matters.
        every_spot()
            .filter(|here| here.host == HOST)
            .flat_map(move |here| every_clue().map(move |clues| (written, here, clues)))
    })
}

#[test]
fn every_combination_of_evidence_is_weighed_as_the_design_says() {
    let mut count = 0;
    for (written, here, clues) in every_case() {
        let expected = verdict(written, here, clues);
        let weighed = weigh(&record_at(written), &asker_at(here), clues);
        assert_eq!(weighed, expected, "record of {written:?}, seen from {here:?}, with {clues:?}");
        count += 1;
    }
    assert_eq!(count, 54 * 27 * 60, "the table is whole");
}

#[test]
fn child_counts_nothing_is_gone_while_its_command_is_seen_to_run() {
    for (written, here, clues) in every_case() {
        if written.boot == here.boot && written.pid_ns == here.pid_ns && clues.command == Some(Process::Alive) {
            let weighed = weigh(&record_at(written), &asker_at(here), clues);
            assert_ne!(weighed, Liveness::Gone, "a command runs, but its hold of {written:?} is gone with {clues:?}");
        }
    }
}

#[test]
fn child_counts_nothing_is_gone_while_its_pulse_is_locked() {
    for (written, here, clues) in every_case() {
        // Before a reboot there was another kernel: what it had locked is locked no more, whatever a look at the file says.
        if clues.pulse == PulseClue::Locked && machine(written, here) != Machine::SameBeforeItsReboot {
            let weighed = weigh(&record_at(written), &asker_at(here), clues);
            assert_ne!(weighed, Liveness::Gone, "a pulse beats, but its hold of {written:?} is gone with {clues:?}");
        }
    }
}

#[test]
fn crash_frees_a_guard_and_its_command_that_are_gone_are_gone_at_once() {
    let clues = Clues { pulse: PulseClue::Free, holder: Process::Dead, command: Some(Process::Dead) };
    assert_eq!(weigh(&stored("alice"), &asker("bob"), clues), Liveness::Gone);
    // A guard that died before its command started has none to name.
    let clues = Clues { command: None, ..clues };
    assert_eq!(weigh(&stored("alice"), &asker("bob"), clues), Liveness::Gone);
}

#[test]
fn a_guard_that_dropped_its_pulse_is_gone_though_its_process_runs_on() {
    // A release that couldn't get the mutex does this, in a process that may live for days.
    let clues = Clues { pulse: PulseClue::Free, holder: Process::Alive, command: None };
    assert_eq!(weigh(&stored("alice"), &asker("bob"), clues), Liveness::Gone);
}

#[test]
fn another_boot_proves_nothing_on_a_file_system_that_machines_share() {
    let dead = Clues { pulse: PulseClue::Free, holder: Process::Dead, command: Some(Process::Dead) };
    for (theirs, ours, expected) in [
        (Some(EXT4), Some(EXT4), Liveness::Gone),
        (Some(NFS), Some(EXT4), Liveness::Unknown),
        (Some(EXT4), Some(NFS), Liveness::Unknown),
        (None, Some(EXT4), Liveness::Unknown),
        (Some(EXT4), None, Liveness::Unknown),
    ] {
        let hold = Hold { boot_id: Some("boot-0".into()), fs: theirs, ..stored("alice") };
        let me = Identity { fs: ours, ..asker("bob") };
        assert_eq!(weigh(&hold, &me, dead), expected, "the holder saw {theirs:x?}, we see {ours:x?}");
    }
}

#[test]
fn only_file_systems_of_one_kernel_are_local() {
    // From statfs(2) and linux/magic.h.
    for (name, magic) in [
        ("ext4", 0xef53),
        ("xfs", 0x5846_5342),
        ("btrfs", 0x9123_683e),
        ("tmpfs", 0x0102_1994),
        ("overlayfs", 0x794c_7630),
        ("f2fs", 0xf2f5_2010),
        ("zfs", 0x2fc1_2fc1),
        ("bcachefs", 0xca45_1a4e),
        ("ramfs", 0x8584_58f6),
    ] {
        assert!(is_local(Some(magic)), "{name} belongs to one kernel");
    }
    for (name, magic) in [
        ("nfs", 0x6969),
        ("smb", 0x517b),
        ("smb2", 0xfe53_4d42),
        ("cifs", 0xff53_4d42),
        ("9p", 0x0102_1997),
        ("fuse and virtiofs", 0x6573_5546),
        ("ceph", 0x00c3_6400),
        ("ocfs2", 0x7461_636f),
        ("gfs2", 0x0116_1970),
        ("vboxsf", 0x786f_4256),
        ("nothing", 0),
    ] {
        assert!(!is_local(Some(magic)), "{name} may have writers elsewhere");
    }
    assert!(!is_local(None), "what is not known is not local");
}

#[test]
fn each_verdict_has_its_word_in_json() {
    let words = [Liveness::Alive, Liveness::Orphan, Liveness::Gone, Liveness::Unknown].map(Liveness::as_str);
    assert_eq!(words, ["alive", "orphan", "gone", "unknown"]);
}
