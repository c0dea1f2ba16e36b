use super::*;
use crate::base::entry::{Flags, Kind};
use crate::table::entry_parts::ValueHandle;

struct Version {
    key: Vec<u8>,
    seqno: u64,
    tag: Tag,
    value: Vec<u8>,
}

fn build(versions: &[Version]) -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    for v in versions {
        builder.check_order(&v.key, SeqNo(v.seqno));
        builder.add(&v.key, SeqNo(v.seqno), v.tag, &v.value);
    }
    let mut out = Vec::new();
    builder.finish(&mut out);
    out
}

fn versions() -> Vec<Version> {
    let mut versions = Vec::new();
    for i in 0..100u32 {
        let key = match i % 3 {
            0 => format!("shared/{i:03}"),
            1 => format!("shared/{:03}/a-rather-long-suffix-{i}", i - 1),
            _ => format!("shared/{:03}/a-rather-long-suffix-{i}", i - 2),
        };
        for age in 0..1 + u64::from(i % 7) * 3 {
            versions.push(Version {
                key: key.clone().into_bytes(),
                seqno: 5_000 - age * 40 - u64::from(i),
                tag: match age % 4 {
                    0 | 2 => Tag::PUT,
                    1 => Tag::DELETE,
                    _ => Tag {
                        kind: Kind::Merge,
                        flags: Flags::NONE,
                    },
                },
                value: vec![i as u8; (i as usize * 5 + age as usize) % 300],
            });
        }
    }
    versions.sort_by(|a, b| a.key.cmp(&b.key).then(b.seqno.cmp(&a.seqno)));
    versions
}

fn check_find(block: &Block<&[u8]>, versions: &[Version], key: &[u8], seqno: u64) {
    let expected = versions
        .iter()
        .position(|v| v.key[..] > *key || (v.key == key && v.seqno <= seqno));
    let found = block.find(key, SeqNo(seqno)).unwrap();
    assert_eq!(found.is_some(), expected.is_some(), "{key:?}");
    if let (Some(found), Some(expected)) = (found, expected) {
        let version = &versions[expected];
        assert_eq!(found.entry.seqno.0, version.seqno);
        assert_eq!(found.entry.tag, version.tag);
        assert_eq!(block.bytes()[found.entry.value()], version.value);
        assert_eq!(found.same_key, version.key == key);
        let shared = &key[..found.entry.shared];
        assert_eq!(
            [shared, &block.bytes()[found.entry.key()]].concat(),
            version.key,
            "the found key continues the wanted one"
        );
        let before = |&r: &usize| block.restart(r).unwrap().head <= found.at.head;
        let restart = (0..block.restarts).rev().find(before).unwrap();
        assert_eq!(block.restart_before(found.at.head).unwrap(), restart);
    }
}

#[test]
fn every_position_is_found() {
    let versions = versions();
    for count in [1, 2, 15, 16, 17, 33, versions.len()] {
        let versions = &versions[..count];
        let bytes = build(versions);
        let block = Block::parse(&bytes[..]).unwrap();
        for v in versions {
            for seqno in [0, v.seqno - 1, v.seqno, v.seqno + 1, SeqNo::MAX.0] {
                check_find(&block, versions, &v.key, seqno);
                check_find(&block, versions, &[&v.key[..], &[0]].concat(), seqno);
                check_find(&block, versions, &v.key[..v.key.len() - 1], seqno);
            }
        }
        for key in [&b""[..], b"a", b"shared", b"shared/", b"shared/zzz", b"z"] {
            check_find(&block, versions, key, 7);
        }
    }
}

#[test]
fn keys_of_every_length_and_values_of_none() {
    let mut versions: Vec<Version> = [1, 14, 15, 16, 142, 143, 65_536]
        .into_iter()
        .flat_map(|bytes| [(bytes, b'a'), (bytes, b'b')])
        .map(|(bytes, letter)| Version {
            key: vec![letter; bytes],
            seqno: SeqNo::MAX.0 - bytes as u64,
            tag: Tag::PUT,
            value: Vec::new(),
        })
        .collect();
    versions.sort_by(|a, b| a.key.cmp(&b.key));
    let bytes = build(&versions);
    let block = Block::parse(&bytes[..]).unwrap();
    for v in &versions {
        check_find(&block, &versions, &v.key, v.seqno);
        check_find(&block, &versions, &v.key, 0);
    }
}

#[test]
#[should_panic(expected = "entries are added in order")]
fn keys_out_of_order_are_a_bug() {
    let version = |key: &[u8]| Version {
        key: key.to_vec(),
        seqno: 1,
        tag: Tag::PUT,
        value: Vec::new(),
    };
    build(&[version(b"b"), version(b"a")]);
}

#[test]
#[should_panic(expected = "versions are added newest first")]
fn versions_out_of_order_are_a_bug() {
    let version = |seqno| Version {
        key: b"k".to_vec(),
        seqno,
        tag: Tag::PUT,
        value: Vec::new(),
    };
    build(&[version(1), version(1)]);
}

/// Pages have checksums, but a decoder must not panic on any bytes.
#[test]
fn damaged_blocks_do_not_panic() {
    let versions = versions();
    let mut bytes = build(&versions[..40]);
    let use_all = |bytes: &[u8]| {
        let Ok(block) = Block::parse(bytes) else {
            return;
        };
        for v in &versions[..40] {
            let _ = block.find(&v.key, SeqNo(v.seqno));
        }
        let mut at = block.first();
        while let Ok(entry) = block.entry(at) {
            let _ = ValueHandle::decode(&block.bytes()[entry.value()]);
            at = entry.next;
        }
        let _ = block.restart_before(at.head);
    };
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        use_all(&bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    for cut in 0..bytes.len() {
        use_all(&bytes[..cut]);
    }
}

#[test]
fn garbage_is_refused_or_has_entries() {
    let mut state = 5_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize
    };
    for _ in 0..20_000 {
        let (count, letters) = (next() % 200, 1 + next() % 256);
        let bytes: Vec<u8> = (0..count).map(|_| (next() % letters) as u8).collect();
        if let Ok(block) = Block::parse(&bytes[..]) {
            let _ = block.find(&bytes[..bytes.len().min(9)], SeqNo(3));
            let mut at = block.first();
            while let Ok(entry) = block.entry(at) {
                at = entry.next;
            }
        }
    }
}
