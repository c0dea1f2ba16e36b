//! Replicas on a simulated disk: what the model of `hedgerow-testkit` is too small for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use hedgerow::io::Environment;
use hedgerow::io::sim::{SimStorage, SplitMix64};
use hedgerow::{
    Builder, Db, ErrorKind, Expiry, Keyspace, Layout, LoadOp, MergeError, MergeOperator, Result,
};
use hedgerow_copies::replica::{OWN_KEYSPACE, Replica, send};

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

/// The entries of each keyspace, without the position of a replica.
fn contents(db: &Db) -> BTreeMap<String, Vec<String>> {
    let names = db.keyspaces().into_iter().filter(|it| it != OWN_KEYSPACE);
    let entries = names.map(|name| {
        let keyspace = db.existing_keyspace(&name).unwrap();
        let entries = keyspace.scan::<&str>(..).unwrap().map(Result::unwrap);
        let shown =
            entries.map(|(key, value)| format!("{}={}", key.escape_ascii(), value.escape_ascii()));
        (name, shown.collect())
    });
    entries.collect()
}

/// Sends what `write` does to a replica. The power of its disk is lost after every possible number
/// of operations, and once more when it resumes. Checks that it then receives the rest.
fn crash_everywhere(seed: u64, write: impl FnOnce(&Db)) {
    let db = builder(&SimStorage::new(1)).open().unwrap();
    let begin = db.create_slot("replica", 1 << 30).unwrap();
    write(&db);
    let (bytes, expected) = (sent(&db, begin), contents(&db));
    for count in 0.. {
        let disk = SimStorage::new(seed << 32 | count);
        let mut replica = Replica::open(builder(&disk).open().unwrap(), begin).unwrap();
        disk.crash_after(count);
        let is_whole = replica.receive(&mut bytes.as_slice()).is_ok();
        let disk = disk.crash();
        drop(replica);
        disk.crash_after(count % 29);
        if let Ok(db) = builder(&disk).open() {
            let received = Replica::open(db, begin);
            let _ = received.and_then(|mut it| it.receive(&mut bytes.as_slice()));
        }
        let disk = disk.crash();
        let mut replica = Replica::open(builder(&disk).open().unwrap(), begin).unwrap();
        let received = replica.receive(&mut bytes.as_slice());
        received.unwrap_or_else(|error| panic!("history {seed}, crash after {count}: {error}"));
        let found = contents(replica.db());
        assert_eq!(found, expected, "history {seed}, crash after {count}");
        if is_whole {
            assert!(count > 5, "{count}");
            return;
        }
    }
}

fn appended(db: &Db, name: &str) -> Keyspace {
    let layout = Layout::sorted().merge_operator("append");
    db.keyspace(name, layout).unwrap()
}

#[test]
fn a_rename_follows_earlier_puts_whenever_the_replica_crashes() {
    crash_everywhere(0, |db| {
        appended(db, "a").put("k", "first").unwrap();
        db.rename_keyspace("a", "b").unwrap();
        appended(db, "b").merge("k", "+").unwrap();
    });
}

#[test]
fn a_name_is_used_again_whenever_the_replica_crashes() {
    crash_everywhere(0, |db| {
        appended(db, "a").put("k", "first").unwrap();
        db.rename_keyspace("a", "b").unwrap();
        appended(db, "a").put("k", "second").unwrap();
        db.drop_keyspace("a").unwrap();
        appended(db, "a").put("l", "third").unwrap();
        db.rename_keyspace("a", "c").unwrap();
        appended(db, "a").merge("k", "fourth").unwrap();
    });
}

/// Writes to three names, which keyspaces take from each other.
fn change_keyspaces(db: &Db, random: &mut SplitMix64) {
    for step in 0..16 {
        let [name, other] = [0; 2].map(|_| ["a", "b", "c"][random.below(3) as usize]);
        let key = format!("{}", random.below(4));
        let written = appended(db, name);
        match random.below(12) {
            0..=2 => written.put(key, format!("{step}")).unwrap(),
            3 | 4 => written.merge(key, format!("+{step}")).unwrap(),
            5 => written.delete_range(key..).unwrap(),
            6 => {
                let entry = Ok::<_, hedgerow::Error>((key, format!("{step}")));
                written.bulk_load([entry]).unwrap();
            }
            7 => written.clear().unwrap(),
            8 => db.drop_keyspace(name).unwrap(),
            _ if db.existing_keyspace(other).is_none() => db.rename_keyspace(name, other).unwrap(),
            _ => db.drop_keyspace(other).unwrap(),
        }
    }
}

#[test]
fn keyspaces_change_once_whenever_the_replica_crashes() {
    for seed in 0..6 {
        crash_everywhere(seed, |db| change_keyspaces(db, &mut SplitMix64::new(seed)));
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
