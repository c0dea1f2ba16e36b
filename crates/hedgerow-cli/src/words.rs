//! The words of the command line for what the engine's errors call by the names of its Rust calls.

/// Words of the engine, and those for somebody who types. The words around a name keep a key or a
/// keyspace of that name from being taken for it.
const WORDS: [(&str, &str); 18] = [
    ("`memory_budget` of", "`--memory-budget` of"),
    ("path in `level_paths`", "path in `--level-paths`"),
    ("expected `workers` of", "expected `--workers` of"),
    ("expected `worker_queue` of", "expected `--worker-queue` of"),
    (
        "expected `memtable_bytes` of",
        "expected `--memtable-size` of",
    ),
    ("expected `table_bytes` of", "expected `--table-size` of"),
    (
        "expected `block_bytes` of a bucket of",
        "expected buckets (`--table htable:BYTES`) of",
    ),
    (
        "expected `block_bytes` of",
        "expected blocks (`--table block:BYTES`) of",
    ),
    (
        "expected `fingerprint_bits` of",
        "expected fingerprints (`--filter cuckoo:BITS` or `mlcf:BITS`) of",
    ),
    (
        "use `scan_prefix` or `scan_unordered`",
        "use `--prefix`, or leave out the range",
    ),
    ("use `scan_unordered`", "leave out the range"),
    ("use `delete_prefix` for", "use `--prefix` for"),
    ("`clear` for all keys", "`hedgerow clear` for all keys"),
    (
        "give it to `Builder::merge_operator`",
        "only programs that bring it can change its keyspaces",
    ),
    ("name one in its layout", "name one with `--merge-operator`"),
    ("cannot open in ", "cannot open "),
    (
        "a table of `TableWriter` or `export`",
        "a table of `hedgerow export`",
    ),
    (
        "begins with `REDIS` or `VALKEY` and a version",
        "begins with `REDIS` or `VALKEY` and a version (`hedgerow load` reads CSV, TSV and JSON)",
    ),
];

/// The error of the engine in the words of the command line.
pub(crate) fn typed(error: &hedgerow::Error) -> String {
    let said = error.to_string();
    WORDS
        .iter()
        .fold(said, |said, (call, flag)| said.replace(call, flag))
}

/// The same without the kind of the error, for a message that names its place first.
pub(crate) fn without_kind(error: &hedgerow::Error) -> String {
    let said = typed(error);
    let message = said.split_once(": ").map(|(_, message)| message.to_owned());
    message.unwrap_or(said)
}

/// The part of a message that says more of cancelled work than that its caller ended it.
pub(crate) fn beside_ctrl_c(said: &str) -> &str {
    let more = said.strip_prefix("cancelled:").unwrap_or_default();
    match more.ends_with(" was ended by its caller") {
        true => "",
        false => more,
    }
}
