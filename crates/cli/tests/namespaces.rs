//! **one-holder** where the same process looks different: another thread left alive, hidden processes, time and pid namespaces.
//!
//! Most of these need the superuser (`unshare`, `mount`, `setpriv`) and fail without: a test that can't run has shown nothing.

use std::process::{Child, Command, Stdio};

use lokt_testkit::cmd::Place;
use lokt_testkit::swarm::{Ended, put};

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_lokt"))
}

/// A process that does nothing, for as long as the value lives.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep runs"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a script as `owner`, with `$LOKT` for the command.
fn script(place: &Place, owner: &str, wrap: &[&str], text: &str) -> Ended {
    let binary = format!("LOKT={}", env!("CARGO_BIN_EXE_lokt"));
    place.run_words(owner, &[&["env", &binary], wrap, &["sh", "-c", text]].concat())
}

fn must_work(place: &Place, wrap: &[&str]) {
    let ended = script(place, "x", wrap, "true");
    assert_eq!(ended.code, Some(0), "this test needs root, for {wrap:?}: {}", ended.stderr);
}

#[test]
fn a_reader_in_another_time_namespace_does_not_take_a_living_process_for_a_dead_one() {
    lokt_testkit::need!(root);
    let place = place();
    let wrap = ["unshare", "--time", "--boottime", "100000", "--fork"];
    must_work(&place, &wrap);
    let sleeper = Sleeper::new();
    place.take("a", &["x", "--bind", &sleeper.pid()]);
    let ended = script(&place, "b", &wrap, "\"$LOKT\" lock x");
    assert_eq!(ended.code, Some(2), "one-holder: it lives: {}", ended.stderr);
    // And the other way round.
    let ended = script(&place, "a", &wrap, &format!("\"$LOKT\" lock y --bind {}", sleeper.pid()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(place.run("b", &["lock", "y"]).code, Some(2), "one-holder: it lives");
    drop(sleeper);
    assert_eq!(script(&place, "b", &wrap, "\"$LOKT\" lock x").code, Some(0), "the dead are seen from there too");
    assert_eq!(place.run("b", &["lock", "y"]).code, Some(0), "and here");
}

#[test]
fn a_process_that_is_hidden_from_the_reader_is_not_gone() {
    lokt_testkit::need!(root);
    let place = place();
    let wrap = ["unshare", "--mount"];
    // The strangers' group, and a place that they can reach.
    let shared = script(
        &place,
        "a",
        &wrap,
        "mkdir -m 2770 \"$LOKT_ROOT\" && chgrp 12345 \"$LOKT_ROOT\" && chmod 2770 \"$LOKT_ROOT\" && chmod 755 . \
         && cp \"$LOKT\" lokt && chmod 755 lokt && mount -t proc -o hidepid=2 proc /proc",
    );
    assert_eq!(shared.code, Some(0), "this test needs root: {}", shared.stderr);
    let sleeper = Sleeper::new();
    place.take("a", &["x", "--bind", &sleeper.pid()]);
    let stranger = "mount -t proc -o hidepid=2 proc /proc \
        && setpriv --reuid 12345 --regid 12345 --clear-groups ./lokt lock x";
    let ended = script(&place, "b", &wrap, stranger);
    assert_eq!(ended.code, Some(2), "one-holder: it lives: {}", ended.stderr);
    drop(sleeper);
    assert_eq!(script(&place, "b", &wrap, stranger).code, Some(0), "now it is gone, and that can be seen");
}

#[test]
fn a_proc_of_the_outer_pid_namespace_is_not_asked_about_inner_processes() {
    lokt_testkit::need!(root);
    let place = place();
    let wrap = ["unshare", "--pid", "--fork"];
    must_work(&place, &wrap);
    // Inside, /proc still shows the outer processes; after the mount it shows the inner ones.
    let text = "sleep 60 & S=$!; \"$LOKT\" lock x --bind $S || exit 90; \
        unshare --mount sh -c 'mount -t proc proc /proc && LOKT_OWNER=b \"$LOKT\" lock x'; R=$?; \
        kill $S; wait $S; LOKT_OWNER=b \"$LOKT\" lock x || exit 91; exit $R";
    let ended = script(&place, "a", &wrap, text);
    assert_eq!(ended.code, Some(2), "one-holder: it lives: {} {}", ended.stdout, ended.stderr);
}

#[test]
fn a_process_whose_first_thread_has_ended_still_holds() {
    let place = place();
    let source = place.beside("leader.c");
    put(
        &source,
        "#include <pthread.h>\n#include <unistd.h>\nvoid *go(void *x) { sleep(60); _exit(0); }\n\
         int main(void) { pthread_t t; pthread_create(&t, 0, go, 0); pthread_exit(0); }\n",
    );
    let binary = place.beside("leader");
    let built = Command::new("cc").args(["-pthread", "-o"]).arg(&binary).arg(&source).status();
    assert!(built.is_ok_and(|status| status.success()), "this test needs a C compiler");
    let leader = Sleeper(Command::new(&binary).spawn().expect("it was just built"));
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", leader.pid())).unwrap_or_default();
    let is_zombie = lokt_testkit::swarm::wait_until(std::time::Duration::from_secs(10), || stat().contains(") Z "));
    assert!(is_zombie, "its first thread is gone");
    let bound = place.run("a", &["lock", "x", "--bind", &leader.pid()]);
    assert_eq!(bound.code, Some(0), "it can be bound to: {}", bound.stderr);
    assert_eq!(place.run("b", &["lock", "x"]).code, Some(2), "one-holder: its other thread lives");
}

#[test]
fn a_container_with_a_boot_id_of_its_own_does_not_declare_the_machine_rebooted() {
    lokt_testkit::need!(root);
    let place = place();
    let wrap = ["unshare", "--pid", "--fork", "--mount", "--mount-proc"];
    must_work(&place, &wrap);
    let sleeper = Sleeper::new();
    place.take("a", &["x", "--bind", &sleeper.pid()]);
    put(&place.beside("boot_id"), "11111111-2222-3333-4444-555555555555\n");
    let text = "mount --bind boot_id /proc/sys/kernel/random/boot_id && \"$LOKT\" lock x";
    let ended = script(&place, "b", &wrap, text);
    assert_eq!(ended.code, Some(2), "one-holder: it lives: {} {}", ended.stdout, ended.stderr);
}

#[test]
fn a_record_without_a_boot_id_is_not_judged_by_the_pids_of_another_namespace() {
    lokt_testkit::need!(root);
    let place = place();
    let wrap = ["unshare", "--pid", "--fork", "--mount", "--mount-proc"];
    must_work(&place, &wrap);
    // No boot id can be read here; the namespace can.
    let text = "mount -t tmpfs none /proc/sys/kernel/random && sh -c 'while :; do sleep 1; done' & \
        mount -t tmpfs none /proc/sys/kernel/random && \"$LOKT\" lock x --bind $!";
    let ended = script(&place, "a", &wrap, text);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(place.stored("x").is_some_and(|record| record.get("boot_id").is_none()), "the record names no boot");
    assert_eq!(place.run("b", &["lock", "x"]).code, Some(2), "one-holder: those pids can't be asked about from here");
}

#[test]
fn a_process_that_lives_below_the_namespace_of_its_record_is_found_from_elsewhere() {
    lokt_testkit::need!(root);
    let place = place();
    let elsewhere = ["unshare", "--pid", "--fork"];
    must_work(&place, &elsewhere);
    let mut above = Command::new("unshare");
    let mut above = above.args(["--pid", "--fork", "--kill-child", "sleep", "60"]).spawn().expect("unshare runs");
    let children = format!("/proc/{0}/task/{0}/children", above.id());
    let below = loop {
        match std::fs::read_to_string(&children).expect("it runs").trim() {
            "" => lokt_testkit::swarm::pause(std::time::Duration::from_millis(5)),
            pid => break pid.to_owned(),
        }
    };
    place.take("a", &["x", "--bind", &below]);
    let taken = script(&place, "b", &elsewhere, "\"$LOKT\" lock x");
    let _ = above.kill();
    let _ = above.wait();
    assert_eq!(taken.code, Some(2), "one-holder: it lives, as process 1 of a namespace below: {}", taken.stderr);
}

#[test]
fn a_mount_whose_name_is_no_text_hides_no_process() {
    lokt_testkit::need!(root);
    let place = place();
    let wrap = ["unshare", "--mount"];
    must_work(&place, &wrap);
    // Whoever may mount anything anywhere, as `fusermount` lets everybody, can call it so.
    let text = "odd=$(printf 'odd\\377') && mkdir \"$odd\" && mount -t tmpfs none \"$odd\" || exit 90; \
        unshare --pid --fork --mount-proc sh -c '\"$LOKT\" lock x --bind $$; exit $?' || exit 91; \
        LOKT_OWNER=b \"$LOKT\" lock x";
    let ended = script(&place, "a", &wrap, text);
    assert_eq!(ended.code, Some(0), "crash-frees: it died with its namespace: {} {}", ended.stdout, ended.stderr);
}
