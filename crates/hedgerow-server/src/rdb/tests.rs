use std::io::{Cursor, Read, Seek};

use super::file::{File, Key, Part};
use super::packed::Pack;
use super::*;
use crate::store::{Consumer, Ends, Group, Id, Pending};

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|it| it.as_bytes().to_vec()).collect()
}

/// A reader that has room for what packs have.
fn whole() -> Reader<'static> {
    Reader::new(&[])
}

fn values() -> Vec<Value> {
    let long = "x".repeat(20_000);
    vec![
        Value::String(Vec::new()),
        Value::String(long.clone().into_bytes()),
        Value::List(words(&["a", "a", &long])),
        Value::Set(words(&["a", "", "1"])),
        Value::Hash(pairs(words(&["f", "1", "g", &long])).unwrap()),
        Value::ExpiringHash(vec![
            (b"f".to_vec(), b"1".to_vec(), 2_000_000_000_000),
            (b"g".to_vec(), b"2".to_vec(), 0),
            (b"h".to_vec(), b"3".to_vec(), 2_000_000_100_000),
        ]),
        Value::SortedSet(vec![(b"a".to_vec(), -1.5), (b"b".to_vec(), f64::INFINITY)]),
        Value::Stream(Box::new(stream())),
    ]
}

/// Entries of several nodes, with other fields now and then, and a group.
fn stream() -> Stream {
    let id = |number: u64| Id {
        millis: (number / 7) << 20,
        number,
    };
    let item = |number: u64| match number % 5 {
        0 => (id(number), words(&["other", "-5000000000", "name", ""])),
        _ => (
            id(number),
            words(&["name", &"x".repeat(number as usize), "n", "70000"]),
        ),
    };
    let pending = |number: u64, consumer: &str| Pending {
        id: id(number),
        delivered: 1_700_000_000_000,
        deliveries: number,
        consumer: consumer.as_bytes().to_vec(),
    };
    let consumer = |name: &str, pending| Consumer {
        name: name.as_bytes().to_vec(),
        seen: 1_700_000_000_001,
        active: 1_700_000_000_001,
        pending,
    };
    Stream {
        items: (1..300).map(item).collect(),
        ends: Ends {
            first: id(1),
            last: id(400),
            deleted: id(350),
            added: 500,
        },
        groups: vec![Members {
            group: Group {
                name: b"group".to_vec(),
                last: id(200),
                read: u64::MAX,
                pending: 3,
            },
            consumers: vec![consumer("idle", 0), consumer("one", 2), consumer("two", 1)],
            pending: vec![pending(3, "one"), pending(4, "two"), pending(9, "one")],
        }],
        is_old: false,
    }
}

/// Every byte that is lost or changed is noticed, by the checksum at the latest.
#[test]
fn values_read_as_they_were_written_and_damage_is_noticed() {
    for value in values() {
        let payload = value.encode();
        assert_eq!(Value::decode(&payload), Ok(value));
        for at in (0..payload.len()).step_by(payload.len() / 50 + 1) {
            let mut damaged = payload.clone();
            damaged[at] ^= 0x55;
            assert!(Value::decode(&damaged).is_err(), "byte {at}");
            assert!(Value::decode(&payload[..at]).is_err(), "up to {at}");
            // Without a checksum, any outcome but a panic.
            let _ = is_value(&damaged[..damaged.len() - FOOTER_BYTES]);
        }
    }
}

