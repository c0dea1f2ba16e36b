//! Clients that keep copies of values.

use crate::Served;
use crate::client::{Client, Value, bulk, int};

fn invalidate<const N: usize>(keys: [&str; N]) -> Value {
    Value::Array(vec![bulk("invalidate"), Value::bulks(keys)])
}

/// A client of version 3 that tracks.
fn tracker(served: &Served, options: &str) -> Client {
    let mut client = served.client();
    client.waits_at_most(60);
    client.call("HELLO 3");
    let reply = client.call(format!("CLIENT TRACKING ON {options}").trim_end());
    assert_eq!(reply, Value::status("OK"));
    client
}

#[test]
fn readers_are_told_of_changes_by_anybody() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut writer = served.client();
    let mut reader = tracker(&served, "");
    writer.call("MSET a 1 b 2 c 3");
    writer.call("HSET h f 1");
    assert_eq!(reader.call("MGET a b"), Value::bulks(["1", "2"]));
    writer.call("SET c 4");
    writer.call("SET b 5");
    assert_eq!(reader.receive(), invalidate(["b"]));
    // Once only, until it is read again.
    writer.call("SET b 6");
    writer.call("DEL a");
    assert_eq!(reader.receive(), invalidate(["a"]));
    for (read, change, key) in [
        ("HGETALL h", "HSET h f 2", "h"),
        ("EXISTS none", "LPUSH none x", "none"),
        ("LRANGE none 0 -1", "RENAME none other", "none"),
        ("GET c", "PEXPIRE c 1", "c"),
        ("STRLEN c", "EVAL return{redis.call('set','c',1)} 1 c", "c"),
    ] {
        reader.call(read);
        writer.call(change);
        assert_eq!(reader.receive(), invalidate([key]), "{change}");
    }
    // Its own changes, behind the reply.
    reader.call("GET c");
    assert_eq!(reader.call("INCR c"), int(2));
    assert_eq!(reader.receive(), invalidate(["c"]));
    // Expiry that nobody asks for.
    writer.call("SET brief 1 PX 1000");
    reader.call("GET brief");
    assert_eq!(reader.receive(), invalidate(["brief"]));
    reader.call("GET c");
    writer.call("FLUSHALL");
    let all = Value::Array(vec![bulk("invalidate"), Value::Null]);
    assert_eq!(reader.receive(), all);
    let info = writer.call("INFO").to_string();
    assert!(info.contains("tracking_clients:1\r"), "{info}");
    assert!(info.contains("tracking_total_keys:0\r"), "{info}");
    reader.call("CLIENT TRACKING OFF");
    writer.call("SET c 1");
    assert_eq!(reader.call("GET c"), bulk("1"));
    served.end();
}

#[test]
fn options_choose_the_keys() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut writer = served.client();
    let mut by_prefix = tracker(&served, "BCAST PREFIX a: PREFIX b: NOLOOP");
    by_prefix.call("SET a:own 1");
    writer.call("MSET a:2 1 c:1 1 a:1 1");
    assert_eq!(by_prefix.receive(), invalidate(["a:1", "a:2"]));
    writer.call("DEL b:1 c:1");
    writer.call("SET b:1 1");
    assert_eq!(by_prefix.receive(), invalidate(["b:1"]));
    let overlaps = by_prefix
        .call("CLIENT TRACKING ON BCAST PREFIX a:x")
        .to_string();
    assert!(overlaps.contains("overlaps with an existing prefix 'a:'"));
    let mut opts_in = tracker(&served, "OPTIN");
    opts_in.call("GET a:1");
    opts_in.call("CLIENT CACHING YES");
    // The next command only, also in a pipeline.
    opts_in.pipeline(&["GET a:2", "GET b:1"]);
    opts_in.pipeline(&[
        "CLIENT CACHING YES",
        "MULTI",
        "GET c:1",
        "GET c:2",
        "EXEC",
        "GET c:3",
    ]);
    writer.call("MSET a:1 2 b:1 2 c:3 2 c:2 2 c:1 2 a:2 2");
    for key in ["c:2", "c:1", "a:2"] {
        assert_eq!(opts_in.receive(), invalidate([key]));
    }
    let mut opts_out = tracker(&served, "OPTOUT");
    opts_out.pipeline(&["GET a:1", "CLIENT CACHING NO", "GET a:2", "GET b:1"]);
    writer.call("MSET a:2 3 b:1 3 a:1 3");
    assert_eq!(opts_out.receive(), invalidate(["b:1"]));
    assert_eq!(opts_out.receive(), invalidate(["a:1"]));
    served.end();
}

/// A pop that another client's push completes is a change by the client that waited.
#[test]
fn who_waited_is_not_told_of_its_own_pop() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut writer = served.client();
    let mut own = tracker(&served, "BCAST PREFIX q NOLOOP");
    let mut other = tracker(&served, "BCAST PREFIX q");
    own.send("BLPOP q 0");
    while !writer
        .call("INFO clients")
        .to_string()
        .contains("blocked_clients:1\r")
    {}
    assert_eq!(writer.call("RPUSH q x y"), int(2));
    writer.call("SET q2 1");
    // The push, the reply and the last change; the first two in any order.
    let first = [own.receive(), own.receive()];
    assert!(first.contains(&invalidate(["q"])), "{first:?}");
    assert!(first.contains(&Value::bulks(["q", "x"])), "{first:?}");
    assert_eq!(own.receive(), invalidate(["q2"]));
    for key in ["q", "q", "q2"] {
        assert_eq!(other.receive(), invalidate([key]));
    }
    served.end();
}

#[test]
fn messages_go_to_another_connection() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut writer, mut listener) = (served.client(), served.client());
    let Value::Integer(id) = listener.call("CLIENT ID") else {
        panic!("expected a number");
    };
    listener.call("SUBSCRIBE __redis__:invalidate");
    let mut reader = tracker(&served, &format!("REDIRECT {id}"));
    assert_eq!(reader.call("CLIENT GETREDIR"), int(id));
    reader.call("GET k");
    writer.call("SET k 1");
    let words = ["message", "__redis__:invalidate"].map(bulk);
    let expected = [&words[..], &[Value::bulks(["k"])]].concat();
    assert_eq!(listener.receive(), Value::Array(expected));
    // The table has room for one key: the reader of the other is told.
    reader.call("MGET x y");
    writer.call("CONFIG SET tracking-table-max-keys 1");
    let expected = [&words[..], &[Value::bulks(["x"])]].concat();
    assert_eq!(listener.receive(), Value::Array(expected));
    assert_eq!(listener.call("QUIT"), Value::status("OK"));
    writer.call("SET y 1");
    let expected = vec![bulk("tracking-redir-broken"), int(id)];
    assert_eq!(reader.receive(), Value::Array(expected));
    served.end();
}

/// Whatever happens at the same time, a copy is never older than the last message allows.
#[test]
fn no_change_is_missed() {
    const CHANGES: i64 = 3_000;
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut reader = tracker(&served, "");
            scope.spawn(move || {
                loop {
                    // Messages about earlier copies may come before the reply.
                    reader.send("GET n");
                    let copy = loop {
                        match reader.receive() {
                            Value::Array(_) => {}
                            copy => break copy,
                        }
                    };
                    if copy == bulk(&CHANGES.to_string()) {
                        break;
                    }
                    assert_eq!(reader.receive(), invalidate(["n"]));
                }
            });
        }
        let mut writer = served.client();
        scope.spawn(move || (0..CHANGES).for_each(|_| drop(writer.call("INCR n"))));
    });
    served.end();
}
