//! Replies that are too large are refused, and the connection goes on.

use crate::Served;
use crate::client::Value;

fn is_refused(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.contains("67108864 bytes") && text.contains("HSCAN"))
}

/// A draw of a million million elements asked for memory, and the process ended.
#[test]
fn a_draw_of_too_many_elements_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    for call in ["HSET h f v", "HSET brief f v", "SADD s f", "ZADD z 1 f"] {
        client.call(call);
    }
    client.call("HPEXPIRE brief 10000000 FIELDS 1 f");
    for draw in [
        "HRANDFIELD h",
        "HRANDFIELD brief",
        "SRANDMEMBER s",
        "ZRANDMEMBER z",
    ] {
        for count in ["-4611686018427387903", "-1000000000000", "-2000000"] {
            let reply = client.call(&format!("{draw} {count}"));
            assert!(is_refused(&reply), "{draw} {count}: {reply}");
        }
        let drawn = client.call(&format!("{draw} -3"));
        assert_eq!(drawn, Value::bulks(["f"; 3]), "{draw}");
    }
    let script = "return redis.call('srandmember', 's', '-1000000000000')";
    let reply = client.call_words(&["EVAL", script, "1", "s"]);
    assert!(reply.to_string().contains("67108864 bytes"), "{reply}");
    served.end();
}
