//! Servers that come into another history: of the same data, without a copy; of other data, with
//! one.

#![allow(
    clippy::disallowed_methods,
    reason = "damages databases that are not open"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use hedgerow::{Db, Error, Layout, LoadOp, repair};

use super::{Servers, counts, until};

const SEED: u64 = 32;

impl Servers {
    fn fail_over(&mut self, primary: usize, to: usize, options: &str) {
        let address = self.address(to);
        let (host, port) = (address.ip(), address.port());
        self.call(primary, &format!("FAILOVER TO {host} {port}{options}"));
    }

    fn hand_over(&mut self, primary: usize, to: usize) {
        self.fail_over(primary, to, "");
        until("a primary that has handed over", || {
            self.fact(primary, "master_link_status") == "up"
        });
    }

    /// Ends a server and begins it again.
    fn restart(&mut self, at: usize) {
        self.end_one(at);
        self.begin_again(at);
    }

    fn dir_of(&self, at: usize) -> PathBuf {
        self.dir.path().join(at.to_string())
    }
}

#[test]
fn a_replica_of_a_replica_comes_along_into_another_history() {
    let mut servers = Servers::begin(2);
    for (replica, primary) in [(2, 1), (3, 0)] {
        servers.add();
        servers.follow(replica, primary);
        servers.until_equal(primary, replica);
    }
    servers.call(0, "SET k 1");
    servers.until_equal(0, 3);
    // The one in the middle follows the same server as before.
    servers.hand_over(0, 3);
    servers.call(3, "SET k 2");
    for (primary, replica) in [(3, 0), (0, 1), (1, 2)] {
        servers.assert_equal(primary, replica);
    }
    assert_eq!(servers.fact(0, "sync_full"), "2");
    assert_eq!(servers.syncs(1), counts(1, 1));
    servers.end();
}

#[test]
fn a_primary_that_was_begun_again_is_followed_without_a_copy() {
    let mut servers = Servers::begin(3);
    servers.call(0, "SET k 1");
    servers.until_equal(0, 1);
    servers.end_one(2);
    for value in 2..5 {
        servers.restart(0);
        servers.call(0, &format!("SET k {value}"));
        servers.follow(1, 0);
        servers.assert_equal(0, 1);
        assert_eq!(servers.syncs(0), counts(0, 1));
    }
    // It knows the history of three processes before.
    servers.begin_again(2);
    servers.follow(2, 0);
    servers.assert_equal(0, 2);
    assert_eq!(servers.syncs(0), counts(0, 2));
    // One that has written nothing since follows another one that was promoted meanwhile.
    servers.end_one(0);
    servers.call(1, "REPLICAOF NO ONE");
    servers.call(1, "SET k 5");
    servers.begin_again(0);
    servers.follow(0, 1);
    servers.assert_equal(1, 0);
    assert_eq!(servers.syncs(1), counts(0, 1));
    servers.end();
}

/// The entries of a keyspace of a server that has ended.
fn entries(dir: &Path, keyspace: &str) -> u64 {
    let db = Db::open(dir).unwrap();
    let keyspace = db.existing_keyspace(keyspace).unwrap();
    let count = keyspace.scan::<&[u8]>(..).unwrap().count();
    db.close().unwrap();
    count as u64
}

/// A commit of a load with operands comes in parts, which a replica in the middle does not pass on.
#[test]
fn a_load_with_operands_reaches_a_replica_of_a_replica() {
    const OPERANDS: u64 = 100_000;
    let mut servers = Servers::begin(2);
    servers.add();
    servers.follow(2, 1);
    servers.until_equal(1, 2);
    servers.end_one(0);
    let dir = servers.dir_of(0);
    {
        let db = Db::builder(&dir).memory_budget(64 << 20).open().unwrap();
        let counters = Layout::sorted().merge_operator("add_i64");
        let counters = db.keyspace("counters", counters).unwrap();
        let operands = (0..OPERANDS)
            .map(|key| Ok::<_, Error>((key.to_be_bytes(), LoadOp::Merge(1i64.to_le_bytes()))));
        counters.bulk_load_ops(operands).unwrap();
        db.close().unwrap();
    }
    servers.begin_again(0);
    servers.follow(1, 0);
    servers.call(0, "SET k 1");
    servers.assert_equal(0, 1);
    servers.assert_equal(1, 2);
    assert_eq!(servers.syncs(0), counts(0, 1));
    assert_eq!(servers.fact(1, "sync_full"), "2");
    servers.end_one(2);
    assert_eq!(entries(&servers.dir_of(2), "counters"), OPERANDS);
    servers.end();
}

