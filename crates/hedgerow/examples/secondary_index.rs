//! A graph whose edges are found by their source, and whose sources are listed in order.
//!
//! The edges are semi-sorted: the hashes of source and target order them. That makes indexes small,
//! and all edges of one source are neighbours. Such an order has no ranges. So a second, sorted
//! keyspace has the sources, each with the number of its edges, written in the same batches. It is
//! an ordered list of prefixes, for each of which the edges are scanned (the secondary index of
//! SlimDB, Ren et al., 2017, section 3). A snapshot sees both alike.
//!
//! Run with `cargo run --example secondary_index`.
#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use hedgerow::{Db, Durability, Keyspace, Layout, PrefixRule, Result, Snapshot};

struct Graph {
    db: Db,
    /// `SOURCE>TARGET`: what the edge says.
    edges: Keyspace,
    /// `SOURCE`: how many edges it has.
    sources: Keyspace,
}

impl Graph {
    fn open(db: Db) -> Result<Graph> {
        Ok(Graph {
            edges: db.keyspace("edges", Layout::semi_sorted(PrefixRule::Delimiter(b'>')))?,
            sources: db.keyspace("sources", Layout::sorted())?,
            db,
        })
    }

    /// One writer at a time: the count is read before it is written.
    fn add(&self, source: &str, targets: &[&str]) -> Result<()> {
        let mut batch = self.db.batch();
        let mut edges = count(self.sources.get(source)?.as_deref());
        for target in targets {
            let key = format!("{source}>{target}");
            edges += u32::from(!self.edges.contains_key(&key)?);
            batch.put(&self.edges, key, "wrote a letter to")?;
        }
        batch.put(&self.sources, source, edges.to_le_bytes())?;
        batch.commit(Durability::Buffered)
    }

    /// The sources of a range in order, each with its edges, which are in no order.
    fn list(&self, at: &Snapshot, from: &str, to: &str) -> Result<Vec<(String, Vec<String>)>> {
        let mut listed = Vec::new();
        for source in at.scan(&self.sources, from..to)? {
            let (source, edges) = source?;
            let mut targets = Vec::new();
            for edge in at.scan_prefix(&self.edges, &source)? {
                let (key, _) = edge?;
                targets.push(text(&key[source.len() + 1..]));
            }
            // Both were written by one batch, so they always agree.
            assert_eq!(targets.len() as u32, count(Some(&edges)));
            targets.sort();
            listed.push((text(&source), targets));
        }
        Ok(listed)
    }
}

fn count(value: Option<&[u8]>) -> u32 {
    value.map_or(0, |bytes| {
        u32::from_le_bytes(bytes.try_into().expect("a count has 4 bytes"))
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let graph = Graph::open(Db::open(dir.path())?)?;
    graph.add("grace", &["howard", "john"])?;
    graph.add("ada", &["charles", "mary"])?;
    graph.add("alan", &["max", "joan", "christopher"])?;

    let before = graph.db.snapshot()?;
    graph.add("ada", &["mary", "augustus"])?;
    graph.add("charles", &["ada"])?;

    let then = graph.list(&before, "a", "d")?;
    let now = graph.list(&graph.db.snapshot()?, "a", "d")?;
    let names = |listed: &[(String, Vec<String>)]| -> Vec<String> {
        listed.iter().map(|(source, _)| source.clone()).collect()
    };
    assert_eq!(names(&then), ["ada", "alan"]);
    assert_eq!(then[0].1, ["charles", "mary"]);
    assert_eq!(names(&now), ["ada", "alan", "charles"]);
    assert_eq!(now[0].1, ["augustus", "charles", "mary"]);

    // Without the second keyspace there is no order to ask for.
    let refusal = graph.edges.scan("a".."d").err().map(|e| e.to_string());
    println!("{}", refusal.expect("a range of hashed keys is refused"));
    for (source, targets) in now {
        println!("{source}: {}", targets.join(", "));
    }
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
