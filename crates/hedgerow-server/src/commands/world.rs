//! A database for the tests of commands, with a clock of its own.

use hedgerow::Db;

use super::{Run, find};
use crate::resp::Reply;
use crate::store::{Databases, Effects, Found, Mode, Stop, Txn};

pub(super) struct World {
    pub(super) databases: Databases,
    pub(super) db: Db,
    pub(super) now: u64,
    _dir: tempfile::TempDir,
}

impl World {
    pub(super) fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let databases = Databases::open(&db, Found::Whole).unwrap();
        databases.create(0).unwrap();
        World {
            databases,
            db,
            now: 1_000_000,
            _dir: dir,
        }
    }

    pub(super) fn txn(&self) -> Txn<'_> {
        Txn::new(&self.databases, Mode::Device, self.now).unwrap()
    }

    pub(super) fn run(&self, words: &str) -> String {
        self.run_with_effects(words).0
    }

    pub(super) fn run_with_effects(&self, words: &str) -> (String, Effects) {
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let Run::Data(run) = find(args[0]).unwrap().run else {
            panic!("expected a command of data, found {words}");
        };
        let mut txn = self.txn();
        let reply = match run(&mut txn, &args) {
            Ok(reply) => reply,
            Err(Stop::Reply(text)) => return (text, Effects::default()),
            Err(stop) => panic!("{words}: {stop:?}"),
        };
        let effects = txn.commit().unwrap();
        (text_of(&reply), effects)
    }

    /// Runs commands as a connection runs those of a pipeline: as one commit.
    pub(super) fn run_together(&self, calls: &[String]) -> Vec<String> {
        let mut txn = self.txn();
        let mut replies = Vec::new();
        for words in calls {
            let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            let Run::Data(run) = find(args[0]).unwrap().run else {
                panic!("expected a command of data, found {words}");
            };
            txn.begin();
            replies.push(match run(&mut txn, &args) {
                Ok(reply) => text_of(&reply),
                Err(Stop::Reply(text)) => {
                    txn.undo().unwrap();
                    text
                }
                Err(stop) => panic!("{words}: {stop:?}"),
            });
        }
        txn.commit().unwrap();
        replies
    }
}

fn text_of(reply: &Reply) -> String {
    let mut bytes = Vec::new();
    reply.write(&mut bytes, false);
    let text = String::from_utf8(bytes).unwrap();
    let lines = text
        .lines()
        .filter(|it| !it.starts_with(['$', '*']) || it.contains("-1"));
    let lines = lines.map(|it| it.replace("$-1", "nil").replace(':', ""));
    lines.collect::<Vec<_>>().join(" ")
}