/// Written by hand from the description of the encodings.
#[test]
fn packs_are_read() {
    let pack = |elements: &[&[u8]], count: u16| {
        let inner = elements.concat();
        let all = (inner.len() + 7) as u32;
        [
            &all.to_le_bytes()[..],
            &count.to_le_bytes(),
            &inner,
            &[0xFF],
        ]
        .concat()
    };
    let elements: &[&[u8]] = &[
        &[5, 1],
        &[0x83, b'a', b'b', b'c', 4],
        &[0xDF, 0xFF, 2],
        &[0xF1, 0x00, 0x80, 3],
        &[0xF2, 0xFF, 0xFF, 0xFF, 4],
        &[0xF4, 0, 0, 0, 0, 0, 0, 0, 0x80, 9],
    ];
    let expected = words(&["5", "abc", "-1", "-32768", "-1", "-9223372036854775808"]);
    assert_eq!(list_pack(&pack(elements, 6), &mut whole()), Some(expected));
    assert_eq!(list_pack(&pack(elements, 5), &mut whole()), None);
    let set = [
        &2u32.to_le_bytes()[..],
        &2u32.to_le_bytes(),
        &[1, 0, 0xFF, 0xFF],
    ]
    .concat();
    assert_eq!(int_set(&set, &mut whole()), Some(words(&["1", "-1"])));
    assert_eq!(int_set(&set[..11], &mut whole()), None);
    let zipped = [0x0F, 0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 0xF3, 2, 0x01, b'a'];
    let zipped = [&[16u8][..], &zipped[1..], &[0xFF]].concat();
    assert_eq!(zip_list(&zipped, &mut whole()), Some(words(&["2", "a"])));
}

/// `aaaaaaaaaa`, compressed: a literal, and nine bytes from one before.
#[test]
fn compressed_strings_are_read() {
    let body = [0, 0xC3, 5, 10, 0, b'a', 0xE0, 0, 0];
    assert_eq!(
        decode_body(Reader::new(&body)),
        Ok(Value::String(b"aaaaaaaaaa".to_vec()))
    );
    let long = [0, 0xC3, 5, 11, 0, b'a', 0xE0, 0, 0];
    assert_eq!(decode_body(Reader::new(&long)), Err(Damage::Value));
}

/// A field, its value and its time each; the first time stands in front.
#[test]
fn packs_of_fields_with_times_are_read() {
    let inner = [
        &[0x81, b'f', 2, 1, 1, 5, 1, 0x81, b'g', 2, 2, 1, 0, 1][..],
        &[0xFF],
    ]
    .concat();
    let all = (inner.len() + 6) as u32;
    let pack = [&all.to_le_bytes()[..], &6u16.to_le_bytes(), &inner].concat();
    let first = 5u64.to_le_bytes();
    let body = [&[25][..], &first, &[pack.len() as u8], &pack].concat();
    let field = |name: &str, value: &str, time| (name.into(), value.into(), time);
    let expected = Value::ExpiringHash(vec![field("f", "1", 5), field("g", "2", 0)]);
    assert_eq!(decode_body(Reader::new(&body)), Ok(expected));
}

