//! CONFIG: what can be set while the server runs, and what clients expect to be there.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};

use super::Args;
use super::arguments::is;
use super::parameters::{FIXED, ONLY, SHARED, WITHOUT_EFFECT};
use crate::client::lock;
use crate::glob;
use crate::replication::{SETTINGS, Settings, name_of, old_name};
use crate::resp::{Limits, Reply, error};
use crate::serve::{ClientCertificates, Tls};
use crate::session::Session;

/// The moment at which a write is durable beyond the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Before its reply.
    Always,
    /// Within about a second.
    EverySecond,
    /// As late as the system writes it.
    Never,
}

impl Fsync {
    fn parse(text: &str) -> Option<Fsync> {
        match text {
            "always" => Some(Fsync::Always),
            "everysec" => Some(Fsync::EverySecond),
            "no" => Some(Fsync::Never),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Fsync::Always => "always",
            Fsync::EverySecond => "everysec",
            Fsync::Never => "no",
        }
    }
}

/// The most that Linux takes.
const KEEPALIVE_SECONDS_MAX: u64 = 32_767;

/// The largest value of the engine.
const ARGUMENT_BYTES_MAX: usize = 64 << 20;

/// The open files beside those of tables and clients: the log, the manifest, what listens.
const OTHER_FILES: u64 = 64;

const NO_INTEGER: &str = "argument couldn't be parsed into an integer";

/// The parameters of a running server.
pub(crate) struct Config {
    texts: Mutex<BTreeMap<String, String>>,
    fsync: AtomicUsize,
    timeout: AtomicU64,
    keepalive: AtomicU64,
    clients_max: AtomicUsize,
    argument_bytes: AtomicUsize,
    query_bytes: AtomicUsize,
    tracked_keys: AtomicUsize,
    pub(crate) slow_micros: std::sync::Arc<std::sync::atomic::AtomicI64>,
    pub(crate) slow_entries: std::sync::Arc<AtomicUsize>,
    pub(crate) sampled_millis: std::sync::Arc<AtomicU64>,
    events: ArcSwap<Vec<u8>>,
    pub(crate) replication: Settings,
}

impl Config {
    pub(crate) fn new(fsync: Fsync, password: &str, clients_max: usize) -> Config {
        let only = ONLY.iter().map(|(name, value, _)| (*name, *value));
        let fixed = FIXED.iter().filter_map(|it| Some((it.0, it.1?)));
        let texts = WITHOUT_EFFECT.iter().copied().chain(only).chain(fixed);
        let texts = texts.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let config = Config {
            texts: Mutex::new(texts.collect()),
            fsync: AtomicUsize::new(0),
            timeout: AtomicU64::new(0),
            keepalive: AtomicU64::new(0),
            clients_max: AtomicUsize::new(0),
            argument_bytes: AtomicUsize::new(0),
            query_bytes: AtomicUsize::new(0),
            tracked_keys: AtomicUsize::new(0),
            slow_micros: Default::default(),
            slow_entries: Default::default(),
            sampled_millis: Default::default(),
            events: ArcSwap::default(),
            replication: Settings::default(),
        };
        for (name, value) in [
            ("acl-pubsub-default", "resetchannels"),
            ("acllog-max-len", "128"),
            ("appendfsync", fsync.name()),
            ("client-query-buffer-limit", "1073741824"),
            ("latency-monitor-threshold", "0"),
            ("notify-keyspace-events", ""),
            ("proto-max-bulk-len", "67108864"),
            ("slowlog-log-slower-than", "10000"),
            ("slowlog-max-len", "128"),
            ("tcp-keepalive", "300"),
            ("timeout", "0"),
            ("tracking-table-max-keys", "1000000"),
        ] {
            // These values are right.
            let _ = config.set(name, value);
        }
        for (name, value) in SETTINGS {
            let _ = config.set(name, value);
        }
        config.clients_max.store(clients_max, Ordering::Relaxed);
        config.tell("maxclients", clients_max.to_string());
        config.tell("requirepass", password.to_owned());
        config
    }

    pub(crate) fn fsync(&self) -> Fsync {
        match self.fsync.load(Ordering::Relaxed) {
            0 => Fsync::Always,
            1 => Fsync::EverySecond,
            _ => Fsync::Never,
        }
    }

    pub(crate) fn timeout(&self) -> u64 {
        self.timeout.load(Ordering::Relaxed)
    }

