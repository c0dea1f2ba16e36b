//! Users and what they may do, over a socket.

use crate::Served;
use crate::client::{Value, bulk, int};

fn is_refused(value: &Value) -> bool {
    matches!(value, Value::Error(text) if text.starts_with("NOPERM"))
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a file of users")]
fn users_of_a_file_are_saved_and_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users");
    std::fs::write(
        &file,
        "# the users\nuser default off\nuser bob on >bob ~set* -@all +@set +acl\n",
    )
    .unwrap();
    let served = Served::with(&dir.path().join("db"), |options| {
        options.acl_file = Some(file.clone());
    });
    let mut client = served.client();
    let found = client.call("GET a");
    assert!(matches!(found, Value::Error(text) if text.starts_with("NOAUTH")));
    assert_eq!(client.call("AUTH bob bob"), Value::status("OK"));
    assert_eq!(client.call("SADD set1 a"), int(1));
    assert!(is_refused(&client.call("SADD other a")));
    assert!(is_refused(&client.call("GET set1")));
    client.call("ACL SETUSER eve on nopass allkeys allcommands");
    assert_eq!(client.call("ACL SAVE"), Value::status("OK"));
    client.call("ACL DELUSER eve");
    assert_eq!(client.call("ACL LOAD"), Value::status("OK"));
    let mut eve = served.client();
    assert_eq!(eve.call("AUTH eve any"), Value::status("OK"));
    assert_eq!(eve.call("ACL WHOAMI"), bulk("eve"));
    // A wrong line changes nothing.
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}user eve on\n")).unwrap();
    let found = eve.call("ACL LOAD");
    assert!(matches!(found, Value::Error(text) if text.contains("Duplicate user 'eve' found")));
    assert_eq!(eve.call("SMEMBERS set1"), Value::bulks(["a"]));
    // A user who is no more in the file is cut off.
    std::fs::write(&file, "user eve on nopass +@all\n").unwrap();
    assert_eq!(eve.call("ACL LOAD"), Value::status("OK"));
    assert_eq!(client.try_call_words(&["SMEMBERS", "set1"]), None);
    eve.shut_down();
    served.join();
}

#[test]
fn a_refused_change_of_the_configuration_leaves_the_password() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::with(dir.path(), |options| options.password = "old".to_owned());
    let mut client = served.client();
    client.call("AUTH old");
    for refused in [
        "CONFIG SET requirepass new timeout none",
        "CONFIG SET requirepass new requirepass newer",
    ] {
        assert!(matches!(client.call(refused), Value::Error(_)));
        assert_eq!(served.client().call("AUTH old"), Value::status("OK"));
    }
    client.call("CONFIG SET requirepass new");
    assert_eq!(served.client().call("AUTH new"), Value::status("OK"));
    client.shut_down();
    served.join();
}

/// A client may send commands behind its login without waiting for the reply to that.
#[test]
fn the_bounds_of_strangers_end_with_the_login() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::with(dir.path(), |options| options.password = "pw".to_owned());
    let set = format!("SET key {}", "v".repeat(100_000));
    let mut client = served.client();
    client.send_together(&["AUTH pw", &set, "STRLEN key"]);
    assert_eq!(client.receive(), Value::status("OK"));
    assert_eq!(client.receive(), Value::status("OK"));
    assert_eq!(client.receive(), int(100_000));
    let mut stranger = served.client();
    stranger.send_together(&["AUTH no", &set]);
    assert!(matches!(stranger.receive(), Value::Error(text) if text.starts_with("WRONGPASS")));
    let refused = "ERR Protocol error: unauthenticated bulk length";
    assert_eq!(stranger.receive(), Value::Error(refused.to_owned()));
    client.shut_down();
    served.join();
}

#[test]
fn listeners_are_cut_off_when_their_channel_is_taken_away() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    client.call("ACL SETUSER one on nopass +@all &a &b*");
    let mut listeners = [served.client(), served.client()];
    for (listener, call) in listeners.iter_mut().zip(["SUBSCRIBE a", "PSUBSCRIBE b*"]) {
        listener.call("AUTH one x");
        listener.call(call);
    }
    client.call("ACL SETUSER one resetchannels &a &c");
    client.call("PUBLISH a hello");
    let [kept, ended] = &mut listeners;
    assert_eq!(kept.receive(), Value::bulks(["message", "a", "hello"]));
    assert_eq!(ended.try_receive(), None);
    served.end();
}

/// A change of rules counts between MULTI and EXEC, and in scripts.
#[test]
fn rules_count_when_a_command_runs() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut admin, mut one) = (served.client(), served.client());
    admin.call("ACL SETUSER one on nopass ~k +@all");
    one.call("AUTH one x");
    // A subcommand that is not there is no refusal.
    admin.call("ACL SETUSER one -client");
    let unknown = one.call("CLIENT NOTHING").to_string();
    assert!(unknown.contains("unknown subcommand"), "{unknown}");
    assert!(is_refused(&one.call("CLIENT ID")));
    admin.call("ACL LOG RESET");
    one.call("MULTI");
    one.call("INCR k");
    one.call("GET k");
    admin.call("ACL SETUSER one -incr");
    let Value::Array(replies) = one.call("EXEC") else {
        panic!("expected replies")
    };
    assert!(is_refused(&replies[0]), "{}", replies[0]);
    assert_eq!(replies[1], Value::Null);
    if cfg!(feature = "lua") {
        let script = "return redis.call('get', 'other')";
        assert!(is_refused(&one.call_words(&["EVAL", script, "0"])));
        let Value::Array(log) = admin.call("ACL LOG 1") else {
            panic!("expected entries")
        };
        let text = log[0].to_string();
        assert!(text.contains("lua") && text.contains("other"), "{text}");
    }
    served.end();
}

/// PFCOUNT writes what it has counted, which nobody sees: it is a command that reads.
#[test]
fn who_may_read_may_count() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    client.call("PFADD p a b");
    client.call("ACL SETUSER reader on nopass ~* +@read +auth");
    client.call("ACL SETUSER writer on nopass ~* +@all -@read");
    let mut reader = served.client();
    reader.call("AUTH reader any");
    assert_eq!(reader.call("PFCOUNT p"), int(2));
    assert!(is_refused(&reader.call("PFADD p c")));
    reader.call("AUTH writer any");
    assert!(is_refused(&reader.call("PFCOUNT p")));
    served.end();
}
