//! A server is killed under clients, and has everything that it acknowledged. The server is the
//! example `serve`, which cargo builds with the tests.
//!
//! `HEDGEROW_SERVER_KILLS` is the number of kills, 4 by default, each after some thousand calls.
//! `HEDGEROW_SERVER_KILL_SECONDS` is a time in place of it; then a kill comes every few seconds.

pub(crate) mod model;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Client, Value};
use crate::replicas::until;
use model::{Model, calls};

const CLIENTS: usize = 4;

pub(crate) struct Served {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Served {
    pub(crate) fn begin(dir: &Path) -> Served {
        Served::with_budget(dir, hedgerow_server::Options::new(dir).memory_budget)
    }

    pub(crate) fn with_budget(dir: &Path, bytes: u64) -> Served {
        let test = std::env::current_exe().unwrap();
        let built = test.parent().and_then(Path::parent).unwrap();
        let mut process = Command::new(built.join("examples/serve"))
            .arg(dir)
            .args(["0".to_owned(), bytes.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = process.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("ready on ");
        let address = address.unwrap_or_else(|| panic!("expected an address, found `{line}`"));
        Served {
            process,
            address: address.parse().unwrap(),
        }
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Stops the process, until it continues.
    pub(crate) fn stop(&self) {
        self.signal("STOP");
        // The threads stop one after the other.
        until("a process that stands still", || {
            let mut states = self.states();
            states.all(|it| it == Some('T'))
        });
    }

    /// The state of each thread; `None` for one that has just ended.
    pub(crate) fn states(&self) -> impl Iterator<Item = Option<char>> {
        let threads = std::fs::read_dir(self.file("task")).unwrap();
        threads.map(|thread| {
            let status = std::fs::read_to_string(thread.unwrap().path().join("stat")).ok()?;
            // The name of the program stands in parentheses before the state.
            status.rsplit_once(") ")?.1.chars().next()
        })
    }

    /// The most memory that the process has had since [`Served::forget_peak`].
    #[cfg(target_os = "linux")]
    pub(crate) fn peak_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(self.file("status")).unwrap();
        let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|it| it.trim().strip_suffix(" kB")).unwrap();
        kib.parse::<u64>().unwrap() << 10
    }

    #[cfg(target_os = "linux")]
    #[allow(clippy::disallowed_methods, reason = "a file of the system")]
    pub(crate) fn forget_peak(&self) {
        std::fs::write(self.file("clear_refs"), "5").unwrap();
    }

    /// A file about the process.
    fn file(&self, name: &str) -> PathBuf {
        Path::new("/proc")
            .join(self.process.id().to_string())
            .join(name)
    }

    pub(crate) fn go_on(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.process.id());
        let status = Command::new("sh").args(["-c", &kill]).status();
        assert!(status.unwrap().success(), "{kill}");
    }
}

/// A failed test leaves no process.
impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The moment of a kill.
enum Until {
    Acknowledged(u64),
    Passed(Duration),
}

/// The end of the kills.
enum Limit {
    Kills(u64),
    Time(Duration),
}

impl Limit {
    fn of_environment() -> Limit {
        let number = |name| std::env::var(name).ok().map(|it| it.parse().unwrap());
        match number("HEDGEROW_SERVER_KILL_SECONDS") {
            Some(seconds) => Limit::Time(Duration::from_secs(seconds)),
            None => Limit::Kills(number("HEDGEROW_SERVER_KILLS").unwrap_or(4)),
        }
    }

    fn allows(&self, kills: u64, passed: Duration) -> bool {
        match self {
            Limit::Kills(most) => kills < *most,
            Limit::Time(most) => passed < *most,
        }
    }

    fn next(&self, random: &mut fastrand::Rng) -> Until {
        match self {
            Limit::Kills(_) => Until::Acknowledged(random.u64(200..8_200)),
            Limit::Time(_) => Until::Passed(Duration::from_millis(random.u64(500..4_000))),
        }
    }
}

/// Calls until the server is gone. Returns the number of acknowledged units.
fn work(address: SocketAddr, client: usize, done: u64, acknowledged: &AtomicU64) -> u64 {
    let mut connection = Client::connect(address);
    for at in done.. {
        for words in calls(client, at) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            match connection.try_call_words(&words) {
                Some(Value::Error(text)) => panic!("{words:?}: {text}"),
                Some(_) => {}
                None => return at,
            }
        }
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    unreachable!("the server is killed")
}

/// Lets clients work until a moment, and kills the server. Returns what each client has reached.
#[allow(
    clippy::disallowed_methods,
    reason = "the moment of a kill may be a time"
)]
fn work_and_kill(served: Served, done: &[u64; CLIENTS], until: &Until) -> Vec<u64> {
    let (address, acknowledged) = (served.address, AtomicU64::new(0));
    std::thread::scope(|scope| {
        let acknowledged = &acknowledged;
        let clients = done.iter().enumerate().map(|(client, done)| {
            let done = *done;
            scope.spawn(move || work(address, client, done, acknowledged))
        });
        let clients: Vec<_> = clients.collect();
        let all = || acknowledged.load(Ordering::Relaxed);
        match until {
            Until::Acknowledged(count) => {
                while all() < *count {
                    std::thread::yield_now();
                }
            }
            Until::Passed(time) => std::thread::sleep(*time),
        }
        served.kill();
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

#[test]
#[allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "kills come at moments, and their number is told"
)]
fn what_was_acknowledged_survives_a_kill() {
    let (limit, began) = (Limit::of_environment(), Instant::now());
    let dir = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    let mut done = [0; CLIENTS];
    let mut models: [Model; CLIENTS] = Default::default();
    let mut kills = 0;
    while limit.allows(kills, began.elapsed()) {
        let served = Served::begin(dir.path());
        let reached = work_and_kill(served, &done, &limit.next(&mut random));
        kills += 1;
        let served = Served::begin(dir.path());
        let mut connection = Client::connect(served.address);
        for (client, reached) in reached.into_iter().enumerate() {
            let model = &mut models[client];
            (done[client]..reached).for_each(|at| model.apply(at));
            let found = Model::found(&mut connection, client);
            // The unit without a reply may have had its effect.
            done[client] = reached;
            if found != *model {
                model.apply(reached);
                done[client] += 1;
            }
            assert_eq!(
                found, *model,
                "client {client}, kill {kills}, after {reached} units"
            );
        }
        let keys: usize = models.iter().map(Model::keys).sum();
        // Soon the server removes all that has expired.
        let is_right = |_| connection.call("DBSIZE") == Value::Integer(keys as i64);
        assert!((0..100_000).any(is_right), "expected {keys} keys");
        served.kill();
    }
    let acknowledged: u64 = done.iter().sum();
    println!("{kills} kills, {acknowledged} acknowledged units of calls");
}