    /// The silence after which a new client is asked if it is there; 0 for never.
    pub(crate) fn keepalive_seconds(&self) -> u64 {
        self.keepalive.load(Ordering::Relaxed)
    }

    pub(crate) fn clients_max(&self) -> usize {
        self.clients_max.load(Ordering::Relaxed)
    }

    pub(crate) fn query_bytes_max(&self) -> usize {
        self.query_bytes.load(Ordering::Relaxed)
    }

    /// The keys that are remembered for those who track keys; 0 for any number.
    pub(crate) fn tracked_keys_max(&self) -> usize {
        self.tracked_keys.load(Ordering::Relaxed)
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            argument_bytes: self.argument_bytes.load(Ordering::Relaxed),
            arguments: 1 << 20,
        }
    }

    pub(crate) fn events(&self) -> Guard<std::sync::Arc<Vec<u8>>> {
        self.events.load()
    }

    /// Returns true if new users may use all channels.
    pub(crate) fn opens_channels(&self) -> bool {
        let texts = lock(&self.texts);
        texts
            .get("acl-pubsub-default")
            .is_some_and(|it| it == "allchannels")
    }

    /// The entries of ACL LOG.
    pub(crate) fn refusals_max(&self) -> usize {
        let texts = lock(&self.texts);
        let number = texts.get("acllog-max-len").and_then(|it| it.parse().ok());
        number.unwrap_or(0)
    }

    /// Adds a text that clients may read.
    pub(crate) fn tell(&self, name: &str, value: String) {
        lock(&self.texts).insert(name.to_owned(), value);
    }

    /// The user and the password for the primary.
    pub(crate) fn set_primary_login(&self, (user, password): &(String, String)) {
        // Any text is right.
        let _ = self.set("masteruser", user);
        let _ = self.set("masterauth", password);
    }

    /// Tells of the options for TLS.
    pub(crate) fn tell_tls(&self, tls: &Tls, port: u16) {
        let text = |path: &std::path::Path| path.display().to_string();
        let authorities = tls.ca_cert_file.as_deref().map(text);
        let auth_clients = match tls.auth_clients {
            ClientCertificates::Required => "yes",
            ClientCertificates::Optional => "optional",
            ClientCertificates::Ignored => "no",
        };
        self.tell("tls-port", port.to_string());
        self.tell("tls-cert-file", text(&tls.cert_file));
        self.tell("tls-key-file", text(&tls.key_file));
        self.tell("tls-ca-cert-file", authorities.unwrap_or_default());
        self.tell("tls-auth-clients", auth_clients.to_owned());
    }

    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        if let Some(setting) = name_of(name) {
            return self.set_replication(setting, value);
        }
        if let Some(only) = ONLY.iter().find(|it| it.0 == name) {
            return check_only(only, value);
        }
        let number = || {
            let whole = value.parse::<u64>().ok();
            whole.ok_or_else(|| NO_INTEGER.to_owned())
        };
        let mut text = value.to_owned();
        match name {
            "appendfsync" => {
                let one_of = "argument(s) must be one of the following: everysec, always, no";
                let fsync = Fsync::parse(value).ok_or(one_of)?;
                self.fsync.store(fsync as usize, Ordering::Relaxed);
            }
            "acl-pubsub-default" => one_of(value, &["allchannels", "resetchannels"])?,
            "acllog-max-len" => drop(number()?),
            "timeout" => self.timeout.store(number()?, Ordering::Relaxed),
            "tcp-keepalive" => self.set_keepalive(number()?)?,
            "maxclients" => self.set_clients_max(number()?)?,
            "client-query-buffer-limit" => {
                text = set_bytes(&self.query_bytes, value, (i64::MAX as usize, ""))?;
            }
            "maxmemory-clients" => {
                text = lock(&self.texts).get(name).cloned().unwrap_or_default();
                refuse_others(value, &text, SHARED)?;
            }
            "proto-max-bulk-len" => {
                let bound = (ARGUMENT_BYTES_MAX, ": no value is larger");
                text = set_bytes(&self.argument_bytes, value, bound)?;
            }
            "slowlog-log-slower-than" => {
                let micros = value.parse().map_err(|_| NO_INTEGER)?;
                self.slow_micros.store(micros, Ordering::Relaxed);
            }
            "slowlog-max-len" => self
                .slow_entries
                .store(number()? as usize, Ordering::Relaxed),
            "latency-monitor-threshold" => {
                self.sampled_millis.store(number()?, Ordering::Relaxed);
            }
            "tracking-table-max-keys" => self
                .tracked_keys
                .store(number()? as usize, Ordering::Relaxed),
            "notify-keyspace-events" => {
                let classes = event_classes(value)
                    .ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?;
                text = event_text(&classes);
                self.events.store(classes.into());
            }
            _ => self.check_shown(name, value)?,
        }
        self.tell(name, text);
        Ok(())
    }

    /// Checks the value of a parameter that has no effect, or cannot be set.
    fn check_shown(&self, name: &str, value: &str) -> Result<(), String> {
        match lock(&self.texts).get(name) {
            Some(old) if old == value => Ok(()),
            _ if FIXED.iter().any(|it| it.0 == name) => {
                Err("can't set immutable config".to_owned())
            }
            Some(_) => Ok(()),
            None => Err("unknown".to_owned()),
        }
    }

    fn set_clients_max(&self, wanted: u64) -> Result<(), String> {
        let possible = clients_possible();
        match usize::try_from(wanted) {
            Ok(wanted) if wanted <= possible => {
                self.clients_max.store(wanted, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(format!("the limit on open files allows {possible} clients")),
        }
    }

    fn set_keepalive(&self, seconds: u64) -> Result<(), String> {
        if seconds > KEEPALIVE_SECONDS_MAX {
            return Err("argument must be between 0 and 32767 inclusive".to_owned());
        }
        self.keepalive.store(seconds, Ordering::Relaxed);
        Ok(())
    }

    fn set_replication(&self, setting: &str, value: &str) -> Result<(), String> {
        let text = self.replication.set(setting, value, bytes(value))?;
        if let Some(old) = old_name(setting) {
            self.tell(&old, text.clone());
        }
        self.tell(setting, text);
        Ok(())
    }

    pub(super) fn matching(&self, patterns: Args<'_>) -> BTreeMap<String, String> {
        let texts = lock(&self.texts);
        let matches = |name: &str| {
            patterns
                .iter()
                .any(|it| glob::matches(it, name.as_bytes(), true))
        };
        let found = texts.iter().filter(|(name, _)| matches(name));
        found
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

/// The clients that can be connected at once by the process's limit on open files.
pub(crate) fn clients_possible() -> usize {
    let files = hedgerow_io::os::open_files_for_others();
    files.map_or(usize::MAX, |it| {
        it.saturating_sub(OTHER_FILES).max(1) as usize
    })
}

/// Checks the value of a parameter that has one.
fn check_only((name, only, reason): &(&str, &str, &str), value: &str) -> Result<(), String> {
    match *name == "client-output-buffer-limit" && are_limits(value, only) {
        true => Ok(()),
        false => refuse_others(value, only, reason),
    }
}

fn refuse_others(value: &str, only: &str, reason: &str) -> Result<(), String> {
    let number = bytes(value);
    let same = value.eq_ignore_ascii_case(only) || number.is_some() && number == bytes(only);
    let refusal = || format!("it is '{only}', and nothing else is possible: {reason}");
    same.then_some(()).ok_or_else(refusal)
}

/// Returns true if these limits of classes of clients are among those that hold.
fn are_limits(value: &str, only: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let text = text.to_lowercase().replace("replica", "slave");
        text.split_whitespace().map(str::to_owned).collect()
    };
    let (value, only) = (words(value), words(only));
    let (limits, rest) = value.as_chunks::<4>();
    let holds = |limit: &[String; 4]| {
        let mut held = only.as_chunks::<4>().0.iter();
        let held = held.find(|it| it[0] == limit[0]);
        held.is_some_and(|held| (1..4).all(|at| bytes(&held[at]) == bytes(&limit[at])))
    };
    rest.is_empty() && limits.iter().all(holds)
}

/// Sets a number of bytes from 1 MiB on. Returns its text.
fn set_bytes(
    number: &AtomicUsize,
    value: &str,
    (max, reason): (usize, &str),
) -> Result<String, String> {
    let within = bytes(value).filter(|it| (1 << 20..=max).contains(it));
    let refusal = || format!("argument must be between 1048576 and {max} inclusive{reason}");
    let within = within.ok_or_else(refusal)?;
    number.store(within, Ordering::Relaxed);
    Ok(within.to_string())
}

fn one_of(value: &str, words: &[&str]) -> Result<(), String> {
    let expected = || {
        format!(
            "argument(s) must be one of the following: {}",
            words.join(", ")
        )
    };
    words.contains(&value).then_some(()).ok_or_else(expected)
}

/// A number of bytes with a unit, as in a configuration file.
fn bytes(text: &str) -> Option<usize> {
    let text = text.to_lowercase();
    let units = [
        ("gb", 1 << 30),
        ("mb", 1 << 20),
        ("kb", 1 << 10),
        ("g", 1_000_000_000),
        ("m", 1_000_000),
        ("k", 1_000),
        ("b", 1),
    ];
    let unit = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (digits, factor) = unit.unwrap_or((&text, 1));
    digits.parse::<usize>().ok()?.checked_mul(factor)
}

/// The classes of events that a text names; `A` stands for all but `m` and `n`.
fn event_classes(text: &str) -> Option<Vec<u8>> {
    let mut classes = Vec::new();
    for class in text.bytes() {
        match class {
            b'A' => classes.extend_from_slice(b"g$lshzxetd"),
            b'g' | b'$' | b'l' | b's' | b'h' | b'z' | b'x' | b'e' | b't' | b'd' | b'm' | b'n'
            | b'K' | b'E' => classes.push(class),
            _ => return None,
        }
    }
    classes.sort_unstable();
    classes.dedup();
    Some(classes)
}

fn event_text(classes: &[u8]) -> String {
    let all = b"g$lshzxetd".iter().all(|it| classes.contains(it));
    // As in Redis, where `n` is not told beside `A`.
    let order: &[u8] = if all { b"AKEm" } else { b"g$lshzxetdnKEm" };
    let has = |it: &&u8| **it == b'A' || classes.contains(it);
    order.iter().filter(has).map(|it| char::from(*it)).collect()
}

pub(super) fn config(session: &mut Session, args: Args<'_>) -> Reply {
    let server = &session.server;
    match args[1] {
        it if is(it, "GET") && args.len() >= 3 => {
            let found = server.config.matching(&args[2..]).into_iter();
            Reply::Map(
                found
                    .map(|(name, value)| (Reply::bulk(name), Reply::bulk(value)))
                    .collect(),
            )
        }
        it if is(it, "SET") && args.len() >= 4 && args.len().is_multiple_of(2) => {
            set(session, args)
        }
        it if is(it, "RESETSTAT") && args.len() == 2 => {
            server.counters.reset();
            server.errors.store(0, Ordering::Relaxed);
            server.rejected.store(0, Ordering::Relaxed);
            server.lookups.reset();
            lock(&server.error_codes).clear();
            Reply::OK
        }
        it if is(it, "HELP") => {
            Reply::bulks(["CONFIG GET|SET|RESETSTAT. Reads and sets parameters."])
        }
        it => super::refusal("config", it).unwrap_or_else(|| error(super::wrong_subcommand(args))),
    }
}

/// Sets all parameters or none.
fn set(session: &mut Session, args: Args<'_>) -> Reply {
    let config = &session.server.config;
    let before = lock(&config.texts).clone();
    let names = args[2..].iter().step_by(2);
    let names = names.map(|it| String::from_utf8_lossy(it).to_lowercase());
    let names: Vec<String> = names.collect();
    for (at, name) in names.iter().enumerate() {
        let value = String::from_utf8_lossy(args[3 + 2 * at]);
        let result = match names[at + 1..].contains(name) {
            true => Err("duplicate parameter".to_owned()),
            false => config.set(name, &value),
        };
        if let Err(text) = result {
            for name in &names[..=at] {
                if let Some(old) = before.get(name) {
                    // The old value was right.
                    let _ = config.set(name, old);
                }
            }
            return error(match text.as_str() {
                "unknown" => {
                    format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
                }
                text => format!(
                    "ERR CONFIG SET failed (possibly related to argument '{name}') - {text}"
                ),
            });
        }
    }
    let server = &session.server;
    if names.iter().any(|name| name == "requirepass") {
        let password = lock(&config.texts).get("requirepass").cloned();
        server.acl.set_password(&password.unwrap_or_default());
    }
    let keys_max = server.config.tracked_keys_max();
    server.tracking.limit(&server.clients, keys_max);
    Reply::OK
}
