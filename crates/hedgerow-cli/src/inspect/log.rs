//! `hedgerow inspect log`: the records of the log.

use hedgerow::inspect::{LogRecord, Operation, Segment, SegmentEnd, segments};
use serde_json::{Value, json};

use super::{Report, name};
use crate::database::DatabaseArguments;
use crate::encoding::{Encoding, EncodingArguments};
use crate::exit::Failure;
use crate::output::{bytes, count, counted};

const EXAMPLE: &str = "\
Example:
  hedgerow inspect log --db people
  hedgerow inspect log --db people --operations 3";

/// Shows the records of the log or of one of its segments, and the end of each segment.
///
/// Segments before the manifest's log start are no longer needed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,

    #[command(flatten)]
    encoding: EncodingArguments,

    /// Also shows the operations of each record.
    #[arg(long)]
    operations: bool,

    /// The number of a segment [default: all segments].
    segment: Option<u32>,
}

pub(super) fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<(), Failure> {
    arguments.database.existing().map(drop)?;
    let dir = &arguments.database.db;
    let numbers = match arguments.segment {
        Some(number) => vec![number],
        None => segments(&report.storage, dir)?,
    };
    for number in numbers {
        match Segment::open(&report.storage, dir, number) {
            Ok(segment) => print(segment, arguments, report),
            Err(error) if arguments.segment.is_some() => return Err(Failure::of_file(error)),
            Err(error) => report.damage(&error),
        }
    }
    Ok(())
}

fn print(mut segment: Segment, arguments: &Arguments, report: &mut Report<'_>) {
    let number = segment.number();
    let first = segment.first_seqno().map(|first| first.0);
    report.tell(
        &match first {
            Some(first) => format!("segment {number}, from sequence number {}", count(first)),
            None => format!("segment {number}"),
        },
        &json!({ "segment": number, "first_sequence_number": first }),
    );
    while !report.is_unread()
        && let Some(record) = segment.next()
    {
        match record {
            Ok(record) => print_record(number, &record, arguments, report),
            Err(error) => report.damage(&error),
        }
    }
    let offset = segment.reached().offset;
    match segment.end() {
        Ok(end) => report.tell(
            &format!("  {}", end_text(end, u64::from(offset))),
            &json!({ "segment": number, "end": name(end), "offset": offset }),
        ),
        Err(error) => report.damage(&error),
    }
}

fn print_record(number: u32, record: &LogRecord, arguments: &Arguments, report: &mut Report<'_>) {
    let encoding = arguments.encoding.choice();
    let mut text = format!(
        "  offset {:>10}  {:>10}  {}",
        count(record.offset),
        bytes(record.bytes),
        match record.operations.len() as u64 {
            0 => "seal".to_owned(),
            n => format!(
                "{} from {}",
                counted(n, "operation"),
                count(record.first_seqno.0)
            ),
        }
    );
    let mut object = json!({
        "segment": number,
        "offset": record.offset,
        "bytes": record.bytes,
        "first_sequence_number": record.first_seqno.0,
        "known_durable": record.known_durable.map(|durable| json!({
            "segment": durable.segment,
            "offset": durable.offset,
        })),
        "operations": record.operations.len(),
    });
    if arguments.operations {
        for op in &record.operations {
            text += &format!("\n    {}", operation_text(op, encoding));
        }
        let operations = record
            .operations
            .iter()
            .map(|op| operation_object(op, encoding));
        object["operations"] = operations.collect();
    }
    report.tell(&text, &object);
}

fn operation_text(op: &Operation, encoding: Encoding) -> String {
    format!(
        "{} `{}` in partition {}, {}",
        name(op.kind),
        encoding.encode(&op.key),
        op.partition.0,
        bytes(op.value.len() as u64)
    )
}

fn operation_object(op: &Operation, encoding: Encoding) -> Value {
    json!({
        "kind": name(op.kind),
        "partition": op.partition.0,
        "key": encoding.encode_json(&op.key),
        "value": encoding.encode_json(&op.value),
    })
}

fn end_text(end: SegmentEnd, offset: u64) -> String {
    let offset = count(offset);
    match end {
        SegmentEnd::NotBegun => "not begun: preallocated, or without a header".to_owned(),
        SegmentEnd::Sealed => "sealed: the log continues in the next segment".to_owned(),
        SegmentEnd::Blank => format!("ends at offset {offset}, followed by zeros"),
        _ => format!(
            "ends at offset {offset}, before bytes that are no record of it: torn, or from the file's \
             earlier use"
        ),
    }
}
