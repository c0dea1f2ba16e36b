//! Hashes with a clock of their own, against a model and by their costs.

use std::collections::BTreeMap;

use super::*;
use crate::commands::expire_fields_due;
use crate::commands::world::World;
use crate::store::{Due, due};

impl World {
    /// Removes what is due, as the task does.
    fn expire(&self) {
        let keys = due(&self.databases, (0, Due::Fields), (0, self.now), 64).unwrap();
        for key in keys {
            let mut txn = self.txn();
            expire_fields_due(&mut txn, &[&key[8..]]).unwrap();
            txn.commit().unwrap();
        }
    }

    /// The number of entries that say when a field expires, and of keys with such fields.
    fn times(&self, key: &str) -> (usize, usize) {
        let mut txn = self.txn();
        let entry = txn.lookup(key.as_bytes()).unwrap();
        let version = entry.meta().map_or(0, |meta| meta.version);
        let times = txn
            .scan(0, Space::Ordered, elements(version), 0)
            .unwrap()
            .count();
        let keys = due(&self.databases, (0, Due::Fields), (0, 1 << 50), 64).unwrap();
        (times, keys.len())
    }
}

#[test]
fn fields_expire_and_the_hash_with_the_last() {
    let mut world = World::new();
    assert_eq!(world.run("HSET h a 1 b 2 c 3"), "3");
    assert_eq!(world.run("HEXPIRE h 10 FIELDS 3 a none b"), "1 -2 1");
    assert_eq!(world.run("HEXPIRE h 10 NX FIELDS 2 a c"), "0 1");
    assert_eq!(world.run("HEXPIRE h 5 GT FIELDS 1 a"), "0");
    assert_eq!(world.run("HEXPIRE h 5 LT FIELDS 1 a"), "1");
    assert_eq!(world.run("HTTL h FIELDS 4 a b c d"), "5 10 10 -2");
    assert_eq!(world.run("HPERSIST h FIELDS 3 c c d"), "1 -1 -2");
    assert_eq!(world.run("HPEXPIRETIME h FIELDS 2 b c"), "1010000 -1");
    world.now += 5_000;
    assert_eq!(world.run("HMGET h a b c"), "nil 2 3");
    assert_eq!(world.run("HLEN h"), "3");
    assert_eq!(world.run("HGETALL h").len(), "b 2 c 3".len());
    assert_eq!(world.run("HSCAN h 0 NOVALUES").len(), "0 b c".len());
    world.expire();
    assert_eq!(world.run("HLEN h"), "2");
    assert_eq!(world.times("h"), (1, 1));
    // A value that is set has no time; a number keeps it.
    assert_eq!(world.run("HINCRBY h b 5"), "7");
    assert_eq!(world.run("HTTL h FIELDS 1 b"), "5");
    assert_eq!(world.run("HSET h b 8"), "0");
    assert_eq!(world.run("HTTL h FIELDS 1 b"), "-1");
    assert_eq!(world.times("h"), (0, 0));
    assert_eq!(world.run("HPEXPIRE h 1 FIELDS 2 b c"), "1 1");
    world.now += 1;
    assert_eq!(world.run("DBSIZE"), "1");
    world.expire();
    assert_eq!(world.run("DBSIZE"), "0");
    assert_eq!(world.times("h"), (0, 0));
}

