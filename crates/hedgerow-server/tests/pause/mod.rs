//! CLIENT PAUSE, and clients that are ended.

use crate::Served;
use crate::client::{Value, bulk, int};

#[test]
fn writes_wait_for_the_end_of_a_pause() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut admin, mut writer) = (served.client(), served.client());
    for (wrong, expected) in [
        ("CLIENT PAUSE x", "-ERR timeout is not an integer"),
        ("CLIENT PAUSE -1", "-ERR timeout is negative"),
        ("CLIENT PAUSE 1 READ", "-ERR CLIENT PAUSE mode must be"),
    ] {
        let found = admin.call(wrong).to_string();
        assert!(found.starts_with(expected), "{found}");
    }
    admin.call("SET k 1");
    let blocked = |count: usize| format!("blocked_clients:{count}\r");
    for writes in [
        &["SET k 2"][..],
        &["GET k", "INCR k"],
        &["MULTI", "SET k 4", "EXEC"],
        &["PUBLISH c x"],
        #[cfg(feature = "lua")]
        &["EVAL return{redis.call('set','k','5')} 0"],
    ] {
        let before = admin.call("GET k");
        assert_eq!(admin.call("CLIENT PAUSE 100000 WRITE"), Value::status("OK"));
        writes.iter().for_each(|it| writer.send(it));
        while !admin.call("INFO clients").to_string().contains(&blocked(1)) {}
        assert_eq!(admin.call("GET k"), before, "{writes:?}");
        assert_eq!(admin.call("CLIENT UNPAUSE"), Value::status("OK"));
        writes.iter().for_each(|_| drop(writer.receive()));
    }
    let last = if cfg!(feature = "lua") { "5" } else { "4" };
    assert_eq!(admin.call("GET k"), bulk(last));
    // All commands, those of the client itself, too: until the time is over.
    assert_eq!(admin.call("CLIENT PAUSE 100 ALL"), Value::status("OK"));
    assert_eq!(writer.call("GET k"), bulk(last));
    served.end();
}

#[test]
fn a_client_is_gone_when_it_was_ended() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut admin = served.client();
    for _ in 0..50 {
        let mut other = served.client();
        let Value::Integer(id) = other.call("CLIENT ID") else {
            panic!("expected a number");
        };
        assert_eq!(admin.call(&format!("CLIENT KILL ID {id}")), int(1));
        let list = admin.call("CLIENT LIST").to_string();
        assert_eq!(list.lines().count(), 1, "{list}");
        assert_eq!(other.try_receive(), None);
    }
    served.end();
}
