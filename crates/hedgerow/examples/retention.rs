//! A time series that keeps readings for a day and hourly sums for a year.
//!
//! Readings expire by the time to live of their keyspace: nobody deletes them, and tables that have
//! expired whole are dropped unread. Each reading is also added to the sum of its hour, by a merge
//! operator of the program's own. So the past is there at a lower resolution when the readings are
//! gone.
//!
//! Run with `cargo run --example retention`.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example is a program: it speaks to its reader, and reads the clock"
)]

use std::time::{Duration, SystemTime};

use hedgerow::{Db, Durability, Expiry, Layout, MergeError, MergeOperator, Result};

const HOUR_SECONDS: u64 = 3600;
const DAY: Duration = Duration::from_secs(24 * HOUR_SECONDS);

/// The number of readings of an hour, their sum, and the largest: three numbers of 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Summary {
    count: u64,
    sum: f64,
    largest: f64,
}

impl Summary {
    fn of(reading: f64) -> Summary {
        Summary {
            count: 1,
            sum: reading,
            largest: reading,
        }
    }

    fn and(self, other: Summary) -> Summary {
        Summary {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            largest: self.largest.max(other.largest),
        }
    }

    fn bytes(self) -> Vec<u8> {
        let Summary {
            count,
            sum,
            largest,
        } = self;
        [
            count.to_le_bytes(),
            sum.to_le_bytes(),
            largest.to_le_bytes(),
        ]
        .concat()
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Summary, MergeError> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        match (numbers, rest) {
            (&[count, sum, largest], []) => Ok(Summary {
                count: u64::from_le_bytes(count),
                sum: f64::from_le_bytes(sum),
                largest: f64::from_le_bytes(largest),
            }),
            _ => Err(format!("expected 24 bytes, found {}", bytes.len()).into()),
        }
    }
}

/// Combines summaries.
struct Summaries;

impl MergeOperator for Summaries {
    fn name(&self) -> &str {
        "summaries"
    }

    fn check(&self, operand: &[u8]) -> std::result::Result<(), MergeError> {
        Summary::parse(operand).map(drop)
    }

    fn full(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Option<Vec<u8>>, MergeError> {
        let mut all = base
            .into_iter()
            .chain(operands.iter().copied())
            .map(Summary::parse);
        let Some(first) = all.next() else {
            return Ok(None);
        };
        let summary = all.try_fold(first?, |sum, next| Ok::<_, MergeError>(sum.and(next?)))?;
        Ok(Some(summary.bytes()))
    }

    fn partial(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let (older, newer) = (Summary::parse(older).ok()?, Summary::parse(newer).ok()?);
        Some(older.and(newer).bytes())
    }
}

fn key(sensor: u16, seconds: u64) -> Vec<u8> {
    [&sensor.to_be_bytes()[..], &seconds.to_be_bytes()].concat()
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::builder(dir.path()).merge_operator(Summaries).open()?;
    let readings = db.keyspace("readings", Layout::sorted())?;
    readings.set_time_to_live(Some(DAY))?;
    let hours = db.keyspace("hours", Layout::sorted().merge_operator("summaries"))?;

    // Two days, up to now, of a sensor that speaks every minute. Old readings say when they expire.
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("a date after 1970")
        .as_secs();
    let begin = now - 2 * DAY.as_secs();
    for seconds in (begin..now).step_by(60) {
        let reading = (seconds % HOUR_SECONDS) as f64;
        let expiry = Expiry::At(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + DAY);
        let mut batch = db.batch();
        batch.put_expiring(&readings, key(7, seconds), reading.to_le_bytes(), expiry)?;
        let hour = key(7, seconds / HOUR_SECONDS * HOUR_SECONDS);
        batch.merge(&hours, hour, Summary::of(reading).bytes())?;
        batch.commit(Durability::Buffered)?;
    }

    // A day of readings is left, and the sums of both days.
    let left = readings.scan_all()?.count() as u64;
    println!("{left} readings are left");
    assert!(left.abs_diff(24 * 60) <= 1);
    let mut sum = None;
    for item in hours.scan_prefix(7_u16.to_be_bytes())? {
        let hour = Summary::parse(&item?.1).expect("a summary");
        assert!(hour.count <= 60 && hour.largest < 3600.0);
        sum = Some(sum.map_or(hour, |sum: Summary| sum.and(hour)));
    }
    let sum = sum.expect("two days of hours");
    println!(
        "{} readings, mean {:.1}",
        sum.count,
        sum.sum / sum.count as f64
    );
    assert_eq!(sum.count, 2 * 24 * 60);

    // An expired reading is gone for good at the next merge.
    readings.compact::<&[u8]>(..)?;
    let entries: u64 = readings
        .stats()
        .levels
        .iter()
        .map(|level| level.entries)
        .sum();
    assert!(entries.abs_diff(left) <= 1);
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
