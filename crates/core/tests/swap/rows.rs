//! The pins and writes of every kind of change, exactly.

use lokt_core::decide::{Breaking, Intent};
use lokt_core::engine::{Change, Rev, Span, Write};
use lokt_core::hold::PartKind;
use lokt_core::liveness::Liveness;
use lokt_core::swap::plan::{self, Kind};
use lokt_core::swap::record::Meta;
use lokt_core::swap::view::Standing;
use lokt_core::swap::{Plan, Refusal, sweep};

use crate::world::{ALICE, ALICE_TOO, BOB, World, freeze, guard, lock, name, unlock};

fn is(plan: &Plan, pins: &[&str], writes: &[&str]) {
    assert_eq!(World::pins(plan), pins, "pins");
    assert_eq!(World::writes(plan), writes, "writes");
    let shown = plan.change.look.iter().filter(|span| matches!(span, Span::Below(_))).count();
    assert!(shown >= 1, "the else branch shows the names");
}

#[test]
fn a_guard_on_a_free_name() {
    let mut world = World::new();
    let plan = world.plan(ALICE, &guard(), &["x"]).expect("it is free");
    is(
        &plan,
        &["meta=1", "n/x/cell=0", "none below n/x/line"],
        &["put n/x/cell", "put n/x/m/10/who", "put n/x/m/10/process with 1", "put a/1/1/0"],
    );
    world.makes(&plan);
    assert_eq!(world.token("x"), Some(2), "the token is the revision");
    assert_eq!(world.pulse("x").map(|pulse| pulse.number), Some(2), "so is the pulse");
}

#[test]
fn a_lock_on_a_free_name_has_a_life_only_with_a_ttl() {
    let mut world = World::new();
    let pins = ["meta=1", "n/x/cell=0", "none below n/x/line"];
    let plan = world.plan(ALICE, &lock(None), &["x"]).expect("it is free");
    is(&plan, &pins, &["put n/x/cell", "put n/x/m/10/who", "put a/1/1/0"]);
    let plan = world.plan(ALICE, &lock(Some(60)), &["x"]).expect("it is free");
    is(&plan, &pins, &["put n/x/cell", "put n/x/m/20/who", "put n/x/m/20/owner with 11", "put a/1/2/0"]);
}

#[test]
fn a_grant_drops_the_stale_member_in_its_way() {
    let mut world = World::new();
    world.does(ALICE, &guard(), &["x"]);
    world.keys.end(ALICE.session());
    let plan = world.plan(BOB, &guard(), &["x"]).expect("it is stale");
    is(
        &plan,
        &["meta=1", "n/x/cell=2", "none below n/x/line", "n/x/m/10/who=2"],
        &[
            "put n/x/cell",
            "put n/x/m/20/who",
            "put n/x/m/20/process with 3",
            "drop below n/x/m/10",
            "put a/3/2/0",
            "put a/3/2/1",
        ],
    );
    world.makes(&plan);
    assert_eq!(world.see("x").members.len(), 1);
}

#[test]
fn a_waiter_that_is_first_pins_its_ticket_and_drops_it() {
    let mut world = World::new();
    world.does(ALICE, &lock(None), &["x"]);
    let queued = world.queue(BOB, Rev(2), &["x"]);
    is(&queued, &["meta=1", "n/x/cell=2"], &["put n/x/line/2/3 with 3"]);
    assert_eq!(queued.kind, Kind::Ticket);
    world.makes(&queued);
    world.does(ALICE, &unlock(Breaking::No), &["x"]);
    let plan = world.plan(BOB, &guard(), &["x"]).expect("it is first");
    is(
        &plan,
        &["meta=1", "n/x/cell=2", "none before n/x/line/2/3", "n/x/line/2/3=3"],
        &["put n/x/cell", "put n/x/m/30/who", "put n/x/m/30/process with 3", "drop n/x/line/2/3", "put a/4/3/0"],
    );
}

