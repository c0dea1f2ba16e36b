//! The workloads of `hedgerow-bench` over Hedgerow and its peers.

mod c_api;
mod device;
mod fjall;
mod group;
mod leveldb;
mod machine;
mod rocksdb;
mod shares;
mod stores;

/// The version of a dependency, from the lock file that this program was built with.
fn locked_version(package: &str) -> String {
    let lock = include_str!("../Cargo.lock");
    let name = format!("name = \"{package}\"\nversion = \"");
    let version = lock
        .split_once(&name)
        .and_then(|(_, rest)| rest.split_once('"'));
    version.map_or("unknown", |(version, _)| version).to_owned()
}

fn main() {}