/// A load is durable before the position behind it. A power cut may leave one without the other.
#[test]
fn a_load_without_its_position_is_passed_on_behind_a_promotion() {
    let mut servers = Servers::begin(3);
    servers.call(0, "SET k 1");
    (1..3).for_each(|replica| servers.until_equal(0, replica));
    servers.end_one(0);
    servers.end_one(1);
    let db = Db::open(servers.dir_of(1)).unwrap();
    let loaded = db.keyspace("loaded", Layout::sorted()).unwrap();
    let puts = (0..100u64).map(|key| Ok::<_, Error>((key.to_be_bytes(), LoadOp::Put([1]))));
    loaded.bulk_load_ops(puts).unwrap();
    db.close().unwrap();
    servers.begin_again(1);
    servers.call(1, "REPLICAOF NO ONE");
    servers.follow(2, 1);
    servers.call(1, "SET k 2");
    servers.assert_equal(1, 2);
    assert_eq!(servers.syncs(1), counts(0, 1));
    servers.end_one(2);
    assert_eq!(entries(&servers.dir_of(2), "loaded"), 100);
    servers.end();
}

/// A replica that has a part of a load with operands. Another history may lack the load.
#[test]
fn a_replica_within_a_load_does_not_lead_and_leaves_its_history_by_a_copy() {
    let mut servers = Servers::begin(3);
    servers.call(0, "SET k 1");
    (1..3).for_each(|replica| servers.until_equal(0, replica));
    servers.end_one(1);
    let db = Db::open(servers.dir_of(1)).unwrap();
    let own = db.existing_keyspace("hedgerow.replica").unwrap();
    own.put("loaded", 7u64.to_le_bytes()).unwrap();
    db.close().unwrap();
    servers.begin_again(1);
    servers.until_equal(0, 1);
    servers.fail_over(0, 1, " FORCE TIMEOUT 1000");
    until("a refusal", || {
        servers.fact(0, "master_failover_state") == "no-failover"
    });
    assert_eq!(servers.fact(0, "role"), "master");
    servers.call(2, "REPLICAOF NO ONE");
    servers.call(2, "SET k 2");
    servers.follow(1, 2);
    servers.assert_equal(2, 1);
    assert_eq!(servers.fact(2, "sync_full"), "1");
    // The copy has no part of a load: it may lead.
    servers.hand_over(2, 1);
    servers.assert_equal(1, 2);
    servers.end();
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Written,
    Flushed,
    Promoted,
    BegunAgain,
    ReplicaBegunAgain,
    Saved,
    Restored,
    Repaired,
    ReplicaRepaired,
}

const EVENTS: [Event; 9] = [
    Event::Written,
    Event::Flushed,
    Event::Promoted,
    Event::BegunAgain,
    Event::ReplicaBegunAgain,
    Event::Saved,
    Event::Restored,
    Event::Repaired,
    Event::ReplicaRepaired,
];

/// Servers of which one leads the others.
struct Group {
    servers: Servers,
    primary: usize,
    random: fastrand::Rng,
    values: u64,
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(copied.unwrap().success());
}

impl Group {
    fn write(&mut self) {
        for _ in 0..self.random.usize(..20) {
            self.values += 1;
            let (db, key, value) = (self.random.u8(..2), self.random.u8(..50), self.values);
            self.servers.call(self.primary, &format!("SELECT {db}"));
            self.servers
                .call(self.primary, &format!("SET k{key} {value}"));
        }
    }

