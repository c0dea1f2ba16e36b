//! Channels of shards, beside those that everybody has.

use crate::Served;
use crate::client::{Value, bulk, int};

fn told<const N: usize>(words: [&str; N], count: i64) -> Value {
    let words = words.into_iter().map(bulk);
    Value::Array(words.chain([int(count)]).collect())
}

#[test]
fn a_channel_of_a_shard_is_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut listener, mut client) = (served.client(), served.client());
    listener.call("HELLO 3");
    assert_eq!(listener.call("SUBSCRIBE c"), told(["subscribe", "c"], 1));
    listener.call("PSUBSCRIBE *");
    // The count is that of channels of shards alone.
    listener.send("SSUBSCRIBE c d");
    assert_eq!(listener.receive(), told(["ssubscribe", "c"], 1));
    assert_eq!(listener.receive(), told(["ssubscribe", "d"], 2));
    assert_eq!(client.call("PUBLISH c one"), int(2));
    assert_eq!(client.call("SPUBLISH c two"), int(1));
    assert_eq!(client.call("SPUBLISH none two"), int(0));
    for message in [
        &["message", "c", "one"][..],
        &["pmessage", "*", "c", "one"],
        &["smessage", "c", "two"],
    ] {
        assert_eq!(listener.receive(), Value::bulks(message.to_vec()));
    }
    assert_eq!(client.call("PUBSUB SHARDCHANNELS d*"), Value::bulks(["d"]));
    assert_eq!(client.call("PUBSUB CHANNELS"), Value::bulks(["c"]));
    let counts = Value::Array(vec![bulk("c"), int(1), bulk("x"), int(0)]);
    assert_eq!(client.call("PUBSUB SHARDNUMSUB c x"), counts);
    let list = client.call("CLIENT LIST TYPE pubsub").to_string();
    assert!(list.contains(" sub=1 psub=1 ssub=2 "), "{list}");
    // In a transaction, and by a script.
    client.call("MULTI");
    client.call("SPUBLISH d three");
    assert_eq!(client.call("EXEC"), Value::Array(vec![int(1)]));
    let d_three = Value::bulks(["smessage", "d", "three"]);
    assert_eq!(listener.receive(), d_three);
    if cfg!(feature = "lua") {
        client.call("EVAL return{redis.call('spublish','d','three')} 0");
        assert_eq!(listener.receive(), d_three);
    }
    listener.send("SUNSUBSCRIBE");
    assert_eq!(listener.receive(), told(["sunsubscribe", "c"], 1));
    assert_eq!(listener.receive(), told(["sunsubscribe", "d"], 0));
    let none = Value::Array(vec![bulk("sunsubscribe"), Value::Null, int(0)]);
    assert_eq!(listener.call("SUNSUBSCRIBE"), none);
    assert_eq!(client.call("SPUBLISH c two"), int(0));
    served.end();
}