#[test]
fn what_no_collection_can_have_is_refused() {
    for body in [
        &[SET, 0][..],
        &[SET, 2, 1, b'a', 1, b'a'],
        &[HASH, 1, 1, b'a'],
        &[LIST, 0x81, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        &[SORTED_SET, 1, 1, b'a', 0, 0, 0, 0, 0, 0, 0xF8, 0x7F],
        &[STRING, 1, b'a', b'b'],
        &[99],
    ] {
        assert!(decode_body(Reader::new(body)).is_err(), "{body:?}");
    }
}

/// A pack of 8 MB has four million elements, and each takes more memory than its two bytes.
#[test]
fn elements_of_packs_count_as_strings_do() {
    let mut pack = Pack::new();
    (0..6_000_000).for_each(|_| pack.number(1));
    let pack = pack.finish();
    for (kind, behind) in [(18, &[1, 2][..]), (16, &[]), (17, &[]), (20, &[])] {
        let mut body = [&[kind][..], behind].concat();
        string(&mut body, &pack);
        assert_eq!(decode_body(Reader::new(&body)), Err(Damage::Size), "{kind}");
    }
    let first = 6_000_000_u32.to_le_bytes();
    let mut body = vec![11];
    string(
        &mut body,
        &[&2_u32.to_le_bytes()[..], &first, &[1; 12_000_000]].concat(),
    );
    assert_eq!(decode_body(Reader::new(&body)), Err(Damage::Size));
}

/// Entries that share the names of their fields have one each when they are read.
#[test]
fn names_of_the_fields_of_a_stream_count_for_each_entry() {
    let name = vec![b'n'; 5 << 20];
    let mut pack = Pack::new();
    [60, 0, 1].iter().for_each(|it| pack.number(*it));
    pack.string(&name);
    pack.number(0);
    for at in 0..60 {
        [2, 0, at].iter().for_each(|it| pack.number(*it));
        pack.string(b"v");
        pack.number(4);
    }
    let first = Id {
        millis: 1,
        number: 0,
    };
    let mut body = vec![stream::STREAM, 1];
    string(&mut body, &first.to_bytes());
    string(&mut body, &pack.finish());
    // The entries, the last id, the first and the deleted one, the added entries, no groups.
    body.extend_from_slice(&[60, 1, 59, 1, 0, 0, 0, 60, 0]);
    assert_eq!(decode_body(Reader::new(&body)), Err(Damage::Size));
    let copied = decode_body(Reader::within(&body, COPIED_BYTES_MAX));
    assert!(matches!(copied, Ok(Value::Stream(it)) if it.items.len() == 60));
}

#[test]
fn a_zipmap_is_read() {
    let map = [
        2, 1, b'a', 2, 1, b'1', b'2', 0, 3, b'k', b'e', b'y', 0, 0, 0xFF,
    ];
    assert_eq!(
        zip_map(&map, &mut whole()),
        Some(words(&["a", "12", "key", ""]))
    );
    assert_eq!(zip_map(&map[..14], &mut whole()), None);
}

#[test]
fn streams_whose_parts_do_not_agree_are_refused() {
    let damaged = |change: fn(&mut Stream)| {
        let mut stream = stream();
        change(&mut stream);
        let payload = Value::Stream(Box::new(stream)).encode();
        Value::decode(&payload)
    };
    assert!(damaged(|_| {}).is_ok());
    let changes: [fn(&mut Stream); 7] = [
        |it| it.items.swap(1, 2),
        |it| it.ends.last = Id::default(),
        |it| it.ends.added = 5,
        |it| it.ends.added = u64::MAX,
        |it| it.groups[0].pending[0].consumer = b"nobody".to_vec(),
        |it| it.groups[0].consumers[0].name = b"one".to_vec(),
        |it| it.groups.push(it.groups[0].clone()),
    ];
    for (place, change) in changes.into_iter().enumerate() {
        assert_eq!(damaged(change), Err(Damage::Value), "{place}");
    }
}

// ---- files ----

fn key(db: u64, key: &str, expires: u64, value: Value) -> Part {
    let key = key.as_bytes().to_vec();
    Part::Key(Box::new(Key {
        db,
        key,
        expires,
        value,
    }))
}

fn parts() -> Vec<Part> {
    let mut parts = vec![Part::Library(b"#!lua name=l\n".to_vec())];
    for (place, value) in values().into_iter().enumerate() {
        let (db, expires) = (place as u64 / 3, place as u64 % 2 * 1_700_000_000_000);
        parts.push(key(db, &format!("key{place}"), expires, value));
    }
    parts
}

/// A file of parts, with everything that a Redis puts beside them.
fn file_of(parts: &[Part]) -> Vec<u8> {
    let mut out = b"REDIS0010\xFA\x09redis-ver\x057.0.0\xFA\x0aredis-bits\xc0\x40".to_vec();
    let mut selected = u64::MAX;
    for part in parts {
        match part {
            Part::Library(text) => {
                out.push(0xF5);
                string(&mut out, text);
            }
            Part::Key(key) => {
                if selected != key.db {
                    selected = key.db;
                    out.extend_from_slice(&[0xFE, key.db as u8, 0xFB, 2, 1]);
                }
                if key.expires > 0 {
                    out.push(0xFC);
                    out.extend_from_slice(&key.expires.to_le_bytes());
                }
                // The frequency of use, or the time without.
                out.extend_from_slice(if key.db == 0 { &[0xF9, 7] } else { &[0xF8, 60] });
                let payload = key.value.encode();
                out.push(payload[0]);
                string(&mut out, &key.key);
                out.extend_from_slice(&payload[1..payload.len() - FOOTER_BYTES]);
            }
            Part::End => {}
        }
    }
    out.push(0xFF);
    let sum = CRC.checksum(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Gives one byte at each read.
struct Slow<R>(R);

impl<R: Read> Read for Slow<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let most = into.len().min(1);
        self.0.read(&mut into[..most])
    }
}

#[test]
fn a_file_reads_as_it_was_written_from_every_position() {
    let (parts, mut bytes) = (parts(), Cursor::new(file_of(&parts())));
    let mut file = File::begin(Slow(bytes.clone())).unwrap();
    for (place, part) in parts.iter().enumerate() {
        let position = file.position();
        bytes.set_position(position.offset);
        let mut later = File::at(&mut bytes, position);
        for part in &parts[place..] {
            assert_eq!(later.next().unwrap(), *part);
        }
        assert_eq!(later.next().unwrap(), Part::End);
        assert_eq!(file.next().unwrap(), *part);
    }
    assert_eq!(file.next().unwrap(), Part::End);
    bytes.rewind().unwrap();
    assert!(is_rdb_file(bytes.get_ref()));
}

#[test]
fn a_damaged_file_is_noticed() {
    let bytes = file_of(&parts());
    for at in (0..bytes.len()).step_by(bytes.len() / 300) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        assert!(!is_rdb_file(&damaged), "byte {at}");
        assert!(!is_rdb_file(&bytes[..at]), "up to {at}");
    }
    assert!(!is_rdb_file(&[&bytes[..], b"*1"].concat()));
}

