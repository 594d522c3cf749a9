//! What can happen next.

use jiff::{SignedDuration, Timestamp};
use lokt_core::decide::Breaking;
use lokt_core::hold::{Hold, PartKind};
use lokt_core::record::{self, Parsed};
use serde_json::{Map, Value, json};

use super::act::Aim;
use super::ledger::{Claim, Ledger, Term};
use super::machines::{Process, Seat};
use super::world::{Frost, Stored, World};

/// One thing that happens.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Pass(u64),
    Suspend(usize, u64),
    SetWall(usize, i64),
    Reboot(usize),
    Lock {
        seat: Seat,
        ttl_sec: Option<u64>,
        misfit: bool,
    },
    Guard {
        seat: Seat,
        ttl_sec: Option<u64>,
        keeps_pulse: bool,
        misfit: bool,
    },
    Bind {
        seat: Seat,
        ttl_sec: Option<u64>,
        misfit: bool,
    },
    BindAgain(Option<u64>),
    Nest(Seat),
    Renew(usize),
    Release(usize),
    KillGuard(usize),
    KillCommand(usize),
    Unlock {
        seat: Seat,
        breaking: Breaking,
        aim: Aim,
        misfit: bool,
    },
    UnlockFor {
        seat: Seat,
        owner: usize,
        misfit: bool,
    },
    Prune {
        seat: Seat,
        misfit: bool,
    },
    Freeze(Option<Frost>),
    /// Somebody asks whether a token is good: the one of a process, or any.
    Check {
        seat: Seat,
        number: usize,
        any: u64,
    },
    Line(usize),
    Outside(Outside),
}

/// What others do to the file.
#[derive(Debug, Clone)]
pub(crate) enum Outside {
    /// Somebody edits `expires_at`, by so many milliseconds from the machine's now.
    MoveEnd(usize, i64),
    /// Somebody takes `expires_at` and `ttl_sec` out.
    DropEnd,
    /// Somebody takes only `expires_at` out: arithmetic is left.
    DropExpiresAt,
    AddMember(u8),
    /// The old program refreshes its own owner's lock: its own members only, the lock id kept.
    OldRefresh,
    /// The old program takes a free name, as a guard that runs on.
    OldGuard {
        owner: usize,
        ttl_sec: Option<u64>,
    },
    Delete,
    Corrupt,
    Newer,
    Empty,
}

impl World {
    /// Lets `step` happen.
    pub(crate) fn run(&mut self, step: &Step) {
        match step.clone() {
            Step::Pass(ms) => self.stage.pass(ms, None),
            Step::Suspend(machine, ms) => self.stage.pass(ms, Some(self.machine(machine))),
            Step::SetWall(machine, ms) => {
                let machine = self.machine(machine);
                self.stage.machines[machine].step_wall(ms);
            }
            Step::Reboot(machine) => self.stage.reboot(self.machine(machine)),
            Step::Lock { seat, ttl_sec, misfit } => self.lock(self.seat(seat), ttl_sec, misfit),
            Step::Guard { seat, ttl_sec, keeps_pulse, misfit } => {
                self.guard(self.seat(seat), ttl_sec, keeps_pulse, misfit);
            }
            Step::Bind { seat, ttl_sec, misfit } => self.bind(self.seat(seat), ttl_sec, misfit),
            Step::BindAgain(ttl_sec) => self.bind_again(ttl_sec),
            Step::Nest(seat) => self.nest(self.seat(seat)),
            Step::Renew(number) => self.renew(number),
            Step::Release(number) => self.release(number),
            Step::KillGuard(number) => {
                if let Some(process) = self.stage.processes.get_mut(number) {
                    process.alive = false;
                }
            }
            Step::KillCommand(number) => {
                if let Some(process) = self.stage.processes.get_mut(number) {
                    process.command = process.command.map(|_| false);
                }
            }
            Step::Unlock { seat, breaking, aim, misfit } => self.unlock(self.seat(seat), breaking, aim, misfit),
            Step::UnlockFor { seat, owner, misfit } => self.unlock_for(self.seat(seat), owner, misfit),
            Step::Prune { seat, misfit } => self.prune(self.seat(seat), misfit),
            Step::Freeze(frost) => self.frost = frost,
            Step::Check { seat, number, any } => self.check(self.seat(seat), number, any),
            Step::Line(ahead) => self.ahead = ahead,
            Step::Outside(outside) => self.outside(&outside),
        }
    }

    fn machine(&self, machine: usize) -> usize {
        machine % self.stage.machines.len()
    }

    fn seat(&self, seat: Seat) -> Seat {
        Seat { machine: self.machine(seat.machine), ..seat }
    }

