//! The tables of the parameters that CONFIG knows and that nothing depends on, or that cannot be
//! changed. `docs/server-parameters.md` is made from them.

/// The parameters that change nothing here, with the values that clients expect.
pub(super) const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("active-expire-effort", "1"),
    ("activedefrag", "no"),
    ("appendfilename", "appendonly.aof"),
    ("auto-aof-rewrite-percentage", "100"),
    ("busy-reply-threshold", "5000"),
    ("close-on-oom", "no"),
    ("dbfilename", "dump.rdb"),
    ("hash-max-listpack-entries", "128"),
    ("hash-max-listpack-value", "64"),
    ("hash-max-ziplist-entries", "128"),
    ("hash-max-ziplist-value", "64"),
    ("hll-sparse-max-bytes", "3000"),
    ("hz", "10"),
    ("latency-tracking", "yes"),
    ("lazyfree-lazy-user-del", "yes"),
    ("list-compress-depth", "0"),
    ("list-max-listpack-size", "-2"),
    ("list-max-ziplist-size", "-2"),
    ("loglevel", "notice"),
    ("lua-time-limit", "5000"),
    ("maxmemory-samples", "5"),
    ("rdbcompression", "yes"),
    ("sanitize-dump-payload", "no"),
    ("set-max-intset-entries", "512"),
    ("set-max-listpack-entries", "128"),
    ("stream-node-max-bytes", "4096"),
    ("stream-node-max-entries", "100"),
    ("zset-max-listpack-entries", "128"),
    ("zset-max-listpack-value", "64"),
    ("zset-max-ziplist-entries", "128"),
    ("zset-max-ziplist-value", "64"),
];

const LOGGED: &str = "every write is in the log before its reply";
const NOTHING_EVICTED: &str = "nothing is removed to make room";
/// The reason for the bounds of what clients have sent and not read.
pub(super) const SHARED: &str = "all clients share a quarter of the memory budget, 64 MiB at least";

/// The parameters that say how the server is, with the only value and the reason.
pub(super) const ONLY: &[(&str, &str, &str)] = &[
    ("appendonly", "yes", LOGGED),
    // Messages that wait for a client have this bound, whatever else it does.
    (
        "client-output-buffer-limit",
        "normal 0 0 0 slave 0 0 0 pubsub 33554432 0 0",
        SHARED,
    ),
    ("maxmemory", "0", NOTHING_EVICTED),
    ("maxmemory-policy", "noeviction", NOTHING_EVICTED),
    (
        "protected-mode",
        "yes",
        "other addresses than the loopback need a password",
    ),
    ("save", "", LOGGED),
    ("stop-writes-on-bgsave-error", "no", LOGGED),
];

/// The parameters that are read and cannot be set, with the first value if there is always one, and
/// what they tell.
pub(super) const FIXED: &[(&str, Option<&str>, &str)] = &[
    (
        "appenddirname",
        Some("appendonlydir"),
        "Nothing: the log is in the directory.",
    ),
    ("bind", None, "The address of the server (`--bind`)."),
    (
        "cluster-enabled",
        Some("no"),
        "`yes` if there is a map of slots (`--cluster-map`).",
    ),
    ("databases", Some("16"), "The number of databases."),
    ("dir", None, "The directory of the database (`--db`)."),
    (
        "io-threads",
        Some("1"),
        "Nothing: `--threads` says how many threads run commands.",
    ),
    ("port", None, "The port (`--port`)."),
    ("replicaof", Some(""), "The primary, which REPLICAOF sets."),
    (
        "slaveof",
        Some(""),
        "The primary; the old name of `replicaof`.",
    ),
    (
        "tls-auth-clients",
        None,
        "The clients that need certificates (`--tls-auth-clients`).",
    ),
    (
        "tls-ca-cert-file",
        None,
        "The certificates of authorities (`--tls-ca-cert-file`).",
    ),
    (
        "tls-cert-file",
        None,
        "The certificate (`--tls-cert-file`).",
    ),
    ("tls-key-file", None, "The private key (`--tls-key-file`)."),
    ("tls-port", None, "The port for TLS (`--tls-port`)."),
];