#[test]
fn a_revived_hold_keeps_its_lock_id_and_draws_a_token() {
    let mut world = World::new();
    world.does(ALICE, &lock(Some(60)), &["x"]);
    world.keys.end(ALICE.lease());
    world.keys.open(ALICE.lease());
    let plan = world.plan(ALICE, &lock(Some(60)), &["x"]).expect("it is its own");
    is(
        &plan,
        &["meta=1", "n/x/cell=2", "none below n/x/line", "n/x/m/10/who=2"],
        &["put n/x/cell", "put n/x/m/10/who", "put n/x/m/10/owner with 11", "drop n/x/m/10/process", "put a/3/2/0"],
    );
    world.makes(&plan);
    assert_eq!(world.token("x"), Some(4));
}

#[test]
fn a_refresh_pins_the_life_that_it_was_judged_by_and_keeps_its_token() {
    let mut world = World::new();
    world.does(ALICE, &lock(Some(60)), &["x"]);
    let plan = world.plan(ALICE_TOO, &lock(Some(90)), &["x"]).expect("it is its own");
    is(
        &plan,
        &["meta=1", "n/x/cell=2", "n/x/m/10/who=2", "n/x/m/10/owner=2"],
        &["put n/x/cell", "put n/x/m/10/who", "put n/x/m/10/owner with 12", "put a/2/2/0"],
    );
    world.makes(&plan);
    assert_eq!(world.token("x"), Some(2), "it is written out");
}

#[test]
fn a_refresh_without_a_ttl_drops_the_life_that_it_had() {
    let mut world = World::new();
    world.does(ALICE, &lock(Some(60)), &["x"]);
    let plan = world.plan(ALICE, &lock(None), &["x"]).expect("it is its own");
    let writes = ["put n/x/cell", "put n/x/m/10/who", "drop n/x/m/10/owner", "put a/2/2/0"];
    assert_eq!(World::writes(&plan), writes);
}

#[test]
fn an_owner_part_is_added_beside_a_guard() {
    let mut world = World::new();
    world.does(ALICE, &guard(), &["x"]);
    let plan = world.plan(ALICE_TOO, &lock(None), &["x"]).expect("it is its own");
    is(
        &plan,
        &["meta=1", "n/x/cell=2", "n/x/m/10/who=2", "n/x/m/10/process=2"],
        &["put n/x/cell", "put n/x/m/10/who", "put a/2/2/0"],
    );
    world.makes(&plan);
    assert_eq!(world.pulse("x").map(|pulse| pulse.number), Some(2), "the guard stays inside");
}

#[test]
fn a_guard_joins_its_owners_part_under_the_same_token() {
    let mut world = World::new();
    world.does(ALICE, &lock(Some(60)), &["x"]);
    let plan = world.plan(ALICE, &guard(), &["x"]).expect("it is its own");
    is(
        &plan,
        &["meta=1", "n/x/cell=2", "n/x/m/10/who=2", "n/x/m/10/owner=2"],
        &["put n/x/cell", "put n/x/m/10/who", "put n/x/m/10/process with 1", "put a/2/2/0"],
    );
    world.makes(&plan);
    assert_eq!((world.token("x"), world.pulse("x").map(|pulse| pulse.number)), (Some(2), Some(3)));
}

#[test]
fn a_release_removes_the_member_or_its_part() {
    let mut world = World::new();
    world.does(ALICE, &guard(), &["x"]);
    let release = world.grip("x");
    let plan = world.plan(ALICE, &release, &["x"]).expect("it holds");
    let pins = ["n/x/m/10/process born 2", "n/x/m/10/who=2"];
    is(&plan, &pins, &["drop below n/x/m/10", "put a/2/2/0"]);
    assert_eq!(plan.kind, Kind::Removal);

    world.does(ALICE_TOO, &lock(None), &["x"]);
    let plan = world.plan(ALICE, &release, &["x"]).expect("it holds");
    let pins = ["n/x/m/10/process born 2", "n/x/m/10/who=3"];
    is(&plan, &pins, &["put n/x/m/10/who", "drop n/x/m/10/process", "put a/3/4/0"]);
    world.makes(&plan);
    assert_eq!(world.token("x"), Some(2), "the owner part keeps it");
    assert_eq!(world.plan(ALICE, &release, &["x"]), Err(Refusal::Nothing), "it is lost");
}

