//! A limit on processes doesn't make a command fail that only has to wait for the mutex. Needs the superuser, who can be somebody
//! with a limit; it fails without.

use lokt_testkit::cmd::Place;

#[test]
fn the_mutex_is_waited_for_where_no_thread_can_be_had() {
    lokt_testkit::need!(root);
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    let text =
        "mkdir -m 777 \"$LOKT_ROOT\" && chmod 777 \"$LOKT_ROOT\" && chmod 755 . && cp \"$0\" lokt && chmod 755 lokt \
        && setpriv --reuid 54321 --regid 54321 --clear-groups true || exit 99
        flock \"$LOKT_ROOT\" sleep 0.5 & sleep 0.2
        setpriv --reuid 54321 --regid 54321 --clear-groups prlimit --nproc=1 ./lokt lock x; R=$?; wait; exit $R";
    let ended = place.run_words("a", &["sh", "-c", text, env!("CARGO_BIN_EXE_lokt")]);
    assert_ne!(ended.code, Some(99), "this test needs root, for setpriv: {}", ended.stderr);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}
