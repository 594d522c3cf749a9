//! Who is late: release, extend and append under a claim that is over or another's.

use serde_json::json;

use crate::common::eventually;
use crate::common::ledgers::Book;

/// Alice's claim on node 1 with a lease of one second that is over. Its token is 1.
fn expired() -> Book {
    let book = Book::new();
    book.run("alice", "claim take 1 --ttl 1s").exits(0, "it is free");
    eventually("the lease is over", || book.run("a", "claim list 1 --json").json()["status"] == "expired");
    book
}

#[test]
fn release_gives_it_back() {
    let book = Book::new();
    book.run("alice", "claim take 1").exits(0, "it is free");
    assert_eq!(book.run("alice", "claim release 1").exits(0, "it is hers").stdout, "released node \"1\"\n");
    assert_eq!(book.event(2)["type"], "lock_released", "the documented event");
    book.run("bob", "claim take 1").exits(0, "it is free");
    let json = book.run("bob", "claim release 1 --token 3 --json").exits(0, "it is his").json();
    assert_eq!(
        json,
        json!({
            "status": "released", "node": "1", "owner": "bob", "seq": 4, "token": 3, "expires_at": null, "dry_run": false,
        })
    );
    book.run("bob", "claim take 1").exits(0, "it is free");
    book.run("nobody", "claim release 1 --owner bob").exits(0, "as bob");
}

#[test]
fn extend_gives_it_a_new_end_under_the_same_token() {
    let book = Book::new();
    book.run("alice", "claim take 1 --ttl 60").exits(0, "it is free");
    let said = book.run("alice", "claim extend 1 --ttl 120").exits(0, "it is hers");
    assert!(said.stdout.starts_with("extended the claim on node \"1\" with token 1 until 20"), "{said}");
    let json = book.run("alice", "claim extend 1 --ttl 180 --token 1 --json").exits(0, "it is hers").json();
    assert_eq!((&json["status"], &json["token"], &json["seq"]), (&json!("extended"), &json!(1), &json!(3)), "{json}");
    assert_eq!(json["ttl_sec"], 180, "{json}");
    book.run("nobody", "claim extend 1 --owner alice").exits(0, "as alice");
    assert_eq!(book.event(3)["refresh_of"], 1, "the event says whose end it moves");
    for words in ["claim extend", "claim extend 1 2", "claim extend 1 --token 0", "claim extend 1 --ttl=-5s"] {
        book.run("alice", words).exits(64, words);
    }
}

#[test]
fn what_is_not_yours_is_left_alone() {
    let book = Book::new();
    book.run("alice", "claim take 1").exits(0, "it is free");
    let before = book.events();
    for command in ["release", "extend"] {
        let said = book.run("bob", &format!("claim {command} 1")).exits(4, "it is alice's");
        said.notes("node \"1\" is claimed by alice@", "whose it is").notes("not by bob", "and whose it isn't");
        let json = book.run("bob", &format!("claim {command} 1 --json")).exits(4, "it is alice's").json();
        assert_eq!((&json["code"], &json["holder_owner"]), (&json!("E_LOCK_NOT_HELD"), &json!("alice")), "{json}");
        book.run("alice", &format!("claim {command} 2"))
            .exits(3, "nobody has it")
            .notes("nobody has claimed node \"2\"", "so it is");
        let json = book.run("alice", &format!("claim {command} 2 --json")).exits(3, "nobody has it").json();
        assert_eq!(json["code"], "E_NOT_FOUND", "{json}");
        let json = book.run("alice", &format!("claim {command} 1 --token 7 --json")).exits(6, "not that one").json();
        assert_eq!(json["code"], "E_FENCING_MISMATCH", "{json}");
    }
    assert_eq!(book.events(), before, "nothing was written");
}

#[test]
fn an_expired_claim_is_neither_extended_nor_released() {
    let book = expired();
    let before = book.events();
    for command in ["release", "extend", "release --token 1", "extend --token 1"] {
        let said = book.run("alice", &format!("claim {command} 1")).exits(5, "it has expired");
        said.notes("your claim on node \"1\" expired", "it says so").notes("`lokt claim take 1`", "and what to do");
        let json = book.run("alice", &format!("claim {command} 1 --json")).exits(5, "it has expired").json();
        assert_eq!((&json["status"], &json["code"]), (&json!("error"), &json!("E_LOCK_EXPIRED")), "{json}");
    }
    assert_eq!(book.events(), before, "nothing was written");
}

#[test]
fn whoever_was_overtaken_frees_nothing() {
    let book = expired();
    book.run("bob", "claim take 1").exits(0, "it has expired");
    let before = book.events();
    for command in ["release", "extend"] {
        book.run("alice", &format!("claim {command} 1"))
            .exits(4, "it is bob's")
            .notes("is claimed by bob@", "it says so");
        let said = book.run("alice", &format!("claim {command} 1 --token 1")).exits(6, "that token is over");
        said.notes("token 1", "it is named");
    }
    assert_eq!(book.events(), before, "nothing was written");
    book.run("carol", "claim take 1").exits(2, "it is still bob's");
}

#[test]
fn an_append_under_a_token_is_refused_when_the_claim_is_over() {
    let book = Book::new();
    book.run("alice", "claim take 1").exits(0, "it is free");
    let call = |book: &Book, words: &[&str]| {
        book.lokt("alice").args(["ledger", "append", r#"{"type":"x"}"#]).args(words).run()
    };
    call(&book, &["--token", "1"]).exits(0, "it is current").says("appended event 2\n", "its number");
    assert_eq!(book.event(2)["claim_token"], 1, "the token is in the event");
    book.run("alice", "claim release 1").exits(0, "it is hers");
    let said = call(&book, &["--token", "1"]).exits(6, "it was given back");
    said.notes("error: token 1 is not good: ", "it says so").notes("nothing was appended", "and what follows");
    assert_eq!(call(&book, &["--token", "1", "--json"]).exits(6, "it was given back").failure(), "E_FENCING_MISMATCH");
    call(&book, &["--token", "2"]).exits(6, "that is no claim");
    call(&book, &["--token", "77"]).exits(6, "there is no such event");
    book.run("bob", "claim take 1").exits(0, "it is free");
    call(&book, &["--token", "1"]).exits(6, "it is bob's");
    assert_eq!(book.numbers().len(), 4, "nothing was appended");
    for bad in ["0", "x", "-1"] {
        call(&book, &[&format!("--token={bad}")]).exits(64, "no token");
    }
    let book = expired();
    let said = call(&book, &["--token", "1"]).exits(5, "it has expired");
    said.notes("its claim expired", "it says so");
    assert_eq!(call(&book, &["--token", "1", "--json"]).exits(5, "it has expired").failure(), "E_LOCK_EXPIRED");
    assert_eq!(book.numbers(), [1], "nothing was appended");
}
