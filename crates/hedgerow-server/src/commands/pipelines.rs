//! Pipelines: commands that are run together answer as if each was run alone.

use super::world::World;

/// `K` and `J` stand for keys, `F` for a field, `#` for a digit.
const CALLS: &[&str] = &[
    "HSET K F #",
    "HSET K F #",
    "HDEL K F",
    "HGET K F",
    "HINCRBY K F 1",
    "HLEN K",
    "SADD K F",
    "SADD K F",
    "SREM K F",
    "SMOVE K J F",
    "SCARD K",
    "ZADD K # F",
    "ZADD K # F",
    "ZREM K F",
    "ZRANGE K 0 -1 WITHSCORES",
    "LPUSH K #",
    "LPUSH K #",
    "RPOP K",
    "LMOVE K J LEFT RIGHT",
    "LRANGE K 0 -1",
    "SET K #",
    "GET K",
    "DEL K",
    "RENAME K J",
    "COPY K J REPLACE",
    "TYPE K",
    "PEXPIREAT K 200000#",
    "PEXPIRETIME K",
    "PERSIST K",
    "KEYS *",
    "DBSIZE",
];

fn call(random: &mut fastrand::Rng) -> String {
    let words = CALLS[random.usize(..CALLS.len())].split(' ').map(|word| {
        let mut one_of = |words: &[&str]| words[random.usize(..words.len())].to_owned();
        match word {
            "K" | "J" => one_of(&["k1", "k2", "k3"]),
            "F" => one_of(&["f1", "f2", "f3", "7"]),
            word => word.replace('#', &one_of(&["1", "2", "3"])),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The reply to KEYS is in the order of hashes, which differ between databases.
fn sorted(call: &str, reply: String) -> String {
    if !call.starts_with("KEYS") {
        return reply;
    }
    let mut keys: Vec<&str> = reply.split(' ').collect();
    keys.sort_unstable();
    keys.join(" ")
}

#[test]
fn commands_together_answer_as_each_alone() {
    let mut random = fastrand::Rng::with_seed(32);
    let (alone, together) = (World::new(), World::new());
    for round in 0..400 {
        let calls: Vec<String> = (0..random.usize(1..24))
            .map(|_| call(&mut random))
            .collect();
        let replies = together.run_together(&calls);
        for (at, (call, reply)) in calls.iter().zip(replies).enumerate() {
            let expected = sorted(call, alone.run(call));
            assert_eq!(
                sorted(call, reply),
                expected,
                "round {round}, {at} of {calls:?}"
            );
        }
    }
}
