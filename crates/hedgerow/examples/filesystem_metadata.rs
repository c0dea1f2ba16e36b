//! The metadata of a file system: directories and names as keys, a rename as one batch.
//!
//! A key is the parent's inode number, big-endian, and the name: so a directory's entries are
//! neighbours, a listing is a scan of a prefix, and a path is walked with one get per component. A
//! rename moves one key, however large the subtree. `hedgerow tour DIR` does this to a real tree.
//!
//! Run with `cargo run --example filesystem_metadata`.
#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use hedgerow::{Db, Durability, Keyspace, Layout, Result};

const ROOT: u64 = 1;

fn key(parent: u64, name: &str) -> Vec<u8> {
    [&parent.to_be_bytes(), name.as_bytes()].concat()
}

/// The inode at a path: one get per component.
fn resolve(entries: &Keyspace, path: &str) -> Result<Option<u64>> {
    let mut inode = ROOT;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        match entries.get(key(inode, name))? {
            Some(value) => inode = u64::from_be_bytes(value[..].try_into().expect("8 bytes")),
            None => return Ok(None),
        }
    }
    Ok(Some(inode))
}

fn list(entries: &Keyspace, directory: u64) -> Result<Vec<String>> {
    let name = |key: &[u8]| String::from_utf8_lossy(&key[8..]).into_owned();
    entries
        .scan_prefix(directory.to_be_bytes())?
        .map(|item| item.map(|(key, _)| name(&key)))
        .collect()
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(dir.path())?;
    let entries = db.keyspace("entries", Layout::sorted())?;

    let tree: [(u64, &str, u64); 5] = [
        (ROOT, "home", 2),
        (2, "ada", 3),
        (2, "grace", 4),
        (3, "notes.txt", 5),
        (4, "compiler.txt", 6),
    ];
    let mut batch = db.batch();
    for (parent, name, inode) in tree {
        batch.put(&entries, key(parent, name), inode.to_be_bytes())?;
    }
    batch.commit(Durability::Synced)?;
    assert_eq!(resolve(&entries, "/home/ada/notes.txt")?, Some(5));
    assert_eq!(list(&entries, 2)?, ["ada", "grace"]);

    // mv /home/ada /home/lovelace: nobody ever sees both names or none.
    let mut batch = db.batch();
    batch.put(&entries, key(2, "lovelace"), 3_u64.to_be_bytes())?;
    batch.delete(&entries, key(2, "ada"))?;
    batch.commit(Durability::Synced)?;
    assert_eq!(resolve(&entries, "/home/ada/notes.txt")?, None);
    assert_eq!(resolve(&entries, "/home/lovelace/notes.txt")?, Some(5));
    println!("/home has {:?}", list(&entries, 2)?);
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