/// A key whose fields have all expired is absent at once, and counts until it is removed.
#[test]
fn a_hash_without_live_fields_is_absent() {
    let mut world = World::new();
    world.run("HSET h a 1 b 2");
    world.run("HPEXPIRE h 5 FIELDS 1 a");
    world.run("HPEXPIRE h 9 FIELDS 1 b");
    world.run("HSET partly a 1 b 2");
    world.run("HPEXPIRE partly 5 FIELDS 1 a");
    world.now += 5;
    assert_eq!(world.run("EXISTS h partly"), "2");
    world.now += 4;
    for (words, expected) in [
        ("EXISTS h partly", "1"),
        ("TYPE h", "+none"),
        ("TYPE partly", "+hash"),
        ("KEYS *", "partly"),
        ("SCAN 0", "0 partly"),
        ("SCAN 0 TYPE hash", "0 partly"),
        ("RANDOMKEY", "partly"),
        ("HLEN h", "0"),
        ("HGETALL h", ""),
        ("HTTL h FIELDS 1 a", "-2"),
        ("TTL h", "-2"),
        ("EXPIRE h 100", "0"),
        ("RENAME h other", "ERR no such key"),
        ("COPY h other", "0"),
        ("DUMP h", "nil"),
        ("OBJECT ENCODING h", "nil"),
        ("DBSIZE", "2"),
    ] {
        assert_eq!(world.run(words), expected, "{words}");
    }
    // Another value takes its place, and nothing of the old one is left.
    let (added, effects) = world.run_with_effects("HSET h c 3");
    assert_eq!(added, "1");
    let names: Vec<_> = effects.events.iter().map(|it| it.name).collect();
    assert_eq!(names, ["hexpired", "del", "new", "hset"]);
    assert_eq!(effects.expired_fields, 2);
    assert_eq!(world.run("HGETALL h"), "c 3");
    assert_eq!(world.run("DBSIZE"), "2");
    assert_eq!(world.times("h"), (0, 1));
    world.run("HPEXPIRE h 1 FIELDS 1 c");
    world.now += 1;
    assert_eq!(world.run("DEL h"), "0");
    assert_eq!(world.run("DBSIZE"), "1");
}

#[test]
fn values_and_times_change_together() {
    let mut world = World::new();
    assert_eq!(world.run("HSETEX h FXX FIELDS 1 a 1"), "0");
    assert_eq!(world.run("HSETEX h FNX EX 10 FIELDS 2 a 1 b 2"), "1");
    assert_eq!(world.run("HSETEX h FNX FIELDS 2 b 3 c 3"), "0");
    assert_eq!(world.run("HSETEX h KEEPTTL FIELDS 2 a 4 c 5"), "1");
    assert_eq!(world.run("HTTL h FIELDS 3 a b c"), "10 10 -1");
    assert_eq!(world.run("HGETEX h PX 3 FIELDS 2 c d"), "5 nil");
    assert_eq!(world.run("HGETEX h PERSIST FIELDS 1 a"), "4");
    assert_eq!(world.run("HPTTL h FIELDS 3 a b c"), "-1 10000 3");
    world.now += 3;
    assert_eq!(world.run("HGETDEL h FIELDS 3 b c a"), "2 nil 4");
    assert_eq!(world.run("EXISTS h"), "0");
    assert_eq!(world.run("HSETEX h PXAT 1 FIELDS 1 a 1"), "1");
    assert_eq!(world.run("EXISTS h"), "0");
    for (words, expected) in [
        ("HEXPIRE h -1 FIELDS 1 a", "must be >= 0"),
        (
            "HPEXPIRE h 99999999999999 FIELDS 1 a",
            "invalid expire time in 'hpexpire'",
        ),
        ("HEXPIRE h 1 FIELDS 2 a", "must match"),
        ("HEXPIRE h 1 FIELDS 0 a", "greater than 0"),
        ("HTTL h FELD 1 a", "FIELDS is missing"),
        ("HSETEX h FXX FNX FIELDS 1 a 1", "Only one of FXX"),
        ("HSETEX h EX 1 PX 1 FIELDS 1 a 1", "Only one of EX"),
        ("HSETEX h NX FIELDS 1 a 1", "unknown argument"),
        ("HGETEX h PERSIST 1 FIELDS 1 a", "FIELDS is missing"),
    ] {
        let found = world.run(words);
        assert!(found.contains(expected), "{words}: {found}");
    }
    world.run("SET s 1");
    assert!(world.run("HEXPIRE s 1 FIELDS 1 a").starts_with("WRONGTYPE"));
}

