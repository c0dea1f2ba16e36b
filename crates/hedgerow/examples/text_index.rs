//! A text index: for each word, the documents that have it.
//!
//! The value of a word is a set of document numbers, ascending. A new document adds its number to
//! the set of each of its words by an operand of the merge operator `union_u64`, which reads
//! nothing, so that adding a document costs the same for rare and for frequent words. A search
//! intersects sets.
//!
//! Run with `cargo run --example text_index`.
#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use std::collections::BTreeSet;

use hedgerow::{Db, Durability, Keyspace, Layout, Result};

struct Index {
    db: Db,
    documents: Keyspace,
    words: Keyspace,
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

impl Index {
    fn open(db: &Db) -> Result<Index> {
        Ok(Index {
            db: db.clone(),
            documents: db.keyspace("documents", Layout::sorted())?,
            words: db.keyspace("words", Layout::sorted().merge_operator("union_u64"))?,
        })
    }

    /// Adds a document. Document and index are one commit.
    fn add(&self, number: u64, text: &str) -> Result<()> {
        let mut batch = self.db.batch();
        batch.put(&self.documents, number.to_be_bytes(), text)?;
        for word in words(text) {
            batch.merge(&self.words, word, number.to_be_bytes())?;
        }
        batch.commit(Durability::Buffered)
    }

    /// The documents that have all of these words. A set may name a document that was removed, so
    /// each is looked up.
    fn search(&self, query: &str) -> Result<Vec<(u64, String)>> {
        let query: Vec<String> = words(query).into_iter().collect();
        let mut found: Option<BTreeSet<[u8; 8]>> = None;
        for set in self.words.multi_get(&query)? {
            let set = set.as_deref().unwrap_or_default();
            let set: BTreeSet<[u8; 8]> = set.as_chunks::<8>().0.iter().copied().collect();
            found = Some(found.map_or(set.clone(), |found| &found & &set));
        }
        let found: Vec<[u8; 8]> = found.unwrap_or_default().into_iter().collect();
        let texts = self.documents.multi_get(&found)?;
        let there = found.iter().zip(texts).filter_map(|(number, text)| {
            let text = String::from_utf8_lossy(&text?).into_owned();
            Some((u64::from_be_bytes(*number), text))
        });
        Ok(there.collect())
    }
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(dir.path())?;
    let index = Index::open(&db)?;
    let hedges = ["hawthorn", "blackthorn", "hazel", "field maple", "dog rose"];
    for number in 0..2_000_u64 {
        let hedge = hedges[number as usize % hedges.len()];
        index.add(
            number,
            &format!("Hedge {number} of {hedge}, in parish {}", number % 97),
        )?;
    }
    db.flush()?;
    index.add(2_000, "A hedge of hazel and hawthorn, in parish 12")?;
    index.documents.delete(12_u64.to_be_bytes())?;

    let hazel = index.search("hazel parish 12")?;
    hazel
        .iter()
        .for_each(|(number, text)| println!("{number}: {text}"));
    assert!(hazel.iter().any(|(number, _)| *number == 2_000));
    let is_right = |(_, text): &(u64, String)| {
        let found = words(text);
        ["hazel", "parish", "12"]
            .iter()
            .all(|word| found.contains(*word))
    };
    assert!(hazel.iter().all(is_right));
    assert_eq!(index.search("hazel hawthorn")?.len(), 1);
    assert_eq!(index.search("hedge")?.len(), 2_000);
    assert!(index.search("privet")?.is_empty());
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