#[test]
fn a_file_with_something_that_has_no_place_here_is_refused() {
    for (bytes, expected) in [
        (&b"REDIS0013\xFF"[..], "expected version 12"),
        (b"REDIS0010\xF7\x00", "data of modules"),
        (
            b"REDIS0010\x07\x03key\x00",
            "type 7 of modules at the key `key` of database 0",
        ),
        (b"REDIS0010\x1E\x03key\x00", "type 30 at the key"),
        (b"REDIX0010", "begins with `REDIS`"),
        (
            b"REDIS0010\x00\x03key\x81\xff\xff\xff\xff\xff\xff\xff\xff",
            "2 GiB at offset 9",
        ),
        (
            b"REDIS0010\x00\x03key\xCF",
            "not as its type says at offset 9",
        ),
        (b"REDIS0010\x00\x03key", "the end of the file at offset 9"),
        (b"REDIS0010\xFF12345678", "expected the checksum"),
        (b"REDIS0013\xFF", "found 13"),
    ] {
        let failed = File::begin(bytes).and_then(|mut file| file.next());
        let text = format!("{:?}", failed.unwrap_err());
        assert!(text.contains(expected), "{text}");
    }
    // Without a checksum, as version 4 and `rdbchecksum no` have it.
    assert!(is_rdb_file(b"REDIS0004\xFF"));
    assert!(is_rdb_file(b"REDIS0010\xFF\0\0\0\0\0\0\0\0"));
}

// ---- what others have written ----

fn shown(word: &[u8]) -> String {
    word.escape_ascii().to_string()
}

/// A key as `testdata/rdb/make.py` shows what the server says of it.
fn line(key: &Key) -> String {
    let mut words = vec![
        key.db.to_string(),
        format!("<{}>", shown(&key.key)),
        key.expires.to_string(),
    ];
    let sorted = |mut words: Vec<Vec<u8>>| {
        words.sort();
        words.iter().map(|it| shown(it)).collect::<Vec<_>>()
    };
    match key.value.clone() {
        Value::String(text) => words.extend(["string".to_owned(), shown(&text)]),
        Value::List(items) => {
            words.push("list".to_owned());
            words.extend(items.iter().map(|it| shown(it)));
        }
        Value::Set(members) => {
            words.push("set".to_owned());
            words.extend(sorted(members));
        }
        Value::Hash(mut fields) => {
            fields.sort();
            words.push("hash".to_owned());
            words.extend(fields.iter().flat_map(|it| [shown(&it.0), shown(&it.1)]));
        }
        Value::ExpiringHash(mut fields) => {
            fields.sort();
            words.push("expiring hash".to_owned());
            let field = |it: &TimedField| [shown(&it.0), shown(&it.1), it.2.to_string()];
            words.extend(fields.iter().flat_map(field));
        }
        Value::SortedSet(mut members) => {
            members.sort_by(|one, next| one.0.cmp(&next.0));
            words.push("zset".to_owned());
            let score = |score: f64| format!("{:016x}", score.to_bits());
            words.extend(members.iter().flat_map(|it| [shown(&it.0), score(it.1)]));
        }
        Value::Stream(stream) => words.extend(of_stream(&stream)),
    }
    words.join(" ")
}