    fn flush(&mut self) {
        let db = self.random.u8(..2);
        self.servers.call(self.primary, &format!("SELECT {db}"));
        self.servers.call(self.primary, "FLUSHDB");
    }

    /// A replica.
    fn other(&mut self) -> usize {
        let count = self.servers.all.len();
        (self.primary + self.random.usize(1..count)) % count
    }

    /// Damages the log or a table, and maybe the manifest, and repairs the database.
    fn repair(&mut self, at: usize) {
        let dir = self.servers.dir_of(at);
        self.servers.end_one(at);
        if self.random.u8(..4) == 0 {
            std::fs::remove_file(dir.join("MANIFEST")).unwrap();
        }
        let part = if self.random.bool() { "log" } else { "tables" };
        let mut files: Vec<_> = std::fs::read_dir(dir.join(part)).unwrap().collect();
        self.random.shuffle(&mut files);
        for file in files.into_iter().take(2) {
            let path = file.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            let place = self.random.usize(..bytes.len().min(16 << 10));
            bytes[place..]
                .iter_mut()
                .take(100)
                .for_each(|it| *it ^= 0xff);
            std::fs::write(&path, bytes).unwrap();
        }
        repair(&dir).unwrap();
    }

    fn run(&mut self, event: Event) {
        let (primary, saved) = (self.primary, self.servers.dir.path().join("saved"));
        let dir = self.servers.dir_of(primary);
        match event {
            Event::Written => {}
            Event::Flushed => self.flush(),
            Event::Promoted => {
                self.primary = self.other();
                self.servers.call(self.primary, "REPLICAOF NO ONE");
            }
            Event::BegunAgain => self.servers.restart(primary),
            Event::ReplicaBegunAgain => {
                let replica = self.other();
                self.servers.end_one(replica);
                self.write();
                self.servers.begin_again(replica);
            }
            Event::Saved => {
                self.servers.end_one(primary);
                let _ = std::fs::remove_dir_all(&saved);
                copy(&dir, &saved);
                self.servers.begin_again(primary);
            }
            Event::Restored if saved.exists() => {
                self.servers.end_one(primary);
                std::fs::remove_dir_all(&dir).unwrap();
                copy(&saved, &dir);
                self.servers.begin_again(primary);
                // It may have been a replica then. So may one whose log was damaged.
                self.servers.call(primary, "REPLICAOF NO ONE");
            }
            Event::Restored => {}
            Event::Repaired => {
                self.repair(primary);
                self.servers.begin_again(primary);
                self.servers.call(primary, "REPLICAOF NO ONE");
            }
            Event::ReplicaRepaired => {
                let replica = self.other();
                self.repair(replica);
                if self.random.bool() {
                    // It finds nobody until it is told of another address.
                    self.servers.restart(primary);
                }
                self.servers.begin_again(replica);
            }
        }
    }

    fn assert_all_equal(&mut self) {
        for replica in 0..self.servers.all.len() {
            if replica != self.primary {
                self.servers.follow(replica, self.primary);
            }
        }
        for replica in 0..self.servers.all.len() {
            if replica != self.primary {
                self.servers.assert_equal(self.primary, replica);
            }
        }
    }
}

#[test]
fn replicas_end_equal_whatever_happens_to_their_primary() {
    let number = |name, default| std::env::var(name).map_or(default, |it| it.parse().unwrap());
    let seed = number("HEDGEROW_SEED", SEED);
    println!("seed {seed}");
    let mut group = Group {
        servers: Servers::begin(3),
        primary: 0,
        random: fastrand::Rng::with_seed(seed),
        values: 0,
    };
    for _ in 0..number("HEDGEROW_HISTORIES", 40) {
        let event = EVENTS[group.random.usize(..EVENTS.len())];
        println!("{event:?} at {}", group.primary);
        group.write();
        group.run(event);
        group.write();
        // Also while replicas are behind.
        if group.random.u8(..4) > 0 {
            group.assert_all_equal();
        }
    }
    group.assert_all_equal();
    group.servers.end();
}
