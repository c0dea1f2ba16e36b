//! Fields that expire, over a socket.

use crate::Served;
use crate::client::{Value, bulk, int};

#[test]
fn expired_fields_go_and_are_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut client, mut listener) = (served.client(), served.client());
    client.call("CONFIG SET notify-keyspace-events Kgh");
    client.call("HSET h a 1 b 2");
    listener.call("SUBSCRIBE __keyspace@0__:h");
    client.call("HPEXPIRE h 1 FIELDS 2 a b");
    // The fields are removed though nobody reads them, and the hash with them.
    for event in ["hexpire", "hexpired", "del"] {
        let told = Value::bulks(["message", "__keyspace@0__:h", event]);
        assert_eq!(listener.receive(), told);
    }
    assert_eq!(client.call("DBSIZE"), int(0));
    let info = client.call("INFO stats").to_string();
    assert!(info.contains("expired_subkeys:2\r"), "{info}");
    served.end();
}

#[test]
fn times_of_fields_are_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    client.call("HSET h a 1 b 2 c 3");
    client.call("HEXPIRE h 100000 FIELDS 1 b");
    client.call("HPEXPIRE h 50 FIELDS 1 c");
    served.end();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    assert_eq!(client.call("HMGET h a b"), Value::bulks(["1", "2"]));
    let times = client.call("HTTL h FIELDS 2 a b");
    let Value::Array(times) = times else {
        panic!("expected an array, found {times}");
    };
    assert_eq!(times[0], int(-1));
    assert!(matches!(times[1], Value::Integer(99_000..=100_000)));
    while client.call("HLEN h") != int(2) {}
    assert_eq!(client.call("HGET h c"), Value::Null);
    assert_eq!(
        client.call("EVAL return{redis.call('hpexpire','h','0','FIELDS','1','b')[1]} 0"),
        Value::Array(vec![int(2)])
    );
    assert_eq!(
        client.call("HGETALL h"),
        Value::Array(vec![bulk("a"), bulk("1")])
    );
    served.end();
}
