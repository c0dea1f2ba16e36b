//! `hedgerow changes`: the commits of a database as JSON lines, also beside the process that has it
//! open.

use std::io::{self, Write};
use std::time::Duration;

use clap::ArgGroup;
use hedgerow::{Builder, Commit, CommitChange, Expiry, LoadOp};
use serde_json::{Value, json};

use crate::database::DatabaseArguments;
use crate::encoding::{self, Encoding, EncodingArguments};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;

const EXAMPLE: &str = "\
Example:
  hedgerow slot create --db people index
  hedgerow changes --db people --slot index
  hedgerow changes --db people --since 81234 --follow

Each line is a change. The last change of a commit has `\"ends\": true`; resume behind its `commit`.
The changes of a bulk load are its entries. Times are milliseconds since 1970.";

/// The time of a look for more, after which Ctrl-C is noticed.
const PATIENCE: Duration = Duration::from_millis(200);

/// Prints the commits of a database in their order, as JSON lines.
///
/// The database keeps them for a slot, which `slot create` makes. Another process may have it open.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "hedgerow changes [OPTIONS] --db <DIR> <--since <NUMBER>|--slot <NAME>>"
)]
#[command(group = ArgGroup::new("begin").required(true).args(["since", "slot"]))]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", encoding::HELP))]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,

    #[command(flatten)]
    encoding: EncodingArguments,

    /// Begins behind the commit with this number.
    #[arg(long, value_name = "NUMBER")]
    since: Option<u64>,

    /// Begins at the position of this slot.
    #[arg(long, value_name = "NAME")]
    slot: Option<String>,

    /// Waits for more, until Ctrl-C.
    #[arg(long)]
    follow: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let builder = arguments.database.existing()?;
    let since = match (&arguments.slot, arguments.since) {
        (Some(name), _) => builder.slot(name).map_err(Failure::of_search)?.position,
        (None, since) => {
            check_kept(&builder)?;
            since.unwrap_or(0)
        }
    };
    let mut changes = builder.changes_since(since)?;
    if arguments.since.is_some() && !changes.wait(Duration::ZERO)? {
        check_since(since, &arguments.database)?;
    }
    let encoding = arguments.encoding.choice();
    let mut out = io::stdout().lock();
    loop {
        for commit in changes.by_ref().take_while(|_| !interrupt.came()) {
            print(&commit?, encoding, &mut out)?;
        }
        out.flush().map_err(|e| Failure::output(&e))?;
        let mut has_more = false;
        while arguments.follow && !has_more && !interrupt.came() {
            has_more = changes.wait(PATIENCE)?;
        }
        if !has_more {
            break;
        }
    }
    match arguments.follow {
        true => Ok(()),
        false => interrupt.check(),
    }
}

/// Fails if the database keeps no changes.
fn check_kept(builder: &Builder) -> Result<(), Failure> {
    if !builder.slots()?.is_empty() {
        return Ok(());
    }
    let message = "expected a database with a slot, found none: it keeps its changes from `hedgerow slot \
                   create` on";
    Err(Failure::new(Exit::Failure, message))
}

/// Fails if a number is behind the last commit, which it never is if it was taken from one.
fn check_since(since: u64, database: &DatabaseArguments) -> Result<(), Failure> {
    let last = database.open_to_read()?.snapshot()?.number();
    if since <= last {
        return Ok(());
    }
    let message = format!("expected `--since` of at most {last}, the last commit, found {since}");
    Err(Failure::new(Exit::Usage, message))
}

fn print(commit: &Commit, encoding: Encoding, out: &mut impl Write) -> Result<(), Failure> {
    let number = commit.number;
    let mut print = |mut line: Value, ends: bool| {
        line["commit"] = json!(number);
        if ends {
            line["ends"] = json!(true);
        }
        writeln!(out, "{line}").map_err(|e| Failure::output(&e))
    };
    for (i, change) in commit.changes.iter().enumerate() {
        let is_last = i + 1 == commit.changes.len();
        let CommitChange::Load { keyspace, tables } = change else {
            print(object(change, encoding), is_last)?;
            continue;
        };
        let mut left = tables.entries();
        for entry in tables.read()? {
            let (key, op) = entry?;
            left = left.saturating_sub(1);
            let keyspace = keyspace.clone();
            let change = match op {
                LoadOp::Put(value) => put(keyspace, key, value, Expiry::Never),
                LoadOp::PutExpiring(value, expiry) => put(keyspace, key, value, expiry),
                LoadOp::Merge(operand) => CommitChange::Merge {
                    keyspace,
                    key,
                    operand,
                },
                _ => CommitChange::Delete { keyspace, key },
            };
            print(object(&change, encoding), is_last && left == 0)?;
        }
    }
    Ok(())
}

fn put(keyspace: String, key: Vec<u8>, value: Vec<u8>, expiry: Expiry) -> CommitChange {
    CommitChange::Put {
        keyspace,
        key,
        value,
        expiry,
    }
}

fn object(change: &CommitChange, encoding: Encoding) -> Value {
    match change {
        CommitChange::Create { keyspace, layout } => json!({
            "op": "create",
            "keyspace": keyspace,
            "order": layout.order.to_string(),
            "partitions": layout.partitioning.to_string(),
            "merge_operator": layout.merge_operator.as_deref(),
        }),
        CommitChange::SetMergeOperator { keyspace, name } => {
            json!({ "op": "set-merge-operator", "keyspace": keyspace, "name": name })
        }
        CommitChange::SetTimeToLive {
            keyspace,
            time_to_live,
        } => json!({
            "op": "set-time-to-live",
            "keyspace": keyspace,
            "milliseconds": time_to_live.map(|it| it.as_millis() as u64),
        }),
        CommitChange::Rename { keyspace, to } => {
            json!({ "op": "rename", "keyspace": keyspace, "to": to })
        }
        CommitChange::Clear { keyspace } => json!({ "op": "clear", "keyspace": keyspace }),
        CommitChange::Drop { keyspace } => json!({ "op": "drop", "keyspace": keyspace }),
        other => write_object(other, encoding),
    }
}

/// A change of keys.
fn write_object(change: &CommitChange, encoding: Encoding) -> Value {
    let show = |bytes: &[u8]| encoding.encode_json(bytes);
    match change {
        CommitChange::Put {
            keyspace,
            key,
            value,
            expiry,
        } => {
            let (key, value) = (show(key), show(value));
            let mut put = json!({ "op": "put", "keyspace": keyspace, "key": key, "value": value });
            if let Some(ms) = expiry.unix_millis() {
                put["expires"] = json!(ms);
            }
            put
        }
        CommitChange::Merge {
            keyspace,
            key,
            operand,
        } => json!({
            "op": "merge",
            "keyspace": keyspace,
            "key": show(key),
            "operand": show(operand),
        }),
        CommitChange::Delete { keyspace, key } => {
            json!({ "op": "delete", "keyspace": keyspace, "key": show(key) })
        }
        CommitChange::DeleteRange { keyspace, from, to } => json!({
            "op": "delete-range",
            "keyspace": keyspace,
            "from": show(from),
            "to": to.as_deref().map(show),
        }),
        CommitChange::DeletePrefix { keyspace, prefix } => {
            json!({ "op": "delete-prefix", "keyspace": keyspace, "prefix": show(prefix) })
        }
        other => json!({ "op": "unknown", "text": format!("{other:?}") }),
    }
}