#[test]
fn an_unlock_removes_the_member_or_its_part() {
    let mut world = World::new();
    world.does(ALICE, &lock(Some(60)), &["x"]);
    let plan = world.plan(ALICE, &unlock(Breaking::No), &["x"]).expect("it is its own");
    is(&plan, &["n/x/m/10/who=2"], &["drop below n/x/m/10", "put a/2/2/0"]);
    world.does(ALICE, &guard(), &["x"]);
    let plan = world.plan(ALICE, &unlock(Breaking::No), &["x"]).expect("it is its own");
    let writes = ["put n/x/m/10/who", "drop n/x/m/10/owner", "put a/3/4/0"];
    is(&plan, &["n/x/m/10/who=3"], &writes);
}

#[test]
fn force_removes_what_it_judged() {
    let mut world = World::new();
    world.does(ALICE, &guard(), &["x"]);
    let plan = world.plan(BOB, &unlock(Breaking::Force), &["x"]).expect("by force");
    is(&plan, &["n/x/m/10/who=2"], &["drop below n/x/m/10", "put a/2/2/0"]);
}

#[test]
fn a_freeze_is_an_addition_and_its_end_a_removal() {
    let mut world = World::new();
    let plan = world.plan(ALICE, &freeze(Some(60)), &["x"]).expect("it is not frozen");
    is(
        &plan,
        &["meta=1", "n/x/cell=0"],
        &["put n/x/cell", "put n/x/freeze/who", "put n/x/freeze/life with 11", "put a/1/1/0"],
    );
    world.makes(&plan);
    assert_eq!(world.plan(BOB, &guard(), &["x"]), Err(Refusal::Nothing), "it is frozen");
    let plan = world.plan(ALICE, &freeze(None), &["x"]).expect("its own gets a new end");
    let writes = ["put n/x/cell", "put n/x/freeze/who", "drop n/x/freeze/life", "put a/2/3/0"];
    is(&plan, &["meta=1", "n/x/cell=2"], &writes);
    let plan = world.plan(ALICE, &Intent::Unfreeze { force: false }, &["x"]).expect("its own");
    is(&plan, &["n/x/freeze/who=2"], &["drop below n/x/freeze", "put a/2/4/0"]);
    world.keys.end(ALICE.lease());
    assert!(world.plan(BOB, &guard(), &["x"]).is_ok(), "its lease is over");
}

#[test]
fn a_ticket_is_passed_over_by_its_revision() {
    let mut world = World::new();
    let queued = world.queue(BOB, Rev(1), &["x"]);
    world.makes(&queued);
    let view = world.look(&[name("x")]);
    let plan = plan::drop_tickets(&world.space, &view, &view.names[0].line);
    is(&plan, &["n/x/line/1/3=2"], &["drop n/x/line/1/3"]);
}

#[test]
fn several_names_are_one_change() {
    let mut world = World::new();
    let plan = world.plan(ALICE, &guard(), &["x", "y"]).expect("both are free");
    is(
        &plan,
        &["meta=1", "n/x/cell=0", "none below n/x/line", "n/y/cell=0", "none below n/y/line"],
        &[
            "put n/x/cell",
            "put n/x/m/10/who",
            "put n/x/m/10/process with 1",
            "put n/y/cell",
            "put n/y/m/11/who",
            "put n/y/m/11/process with 1",
            "put a/1/1/0",
            "put a/1/1/1",
        ],
    );
    world.makes(&plan);
    assert_eq!((world.token("x"), world.token("y")), (Some(2), Some(2)), "one token");
    world.does(ALICE, &world.grip("y"), &["y"]);
    let refused = world.plan(BOB, &guard(), &["x", "y"]);
    assert_eq!(refused, Err(Refusal::Nothing), "one is held, so nothing changes");
    let queued = world.queue(BOB, Rev(1), &["x", "y"]);
    let tickets = ["put n/x/line/1/3 with 3", "put n/y/line/1/3 with 3"];
    assert_eq!(World::writes(&queued), tickets, "one place in both queues");
}