#[test]
fn listeners_are_told() {
    let mut world = World::new();
    let events = |world: &World, words: &str| {
        let (_, effects) = world.run_with_effects(words);
        let names = effects
            .events
            .iter()
            .filter(|it| it.class != b'n')
            .map(|it| it.name);
        names.collect::<Vec<_>>().join(" ")
    };
    world.run("HSET h a 1 b 2 c 3 d 4");
    assert_eq!(events(&world, "HEXPIRE h 10 FIELDS 1 a"), "hexpire");
    assert_eq!(events(&world, "HEXPIRE h 10 NX FIELDS 1 a"), "");
    assert_eq!(events(&world, "HPERSIST h FIELDS 1 a"), "hpersist");
    assert_eq!(events(&world, "HPEXPIRE h 0 FIELDS 1 a"), "hdel");
    assert_eq!(events(&world, "HSETEX h PX 1 FIELDS 1 b 2"), "hset hexpire");
    world.now += 1;
    assert_eq!(events(&world, "HGETDEL h FIELDS 2 b c"), "hexpired hdel");
    assert_eq!(events(&world, "HGETEX h PX 0 FIELDS 1 d"), "hdel del");
}

#[test]
fn other_commands_take_the_times_along() {
    let mut world = World::new();
    world.run("HSET h a 1 b 2");
    world.run("HEXPIRE h 10 FIELDS 1 a");
    world.run("HSET to x 1");
    world.run("HEXPIRE to 20 FIELDS 1 x");
    world.run("RENAME h to");
    assert_eq!(world.times("to"), (1, 1));
    world.run("COPY to copy");
    assert_eq!(world.times("copy"), (1, 2));
    assert_eq!(world.run("HTTL copy FIELDS 2 a b"), "10 -1");
    world.run("EXPIRE copy 3");
    assert_eq!(world.times("copy"), (1, 2));
    world.run("DEL copy");
    assert_eq!(world.times("to"), (1, 1));
    world.run("SET to string");
    assert_eq!(world.times("to"), (0, 0));
    world.run("HSET h a 1 b 2");
    world.run("HEXPIRE h 10 FIELDS 1 a");
    world.run("HPEXPIRE h 1 FIELDS 1 b");
    let mut txn = world.txn();
    let dump = |txn: &mut Txn<'_>| crate::commands::dump::dump(txn, &[b"dump", b"h"]).unwrap();
    let Reply::Bulk(payload) = dump(&mut txn) else {
        panic!("expected a payload");
    };
    world.now += 1;
    let mut txn = world.txn();
    let args: &[&[u8]] = &[b"restore", b"restored", b"0", &payload];
    crate::commands::dump::restore(&mut txn, args).unwrap();
    txn.commit().unwrap();
    assert_eq!(
        world.run("HPEXPIRETIME restored FIELDS 2 a b"),
        "1010000 -2"
    );
    assert_eq!(world.run("HLEN restored"), "1");
    world.now += 10_000;
    let mut txn = world.txn();
    assert!(matches!(dump(&mut txn), Reply::Null));
}

/// Random commands and moments, against a map; and each field with a time has one entry for it.
#[test]
fn hashes_are_those_of_a_model() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut world = World::new();
    let mut model: BTreeMap<String, (u32, u64)> = BTreeMap::new();
    for step in 0..4_000u32 {
        let field = format!("f{}", random.u32(..12));
        let (now, more) = (world.now, random.u64(1..40));
        let live = model
            .get(&field)
            .copied()
            .filter(|it| it.1 == 0 || it.1 > now);
        let code = i32::from(live.is_some());
        let text = live.map_or("nil".to_owned(), |it| it.0.to_string());
        let (words, expected) = match random.u32(..9) {
            0 | 1 => {
                model.insert(field.clone(), (step, 0));
                (format!("HSET h {field} {step}"), (1 - code).to_string())
            }
            2 => {
                model.remove(&field);
                (format!("HDEL h {field}"), code.to_string())
            }
            3 | 4 => {
                if let Some((value, _)) = live {
                    model.insert(field.clone(), (value, now + more));
                }
                let expected = if live.is_some() { "1" } else { "-2" };
                (
                    format!("HPEXPIRE h {more} FIELDS 1 {field}"),
                    expected.to_owned(),
                )
            }
            5 => {
                model.insert(field.clone(), (step, now + more));
                (
                    format!("HSETEX h PX {more} FIELDS 1 {field} {step}"),
                    "1".to_owned(),
                )
            }
            6 => {
                model.remove(&field);
                (format!("HGETDEL h FIELDS 1 {field}"), text)
            }
            7 => {
                if let Some((value, _)) = live {
                    model.insert(field.clone(), (value, 0));
                }
                (format!("HGETEX h PERSIST FIELDS 1 {field}"), text)
            }
            _ => (format!("HGET h {field}"), text),
        };
        assert_eq!(world.run(&words), expected, "step {step}: {words} at {now}");
        world.now += random.u64(..10);
        if random.u32(..4) == 0 {
            world.expire();
            model.retain(|_, it| it.1 == 0 || it.1 > world.now);
            assert_eq!(world.run("HLEN h"), model.len().to_string(), "step {step}");
            let timed = model.values().filter(|it| it.1 > 0).count();
            assert_eq!(
                world.times("h"),
                (timed, usize::from(timed > 0)),
                "step {step}"
            );
        }
    }
}

