//! A database of each release, checked in: it stays readable. `HEDGEROW_BLESS=1` writes that of the
//! release in the making.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hedgerow::ErrorKind;
use hedgerow_io::sim::SimStorage;
use hedgerow_io::{Environment, OsStorage, ReadMode, Storage};

use super::*;
use crate::commands::config::Fsync;
use crate::server::Server;
use crate::testing::{DIR, on_one_thread, run, server_on};

/// The releases, the last one of which is in the making.
const RELEASES: [&str; 1] = ["testdata/format/0.1"];
/// The parts of a database's directory.
const PARTS: [&str; 4] = ["", "log", "tables", "filters"];
/// Beside the database: the replies to [`READS`].
const REPLIES: &str = "/replies.txt";

/// Writes an entry of each kind.
const WRITES: &[&str] = &[
    "SET string value",
    "SET empty %",
    "SET expires later PXAT 4102444800000",
    "SETBIT bits 1000 1",
    "PFADD unique a b c",
    "HSET hash one 1 two 2",
    "HSET dated one 1 two 2",
    "HPEXPIREAT dated 4102444800000 FIELDS 1 two",
    "SADD set a b c",
    "ZADD sorted 1 one -inf least 2.5 more",
    "GEOADD places 13.361389 38.115556 Palermo",
    "RPUSH list b c d",
    "LPUSH list a",
    "LREM list 1 c",
    "XADD stream 1-1 field value",
    "XADD stream 2-1 field other",
    "XGROUP CREATE stream group 0",
    "XGROUP CREATECONSUMER stream group idle",
    "XREADGROUP GROUP group reader COUNT 1 STREAMS stream >",
    "SADD gone a b",
    "DEL gone",
    "SET former name",
    "RENAME former renamed",
];

const READS: &[&str] = &[
    "DBSIZE",
    "KEYS *",
    "GET string",
    "GET empty",
    "GET expires",
    "PEXPIRETIME expires",
    "BITPOS bits 1",
    "PFCOUNT unique",
    "HGETALL hash",
    "HGETALL dated",
    "HPEXPIRETIME dated FIELDS 2 one two",
    "SMEMBERS set",
    "ZRANGE sorted 0 -1 WITHSCORES",
    "GEOPOS places Palermo",
    "LRANGE list 0 -1",
    "LINDEX list -1",
    "XRANGE stream - +",
    "XPENDING stream group",
    "XINFO GROUPS stream",
    "GET former",
    "GET renamed",
];

/// The replies to commands, each behind its command. `%` is an empty argument.
async fn replies(server: &Server, commands: &[&str]) -> String {
    let mut all = String::new();
    for command in commands {
        let words = command.split(' ').map(|it| it.trim_matches('%').as_bytes());
        let name = command.split(' ').next().unwrap().to_lowercase();
        let args: Vec<&[u8]> = std::iter::once(name.as_bytes())
            .chain(words.skip(1))
            .collect();
        let reply = run(server, &args).await;
        assert!(!reply.starts_with('-'), "{command}: {reply}");
        all += &format!("{command}\n{}\n", reply.replace("\r\n", "\n"));
    }
    all
}

fn served(disk: &SimStorage) -> Result<Server> {
    server_on(Environment::simulated(disk, 1), Fsync::Never)
}

/// A closed database, as today's server writes it, and the replies.
fn written_today() -> BTreeMap<String, Vec<u8>> {
    let disk = SimStorage::new(0);
    let on_disk = disk.clone();
    let replies = on_one_thread(async move {
        let server = served(&on_disk).unwrap();
        replies(&server, WRITES).await;
        server.db().flush().unwrap();
        // The log has these, and tables the others.
        replies(&server, &["SET string value", "RPUSH list e", "SADD set d"]).await;
        let all = replies(&server, READS).await;
        server.db().close().unwrap();
        all
    });
    let mut files = read_files(&disk, DIR.as_ref());
    files.insert(REPLIES.to_owned(), replies.into_bytes());
    files
}