    fn outside(&mut self, outside: &Outside) {
        match outside {
            Outside::MoveEnd(machine, ms) => {
                let wall = self.stage.machines[self.machine(*machine)].wall;
                let end = wall.checked_add(SignedDuration::from_millis(*ms)).expect("in this century");
                self.edit(|members| {
                    members.insert("expires_at".into(), json!(end.to_string()));
                });
            }
            Outside::DropEnd => self.edit(|members| {
                members.remove("expires_at");
                members.remove("ttl_sec");
            }),
            Outside::DropExpiresAt => self.edit(|members| {
                members.remove("expires_at");
            }),
            Outside::AddMember(number) => self.edit(|members| {
                members.insert(format!("x_{}", number % 4), json!({"n": number, "f": f64::from(*number) / 7.0}));
            }),
            Outside::OldRefresh => self.old_refresh(),
            Outside::OldGuard { owner, ttl_sec } => self.old_guard(*owner, *ttl_sec),
            Outside::Delete => self.replace(Stored::Nothing),
            Outside::Corrupt => self.replace(Stored::Bytes(b"{\"version\": 1, \"own".to_vec())),
            Outside::Newer => self.replace(Stored::Bytes(br#"{"Version": 2, "owner": ["a"]}"#.to_vec())),
            Outside::Empty => self.replace(Stored::Young),
        }
    }

    fn replace(&mut self, stored: Stored) {
        self.put(stored);
        self.ledger = Ledger::default();
    }

    /// Somebody changes the text of the record. While its times aren't those that were written, the top level alone counts.
    fn edit(&mut self, change: impl FnOnce(&mut Map<String, Value>)) {
        let Stored::Bytes(bytes) = &self.stored else { return };
        if self.hold().is_none() {
            return;
        }
        let mut members: Map<String, Value> = serde_json::from_slice(bytes).expect("a record is an object");
        let times =
            |members: &Map<String, Value>| [members.get("acquired_ts").cloned(), members.get("expires_at").cloned()];
        let (written, unedited) = self.unedited.get_or_insert_with(|| (times(&members), self.ledger.clone())).clone();
        change(&mut members);
        self.stored = Stored::Bytes(serde_json::to_vec(&members).expect("JSON is JSON"));
        self.ledger = unedited;
        if times(&members) != written {
            let hold = self.hold().expect("an edited record is a record");
            self.ledger.edit(top_level_end(&hold));
        }
    }

    /// The old program by the same owner: everything but its own members is lost, and the process it names is gone at once.
    fn old_refresh(&mut self) {
        let Some(hold) = self.hold() else { return };
        let seat = Seat { machine: self.machine(1), owner: 0, container: false, time_ns: false };
        let process = self.old_process(seat, false);
        let (pid, start) = (self.stage.processes[process].pid, self.stage.processes[process].start());
        let now = self.stage.now(seat).wall;
        let record = json!({
            "version": 1, "name": "build", "lock_id": hold.lock_id.as_str(), "owner": hold.owner,
            "host": self.stage.machine(seat).host, "pid": pid, "pid_start_ns": start, "acquired_ts": now.to_string(),
        });
        self.put(Stored::Bytes(serde_json::to_vec_pretty(&record).expect("JSON is JSON")));
        let claim = Claim { kind: PartKind::Process, term: Term::Endless, process: Some(process) };
        self.ledger = Ledger { claims: vec![claim] };
    }

    fn old_guard(&mut self, owner: usize, ttl_sec: Option<u64>) {
        if self.stored != Stored::Nothing {
            return;
        }
        // Where two machines share a name, the old program can't tell them apart; this one has a name of its own.
        let seat = Seat { machine: self.machine(1), owner, container: false, time_ns: false };
        let process = self.old_process(seat, true);
        let (pid, start) = (self.stage.processes[process].pid, self.stage.processes[process].start());
        let now = self.stage.now(seat).wall;
        let mut record = json!({
            "version": 1, "name": "build", "lock_id": format!("old-{pid}"), "owner": seat.owner(),
            "host": self.stage.machine(seat).host, "pid": pid, "pid_start_ns": start, "acquired_ts": now.to_string(),
        });
        if let Some(ttl) = ttl_sec {
            let seconds = SignedDuration::from_secs(i64::try_from(ttl).expect("tests write short leases"));
            record["ttl_sec"] = json!(ttl);
            record["expires_at"] = json!(now.checked_add(seconds).expect("in this century").to_string());
        }
        self.put(Stored::Bytes(record::encode(&parsed(&record))));
        let term = top_level_end(&parsed(&record)).map_or(Term::Endless, Term::Wall);
        self.ledger = Ledger { claims: vec![Claim { kind: PartKind::Process, term, process: Some(process) }] };
    }

    fn old_process(&mut self, seat: Seat, alive: bool) -> usize {
        let pid = self.stage.next_pid();
        let boot = self.stage.machine(seat).boot;
        let process = Process { seat, boot, pid, alive, command: None, keeps_pulse: false, pulse: None, grip: None };
        self.stage.add(process)
    }
}

/// The end that the top level of a record says, by the rule of the seed.
fn top_level_end(hold: &Hold) -> Option<Timestamp> {
    hold.expires_at.or_else(|| {
        let acquired = hold.acquired.filter(|_| hold.ttl_sec > 0)?;
        acquired.checked_add(SignedDuration::from_secs(hold.ttl_sec)).ok()
    })
}

fn parsed(record: &Value) -> Hold {
    match record::parse(record.to_string().as_bytes()) {
        Parsed::Hold(hold) => *hold,
        other => panic!("the old program writes records, not {other:?}"),
    }
}
