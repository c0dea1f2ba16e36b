//! For tests: servers over simulated disks, without sockets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow::{Builder, Db};
use hedgerow_io::sim::SimStorage;
use hedgerow_io::{Background, Environment, OsClock, OsSpawn};

use crate::acl::Acl;
use crate::commands::config::{Config, Fsync};
use crate::commands::find;
use crate::execute::{Call, Caller};
use crate::server::Server;

pub(crate) const DIR: &str = "/db";
const MEMORY: u64 = 1 << 20;

/// Its disk stops where it is told to, below threads and a clock that continue.
pub(crate) fn threaded(disk: &SimStorage) -> Environment {
    Environment {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(OsClock::new()),
        spawn: Arc::new(OsSpawn),
        background: Background::Threads(2),
    }
}

pub(crate) fn builder(environment: Environment) -> Builder {
    let builder = Db::builder(Path::new(DIR)).environment(environment);
    builder.memory_budget(MEMORY).log_segment_bytes(16 << 10)
}

/// # Errors
/// As `Builder::open` and `Server::new`.
pub(crate) fn server_on(environment: Environment, fsync: Fsync) -> hedgerow::Result<Server> {
    let builder = builder(environment);
    let db = builder.clone().open()?;
    let settings = (Config::new(fsync, "", 10), Acl::open("", None).unwrap());
    Server::new(&db, (PathBuf::from(DIR), builder), (0, MEMORY), settings)
}

/// The reply to a command of data, as the bytes of RESP2.
pub(crate) async fn run(server: &Server, args: &[&[u8]]) -> String {
    let command = find(args[0]).unwrap();
    let call = Call { command, args };
    let outcome = server.run(Caller::default(), &[call]).await;
    let mut bytes = Vec::new();
    outcome.replies[0].write(&mut bytes, false);
    String::from_utf8(bytes).unwrap()
}

/// Runs it on the one thread of a runtime.
pub(crate) fn on_one_thread<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let done = runtime.spawn(work);
    runtime.block_on(done).unwrap()
}