fn of_stream(stream: &Stream) -> Vec<String> {
    let ends = &stream.ends;
    let mut words = vec![format!(
        "stream last {} entries {} deleted {} added {}",
        ends.last,
        stream.items.len(),
        ends.deleted,
        ends.added
    )];
    for (id, fields) in &stream.items {
        words.push(id.to_string());
        words.extend(fields.iter().map(|it| shown(it)));
    }
    for members in &stream.groups {
        let group = &members.group;
        let read = match group.read {
            _ if stream.is_old => "unknown".to_owned(),
            u64::MAX => "unknown".to_owned(),
            read => read.to_string(),
        };
        words.push(format!(
            "group {} {} read {read}",
            shown(&group.name),
            group.last
        ));
        for it in &members.consumers {
            words.push(format!("consumer {} {}", shown(&it.name), it.pending));
        }
        for it in &members.pending {
            words.push(format!(
                "pending {} {} {}",
                it.id,
                shown(&it.consumer),
                it.deliveries
            ));
        }
    }
    words
}

/// Files of three releases, and what those servers say is in them.
#[test]
#[allow(clippy::disallowed_methods, reason = "files of the test")]
fn files_of_others_are_read_as_they_read_them() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/rdb");
    for name in ["redis-6.2.5", "redis-7.0.15", "valkey-9.1.2"] {
        let bytes = std::fs::read(format!("{root}/{name}.rdb")).unwrap();
        let mut file = File::begin(&bytes[..]).unwrap();
        let mut lines = Vec::new();
        loop {
            match file.next().unwrap() {
                Part::Key(key) => {
                    // Written and read again it is the same.
                    let again = Value::decode(&key.value.encode()).unwrap();
                    let old = |mut value: Value| {
                        if let Value::Stream(stream) = &mut value {
                            stream.is_old = false;
                            stream.groups.iter_mut().for_each(|it| it.consumers.clear());
                        }
                        value
                    };
                    assert_eq!(old(again), old(key.value.clone()));
                    lines.push(line(&key));
                }
                Part::Library(text) => {
                    assert!(text.starts_with(b"#!lua name=lib"));
                    lines.push("library lib".to_owned());
                }
                Part::End => break,
            }
        }
        lines.sort();
        let expected = std::fs::read_to_string(format!("{root}/{name}.txt")).unwrap();
        let expected: Vec<&str> = expected.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{name}");
        for (found, expected) in lines.iter().zip(expected) {
            assert_eq!(found, expected, "{name}");
        }
    }
}

/// The corpora of the fuzzers: whole values and files, and what fuzzers have found.
#[test]
#[allow(clippy::disallowed_methods, reason = "files of the test")]
fn the_corpora_of_the_fuzzers_are_decoded() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
    let (mut values, mut files) = (0, 0);
    for (target, is_whole, count) in [
        ("value", is_value as fn(&[u8]) -> bool, &mut values),
        ("rdb_file", is_rdb_file, &mut files),
    ] {
        for entry in std::fs::read_dir(format!("{root}/{target}")).unwrap() {
            let path = entry.unwrap().path();
            let found = path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("found-");
            let decodes = is_whole(&std::fs::read(&path).unwrap());
            assert!(decodes || found, "{}", path.display());
            *count += 1;
        }
    }
    assert!(values > 20 && files > 2, "{values} values, {files} files");
}
