//! A quick measure of the engine alone: fill, get, scan. Not a benchmark suite.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program for the terminal"
)]
use hedgerow::{Compression, Db, Design, Layout};
use std::time::Instant;

fn key(i: u64) -> [u8; 16] {
    let mut x = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^= x >> 31;
    let mut k = [0; 16];
    k[..8].copy_from_slice(&x.to_be_bytes());
    k[8..].copy_from_slice(&i.to_be_bytes());
    k
}

fn main() {
    let n: u64 = std::env::args()
        .nth(1)
        .map_or(5_000_000, |s| s.parse().unwrap());
    let budget: u64 = std::env::args().nth(2).map_or(512, |s| s.parse().unwrap());
    let dir = std::path::PathBuf::from(
        std::env::args()
            .nth(3)
            .unwrap_or("/tmp/hedgerow-smoke".into()),
    );
    let _ = std::fs::remove_dir_all(&dir);
    let db = Db::builder(&dir)
        .memory_budget(budget << 20)
        .open()
        .unwrap();
    let design = Design {
        compression: Compression::None,
        ..Design::default()
    };
    let ks = db.keyspace_with("bench", Layout::sorted(), design).unwrap();
    let value = [7u8; 100];
    let t = Instant::now();
    let mut max = 0u128;
    for i in 0..n {
        let t = Instant::now();
        ks.put(key(i), value).unwrap();
        max = max.max(t.elapsed().as_micros());
    }
    let s = t.elapsed().as_secs_f64();
    println!("fillrandom {:.0}/s, longest put {max} us", n as f64 / s);
    let stats = db.stats();
    println!(
        "stalls {:?} wamp {:.2} memory {:?}",
        stats.stalls,
        stats.write_amplification(),
        stats.memory
    );
    let t = Instant::now();
    ks.wait_until_merged().unwrap();
    println!("settle {:.2}s", t.elapsed().as_secs_f64());
    let reads = n.min(2_000_000);
    for round in 0..2 {
        let t = Instant::now();
        for i in 0..reads {
            let k = key(i.wrapping_mul(2_654_435_761) % n);
            assert!(ks.get(k).unwrap().is_some(), "missing");
        }
        println!(
            "readrandom {round} {:.0}/s",
            reads as f64 / t.elapsed().as_secs_f64()
        );
    }
    let t = Instant::now();
    for i in 0..reads {
        assert!(ks.get(key(n + i)).unwrap().is_none());
    }
    println!(
        "readmissing {:.0}/s",
        reads as f64 / t.elapsed().as_secs_f64()
    );
    let t = Instant::now();
    let seeks = reads / 4;
    let mut cursor = ks.cursor().unwrap();
    for i in 0..seeks {
        let k = key(i.wrapping_mul(2_654_435_761) % n);
        assert!(cursor.seek(&k).unwrap());
        for _ in 0..10 {
            cursor.next().unwrap();
        }
    }
    println!(
        "seek+10 {:.0}/s (one cursor)",
        seeks as f64 / t.elapsed().as_secs_f64()
    );
    let t = Instant::now();
    for i in 0..seeks {
        let k = key(i.wrapping_mul(2_654_435_761) % n);
        assert!(ks.scan(&k[..]..).unwrap().take(11).all(|x| x.is_ok()));
    }
    println!(
        "scan of 11 {:.0}/s (a new scan each)",
        seeks as f64 / t.elapsed().as_secs_f64()
    );
    let stats = db.stats();
    for level in &stats.keyspaces[0].levels {
        println!("{level:?}");
    }
    println!(
        "memory {:?}\nprobes {} fp {} asked {} device {}",
        stats.memory,
        stats.filter_probes,
        stats.filter_false_positives,
        stats.block_reads,
        stats.device_reads
    );
    db.close().unwrap();
}