/// More fields than one call removes.
#[test]
fn many_fields_expire_in_several_calls() {
    let mut world = World::new();
    let names: Vec<String> = (0..600).map(|it| format!("f{it}")).collect();
    let pairs: Vec<String> = names.iter().map(|it| format!("{it} v")).collect();
    world.run(&format!("HSETEX h PX 5 FIELDS 600 {}", pairs.join(" ")));
    world.run("HSET h stays 1");
    world.now += 5;
    for left in [601 - 256, 601 - 512, 1, 1] {
        world.expire();
        assert_eq!(world.run("HLEN h"), left.to_string());
    }
    assert_eq!(world.times("h"), (0, 0));
}

/// Each entry is read once.
#[test]
fn a_write_reads_the_key_and_the_element() {
    let world = World::new();
    let gets = |words: &str| {
        let before = world.db.stats().gets;
        world.run(words);
        world.db.stats().gets - before
    };
    for words in ["SADD s a", "ZADD z 1 a", "HSET h a 1"] {
        world.run(words);
        assert_eq!(gets(words), 2, "{words}");
    }
    assert_eq!(gets("SREM s a"), 2);
    assert_eq!(gets("ZREM z a"), 2);
    assert_eq!(gets("DEL h"), 1);
}

/// The costs of a hash without times are those of before there were any.
#[test]
fn a_hash_without_times_costs_nothing_more() {
    let world = World::new();
    world.run("HSET h a 1");
    let counts = |words: &str| {
        let before = world.db.stats();
        world.run(words);
        let after = world.db.stats();
        [
            after.gets - before.gets,
            after.seeks - before.seeks,
            after.puts - before.puts,
            after.deletes - before.deletes,
        ]
    };
    // The key and the field are read; a new field changes the number of fields in the key.
    assert_eq!(counts("HGET h a"), [2, 0, 0, 0]);
    assert_eq!(counts("HSET h a 2"), [2, 0, 1, 0]);
    assert_eq!(counts("HSET h b 2"), [2, 0, 2, 0]);
    assert_eq!(counts("HINCRBY h b 2"), [2, 0, 1, 0]);
    assert_eq!(counts("HDEL h b"), [2, 0, 1, 1]);
    assert_eq!(counts("HLEN h"), [1, 0, 0, 0]);
    // Nor is anything more read for a hash whose first time is to come.
    world.run("HSETEX later PX 100 FIELDS 1 a 1");
    assert_eq!(counts("EXISTS later"), [1, 0, 0, 0]);
    // The bytes, too: a byte of flags, and the value.
    let mut txn = world.txn();
    let entry = txn.lookup(b"h").unwrap();
    let mut meta = Vec::new();
    entry.meta().unwrap().encode(&mut meta);
    assert_eq!(meta.len(), 1 + 8 + 8);
    let key = element_key(&txn, entry.meta().unwrap().version, b"a");
    let stored = txn.get(0, Space::Elements, &key).unwrap().unwrap();
    assert_eq!(stored.as_bytes(), b"\x002");
}