/// The files of a database's directory but the lock, by their path in it.
fn read_files(storage: &dyn Storage, dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for part in PARTS {
        let files = storage.list(&dir.join(part)).unwrap_or_default();
        for file in files.iter().filter(|file| file.name != "LOCK") {
            let path = dir.join(part).join(&file.name);
            let mut bytes = vec![0; file.bytes as usize];
            let reader = storage.open(&path, ReadMode::Pread).unwrap();
            reader.read_at(0, &mut bytes).unwrap();
            found.insert(format!("{part}/{}", file.name), bytes);
        }
    }
    found
}

fn golden_dir(release: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(release)
}

fn bless(dir: &Path) {
    let storage = OsStorage::new();
    let path = |name: &str| dir.join(name.trim_start_matches('/'));
    for old in read_files(&storage, dir).keys() {
        storage.remove(&path(old)).unwrap();
    }
    for (name, bytes) in written_today() {
        storage
            .create_dir_all(path(&name).parent().unwrap())
            .unwrap();
        let mut file = storage.create(&path(&name)).unwrap();
        file.write(&bytes).unwrap();
        file.sync().unwrap();
    }
}

/// A disk with the database of a release, and the replies.
fn golden(release: &str) -> (SimStorage, String) {
    let mut files = read_files(&OsStorage::new(), &golden_dir(release));
    let replies = files.remove(REPLIES).unwrap();
    let disk = SimStorage::new(1);
    for (name, bytes) in files {
        let path = Path::new(DIR).join(name.trim_start_matches('/'));
        disk.set_contents(path, &bytes).unwrap();
    }
    (disk, String::from_utf8(replies).unwrap())
}

#[test]
fn databases_of_every_release_are_served() {
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        bless(&golden_dir(RELEASES[RELEASES.len() - 1]));
    }
    for release in RELEASES {
        let (disk, expected) = golden(release);
        on_one_thread(async move {
            for _ in 0..2 {
                let server = served(&disk).unwrap();
                assert_eq!(replies(&server, READS).await, expected, "{release}");
                // Merged, and opened once more.
                for name in server.db().keyspaces() {
                    let keyspace = server.db().existing_keyspace(&name).unwrap();
                    keyspace.compact::<&[u8]>(..).unwrap();
                }
                assert_eq!(replies(&server, READS).await, expected, "{release}");
                server.db().close().unwrap();
            }
            let server = served(&disk).unwrap();
            let more = ["RPUSH list z", "SADD set z", "ZADD sorted 9 z", "SET new v"];
            replies(&server, &more).await;
            let sizes = replies(
                &server,
                &["DBSIZE", "LLEN list", "SCARD set", "ZCARD sorted"],
            )
            .await;
            assert_eq!(
                sizes,
                "DBSIZE\n:14\n\nLLEN list\n:5\n\nSCARD set\n:5\n\nZCARD sorted\n:4\n\n"
            );
        });
    }
}

/// It knows the version of its own. Databases of before there were any get it.
#[test]
fn a_later_version_is_refused() {
    let disk = SimStorage::new(2);
    on_one_thread(async move {
        for (stored, then) in [(None, Some(1)), (Some(1), Some(1)), (Some(2), None)] {
            let server = served(&disk).unwrap();
            let kept = server.databases().server.clone();
            match stored {
                None => kept.delete(KEY).unwrap(),
                Some(version) => kept.put(KEY, u64::to_be_bytes(version)).unwrap(),
            }
            server.db().close().unwrap();
            match (served(&disk), then) {
                (Ok(server), Some(version)) => {
                    let kept = server.databases().server.get(KEY).unwrap().unwrap();
                    assert_eq!(number(&kept).unwrap(), version);
                    server.db().close().unwrap();
                }
                (Err(error), None) => {
                    assert_eq!(error.kind(), ErrorKind::FormatVersion);
                    let text = error.to_string();
                    assert!(
                        text.contains("version 1 or an older one, found version 2"),
                        "{text}"
                    );
                }
                (found, _) => panic!("{stored:?}: {:?}", found.map(drop)),
            }
        }
    });
}