#[test]
fn more_names_than_fit_into_one_change_are_refused() {
    let names: Vec<_> = (0..17).map(|n| format!("n{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut world = World::new();
    assert_eq!(world.plan(ALICE, &guard(), &names), Err(Refusal::TooMany));
    let plan = world.plan(ALICE, &guard(), &names[..16]).expect("they fit");
    assert!(plan.change.pins.len() <= 128 && plan.change.writes.len() <= 128);
}

#[test]
fn a_sweep_rewrites_meta_and_deletes_free_cells_only() {
    let mut world = World::new();
    for text in ["free", "held", "frozen", "awaited"] {
        world.does(ALICE, &lock(None), &[text]);
        world.does(ALICE, &unlock(Breaking::No), &[text]);
    }
    world.does(ALICE, &lock(None), &["held"]);
    world.does(ALICE, &freeze(None), &["frozen"]);
    let queued = world.queue(BOB, Rev(1), &["awaited"]);
    world.makes(&queued);
    let names = ["free", "held", "frozen", "awaited", "never"].map(name);
    let change = sweep::sweep(&world.space, &world.look(&names)).expect("one is free");
    let plan = Plan { change, kind: Kind::Removal, proof: None, base: 0, grants: vec![] };
    assert_eq!(World::pins(&plan), ["meta=1", "n/free/cell=2"]);
    assert_eq!(World::writes(&plan), ["put meta", "drop n/free/cell"]);
}

#[test]
fn a_space_that_is_missing_closed_or_newer_gets_no_additions_and_lets_holders_go() {
    let closed = Meta { closed: "files".into(), ..Meta::new("9f") };
    let newer = Meta { format: 2, ..Meta::new("9f") };
    for (meta, standing) in [(closed, Standing::Closed("files".into())), (newer, Standing::Newer(2))] {
        let mut world = World::new();
        world.does(ALICE, &guard(), &["x"]);
        let put = Write::Put(world.space.meta(), meta.encode(), None);
        world.apply(&Change { writes: vec![put], ..Change::default() }).expect("no session");
        let refused = world.plan(BOB, &guard(), &["y"]);
        assert_eq!(refused, Err(Refusal::Space(standing)));
        world.does(ALICE, &world.grip("x"), &["x"]);
    }
    let mut world = World::new();
    let dropped = vec![Write::Drop(world.space.meta())];
    world.apply(&Change { writes: dropped, ..Change::default() }).expect("no session");
    let refused = world.plan(ALICE, &guard(), &["x"]);
    assert_eq!(refused, Err(Refusal::Space(Standing::Missing)));
}

#[test]
fn a_guard_without_a_session_is_over_although_its_part_has_no_ttl() {
    let mut world = World::new();
    let Intent::Guard(terms, bearer) = guard() else { unreachable!() };
    let endless = Intent::Guard(lokt_core::decide::Terms { ttl_sec: None, ..terms }, bearer);
    world.does(ALICE, &endless, &["x"]);
    assert!(world.see("x").members[0].part_lives(PartKind::Process, Liveness::Unknown));
    world.keys.end(ALICE.session());
    assert!(world.plan(BOB, &guard(), &["x"]).is_ok(), "its session is gone");
}

#[test]
fn an_unreadable_record_counts_while_a_session_is_behind_it() {
    let mut world = World::new();
    world.does(ALICE, &guard(), &["x"]);
    let id = world.hold("x").expect("it is held").lock_id;
    let who = world.space.name(&name("x")).who(&id);
    let broken = Write::Put(who, b"{".to_vec(), None);
    world.apply(&Change { writes: vec![broken], ..Change::default() }).expect("no session");
    assert_eq!(world.plan(BOB, &guard(), &["x"]), Err(Refusal::Nothing));
    world.keys.end(ALICE.session());
    assert!(world.plan(BOB, &guard(), &["x"]).is_ok());
}

#[test]
fn a_cell_of_another_mode_is_left_to_newer_programs() {
    let mut world = World::new();
    let cell = world.space.name(&name("x")).cell();
    let pool = Write::Put(cell, br#"{"mode":"slot","slots":4}"#.to_vec(), None);
    world.apply(&Change { writes: vec![pool], ..Change::default() }).expect("no session");
    assert_eq!(world.plan(BOB, &guard(), &["x"]), Err(Refusal::Nothing));
}
