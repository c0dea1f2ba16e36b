//! A feature store: what a model wants to know of an entity, fetched in one go.
//!
//! A key is the entity and the feature, separated by a byte that neither has. Most reads are a
//! `multi_get` or a scan of a prefix. A `multi_get` reads named features of one entity, with the
//! pages at the same time. A scan reads all of them. Hash partitioning lets several threads load at
//! once. A day's load is one batch per entity, so that no model sees half of an entity's update.
//!
//! Run with `cargo run --example feature_store`.
#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use hedgerow::{Db, Design, Durability, FilterSpec, Layout, Result};

fn key(user: u32, feature: &str) -> String {
    format!("user:{user:08}\0{feature}")
}

fn number(value: &[u8]) -> f32 {
    f32::from_le_bytes(value.try_into().expect("a feature has 4 bytes"))
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::builder(dir.path()).memory_budget(64 << 20).open()?;
    // Many requested features are absent. More filter bits make those gets cheap.
    let design = Design {
        filter: FilterSpec::Bloom { bits_per_key: 14.0 },
        ..Design::default()
    };
    let features = db.keyspace_with("features", Layout::sorted().hash(4), design)?;

    for user in 0..5_000_u32 {
        let mut batch = db.batch();
        batch.put(
            &features,
            key(user, "age"),
            (user as f32 / 100.0).to_le_bytes(),
        )?;
        batch.put(
            &features,
            key(user, "clicks"),
            (user as f32 * 2.0).to_le_bytes(),
        )?;
        if user % 10 == 0 {
            batch.put(&features, key(user, "premium"), 1.0_f32.to_le_bytes())?;
        }
        batch.commit(Durability::Buffered)?;
    }
    db.sync()?;

    // A model asks for some features. Some of them are missing.
    let names = ["clicks", "premium", "age"];
    let vector = features.multi_get(&names.map(|name| key(1234, name)))?;
    let vector: Vec<f32> = vector
        .iter()
        .map(|v| v.as_deref().map_or(0.0, number))
        .collect();
    assert_eq!(vector, [2468.0, 0.0, 12.34]);

    // Everything known of one user, in the order of the names.
    let all: Result<Vec<_>> = features.scan_prefix("user:00000010\0")?.collect();
    assert_eq!(all?.len(), 3);

    // One moment for many reads: a snapshot of the store that a model was trained on.
    let training = db.snapshot()?;
    features.put(key(1234, "clicks"), 0.0_f32.to_le_bytes())?;
    let then = training.get(&features, key(1234, "clicks"))?;
    assert_eq!(then.as_deref().map(number), Some(2468.0));
    println!("user 1234: {names:?} = {vector:?}");
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
