//! A time series: a window by range, the latest from the back, old data dropped by keyspace.
//!
//! A key is the sensor and the time, big-endian, so that one sensor's readings are neighbours in
//! the order of time. A window is a range, and the latest reading is the last key of the prefix.
//! Each day has a keyspace of its own: expiring a day drops its files at once instead of writing
//! tombstones.
//!
//! Run with `cargo run --example time_series`.
#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use hedgerow::{Db, Durability, Keyspace, Layout, Result};

const DAY_SECONDS: u64 = 86_400;

fn key(sensor: u16, seconds: u64) -> Vec<u8> {
    [&sensor.to_be_bytes()[..], &seconds.to_be_bytes()].concat()
}

fn reading(value: &[u8]) -> f64 {
    f64::from_le_bytes(value.try_into().expect("a reading has 8 bytes"))
}

fn day(db: &Db, seconds: u64) -> Result<Keyspace> {
    db.keyspace(
        &format!("day-{:05}", seconds / DAY_SECONDS),
        Layout::sorted(),
    )
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(dir.path())?;

    // Three days of two sensors, a reading a minute.
    for minute in 0..3 * DAY_SECONDS / 60 {
        let seconds = minute * 60;
        let readings = day(&db, seconds)?;
        let mut batch = db.batch();
        for sensor in [7_u16, 8] {
            let value = f64::from(sensor) + minute as f64 / 1000.0;
            batch.put(&readings, key(sensor, seconds), value.to_le_bytes())?;
        }
        batch.commit(Durability::Buffered)?;
    }
    assert_eq!(db.keyspaces(), ["day-00000", "day-00001", "day-00002"]);

    // The mean of one hour.
    let start = DAY_SECONDS + 6 * 3600;
    let window = day(&db, start)?.scan(key(7, start)..key(7, start + 3600))?;
    let values: Vec<f64> = window
        .map(|item| item.map(|(_, value)| reading(&value)))
        .collect::<Result<_>>()?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    assert_eq!(values.len(), 60);
    assert!((mean - 8.8295).abs() < 1e-9, "{mean}");

    // The latest reading: the last key of the sensor, found from the back.
    let today = day(&db, 2 * DAY_SECONDS)?;
    let (latest, value) = today
        .scan_prefix(7_u16.to_be_bytes())?
        .next_back()
        .expect("one")?;
    assert_eq!(latest, key(7, 3 * DAY_SECONDS - 60));

    // Forget the first day.
    db.drop_keyspace("day-00000")?;
    assert_eq!(db.keyspaces().len(), 2);
    println!(
        "an hour's mean {mean:.4}, the latest {:.3}",
        reading(&value)
    );
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
