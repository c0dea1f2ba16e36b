//! Whole copies over a transport, also one that damages and ends.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hedgerow::{Db, ErrorKind, Layout};
use hedgerow_copies::transfer;

#[test]
fn every_damaged_or_missing_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db")).unwrap();
    let words = db.keyspace("words", Layout::sorted()).unwrap();
    words.put(b"one", b"1").unwrap();
    db.flush().unwrap();
    words.put(b"two", b"2").unwrap();
    let mut sent = Vec::new();
    let builder = Db::builder(dir.path().join("db"));
    let last = transfer::send(&builder, &mut sent, |_| true).unwrap();
    assert_eq!(last, db.snapshot().unwrap().number());

    let receive = |bytes: &[u8], name: &str| {
        let target = dir.path().join(name);
        let received = transfer::receive(&mut &bytes[..], &target, |_| true);
        received.map(|last| (last, target))
    };
    let step = sent.len() / 200 + 1;
    for at in (0..sent.len()).step_by(step) {
        let name = format!("short{at}");
        let error = receive(&sent[..at], &name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{at} bytes: {error}");
        let part = Db::builder(dir.path().join(name)).create_if_missing(false);
        part.open().expect_err("a part of a copy is no database");
    }
    for at in (0..sent.len()).step_by(step) {
        let mut damaged = sent.clone();
        damaged[at] ^= 1;
        receive(&damaged, &format!("damaged{at}")).unwrap_err();
    }
    let (received, target) = receive(&sent, "whole").unwrap();
    let error = receive(&sent, "whole").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(received, last);
    let copy = Db::open(target).unwrap();
    let words = copy.existing_keyspace("words").unwrap();
    assert_eq!(words.get(b"one").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(words.get(b"two").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(copy.snapshot().unwrap().number(), last);
}

#[test]
fn a_path_that_leads_out_of_the_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for path in ["../x", "/tmp/x", "tables/../../x", "other/x"] {
        let mut bytes = b"HGCOPY01".to_vec();
        bytes.extend([0; 16]);
        bytes.extend(xxhash_rust::xxh3::xxh3_64(&bytes).to_le_bytes());
        bytes.extend((path.len() as u16).to_le_bytes());
        bytes.extend(path.as_bytes());
        bytes.extend([0; 10]);
        let target = dir.path().join("target");
        let received = transfer::receive(&mut bytes.as_slice(), target, |_| true);
        let error = received.unwrap_err().to_string();
        assert!(
            error.contains("expected a file of a database"),
            "{path}: {error}"
        );
    }
}
