//! Replicas on a simulated disk: what the model of `hedgerow-testkit` is too small for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hedgerow::io::Environment;
use hedgerow::io::sim::SimStorage;
use hedgerow::{
    Builder, Db, ErrorKind, Expiry, Keyspace, Layout, LoadOp, MergeError, MergeOperator, Result,
};
use hedgerow_copies::replica::{Replica, send};

/// Keeps the longest value.
struct Longest;

impl MergeOperator for Longest {
    fn name(&self) -> &str {
        "longest"
    }

    fn full(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Option<Vec<u8>>, MergeError> {
        let all = base.iter().chain(operands);
        let longest = all.max_by_key(|value| value.len());
        Ok(longest.map(|value| value.to_vec()))
    }
}

fn builder(disk: &SimStorage) -> Builder {
    Db::builder("/db")
        .environment(Environment::simulated(disk, 7))
        .memory_budget(4 << 20)
}

/// A database with a slot, and an empty replica.
fn pair(writer: Builder) -> (Db, SimStorage, Replica) {
    let db = writer.open().unwrap();
    let begin = db.create_slot("replica", 1 << 30).unwrap();
    let disk = SimStorage::new(2);
    let replica = Replica::open(builder(&disk).open().unwrap(), begin).unwrap();
    (db, disk, replica)
}

fn sent(db: &Db, position: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    send(&mut db.changes_since(position).unwrap(), &mut bytes).unwrap();
    bytes
}

fn keyspace(replica: &Replica, name: &str) -> Keyspace {
    replica.db().existing_keyspace(name).unwrap()
}

#[test]
fn operands_of_a_load_count_once_whenever_the_replica_crashes() {
    let (db, disk, mut replica) = pair(builder(&SimStorage::new(1)));
    let begin = replica.position();
    let words = db
        .keyspace("words", Layout::sorted().merge_operator("append"))
        .unwrap();
    let key = |i: u64| format!("{i:04}");
    let op = |i: u64| match i % 3 {
        0 => LoadOp::Merge("x".repeat(9000)),
        1 => LoadOp::PutExpiring("y".into(), Expiry::Never),
        _ => LoadOp::Delete,
    };
    let entries = (0..900).map(|i| Ok::<_, hedgerow::Error>((key(i), op(i))));
    words.bulk_load_ops(entries).unwrap();
    let bytes = sent(&db, begin);
    replica.receive(&mut &bytes[..1 << 20]).unwrap_err();
    let mut image = disk.kill();
    drop(replica);
    let mut crashes = 0;
    for count in (0..).map(|i| i * 7) {
        let disk = image;
        let mut replica = Replica::open(builder(&disk).open().unwrap(), begin).unwrap();
        disk.crash_after(count);
        let received = replica.receive(&mut bytes.as_slice());
        image = disk.crash();
        if received.is_ok() {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 2, "{crashes}");
    let replica = Replica::open(builder(&image).open().unwrap(), begin).unwrap();
    let copied = keyspace(&replica, "words");
    for i in 0..900 {
        let expected = words.get(key(i)).unwrap();
        assert_eq!(copied.get(key(i)).unwrap(), expected, "{i}");
    }
}

#[test]
fn operands_wait_for_their_operator() -> Result<()> {
    let writer = SimStorage::new(1);
    let (db, disk, mut replica) = pair(builder(&writer).merge_operator(Longest));
    let layout = Layout::sorted().merge_operator("longest");
    let titles = db.keyspace("titles", layout)?;
    titles.put("a", "old")?;
    titles.merge("a", "newer")?;
    let bytes = sent(&db, replica.position());
    let error = replica.receive(&mut bytes.as_slice()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("`longest`"), "{error}");
    // The commits before are there.
    assert_eq!(keyspace(&replica, "titles").get("a")?.unwrap(), "old");
    let position = replica.position();
    replica.db().clone().close()?;
    drop(replica);
    let again = builder(&disk).merge_operator(Longest).open()?;
    let mut replica = Replica::open(again, 0)?;
    assert_eq!(replica.position(), position);
    replica.receive(&mut sent(&db, position).as_slice())?;
    assert_eq!(keyspace(&replica, "titles").get("a")?.unwrap(), "newer");
    Ok(())
}

#[test]
fn bytes_that_are_damaged_or_lack_commits_are_refused() -> Result<()> {
    let (db, _disk, mut replica) = pair(builder(&SimStorage::new(1)));
    let begin = replica.position();
    let plain = db.keyspace("plain", Layout::sorted())?;
    plain.put("a", "1")?;
    let first = sent(&db, begin);
    let between = db.snapshot()?.number();
    plain.put("b", "2")?;
    let error = replica.receive(&mut sent(&db, between).as_slice());
    let ErrorKind::Gap { oldest } = error.unwrap_err().kind() else {
        panic!("expected a gap");
    };
    assert_eq!((oldest, replica.position()), (between, begin));
    for at in 0..first.len() {
        let mut damaged = first.clone();
        damaged[at] ^= 1;
        let error = replica.receive(&mut damaged.as_slice()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{at}: {error}");
    }
    // Commits that it has are skipped.
    let all = sent(&db, begin);
    for _ in 0..2 {
        replica.receive(&mut all.as_slice())?;
        assert_eq!(keyspace(&replica, "plain").get("b")?.unwrap(), "2");
    }
    Ok(())
}
