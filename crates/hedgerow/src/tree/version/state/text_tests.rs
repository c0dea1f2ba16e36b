//! Histories in `testdata/version/*.txt`: a line is a change, and the lines after it that begin
//! with `=` give its effect. `HEDGEROW_BLESS=1` writes these.
//!
//! ```text
//! keyspace 1 users hash:2 partitions 1 2 depth 3     drop 1     replace 1 partitions 3 4
//! design 1 leveling:8 bloom:12                       counters 10 3 4
//! tree 1 -3 ~4@1.0.7 +5@0.0.9:a..c flushed=12 drain=1:9 drain=2:none depth=4 shift=5
//! log 7     closed 7:4096 99     opened
//! state     print it, after a check that its snapshot replays to the same
//! reset     begin another history
//! ```
//! A placement is level.group.run.

use std::fmt::Write;
use std::path::Path;

use super::tests::meta;
use super::*;
use crate::base::entry::RunId;
use crate::base::options::{Design, Layout};
use crate::design::merge_policy::tree_edit::Placement;

fn partitions(words: &[&str]) -> Vec<PartitionId> {
    words
        .iter()
        .map(|w| PartitionId(w.parse().unwrap()))
        .collect()
}

fn placement(word: &str) -> Placement {
    let mut parts = word.split('.');
    let mut part = || parts.next().unwrap();
    Placement {
        level: part().parse().unwrap(),
        group: part().parse().unwrap(),
        run: RunId(part().parse().unwrap()),
    }
}

fn layout(word: &str) -> Layout {
    match word.strip_prefix("hash:") {
        Some(count) => Layout::sorted().hash(count.parse().unwrap()),
        None => {
            assert_eq!(word, "single");
            Layout::sorted()
        }
    }
}

fn tree_edit(state: &State, words: &[&str]) -> TreeEdit {
    let partition = PartitionId(words[0].parse().unwrap());
    let keyspace = state.trees.get(&partition).map_or(0, |t| t.keyspace.0);
    let mut edit = TreeEdit::new(partition);
    for word in &words[1..] {
        if let Some(id) = word.strip_prefix('-') {
            edit.removed.push(TableId(id.parse().unwrap()));
        } else if let Some(moved) = word.strip_prefix('~') {
            let (id, to) = moved.split_once('@').unwrap();
            edit.moved
                .push((TableId(id.parse().unwrap()), placement(to)));
        } else if let Some(added) = word.strip_prefix('+') {
            let (id, rest) = added.split_once('@').unwrap();
            let (to, keys) = rest.split_once(':').unwrap();
            let keys = keys.split_once("..").unwrap();
            let meta = meta(id.parse().unwrap(), keyspace, partition.0, keys);
            edit.added.push((placement(to), meta));
        } else {
            match word.split_once('=').unwrap() {
                ("flushed", seqno) => edit.flushed_through = Some(SeqNo(seqno.parse().unwrap())),
                ("depth", depth) => edit.depth = Some(depth.parse().unwrap()),
                ("shift", depth) => edit.shift_to = Some(depth.parse().unwrap()),
                ("ranges", rest) => {
                    let (level, ranges) = rest.split_once(':').unwrap();
                    let ranges = (level.parse().unwrap(), ranges.parse().unwrap());
                    edit.ranges.push(ranges);
                }
                ("nominal", depth) => edit.policy_note = Some(depth.parse().unwrap()),
                ("drain", rest) => {
                    let (level, id) = rest.split_once(':').unwrap();
                    let through = id.parse().ok().map(RunId);
                    edit.draining.push((level.parse().unwrap(), through));
                }
                other => panic!("unknown {other:?}"),
            }
        }
    }
    edit
}

fn change(state: &State, words: &[&str]) -> Change {
    let number = |i: usize| words[i].parse::<u32>().unwrap();
    match words[0] {
        "keyspace" => {
            assert_eq!(words[4], "partitions");
            let end = words.len() - 2;
            let made = (layout(words[3]), Design::default());
            let (partitions, depth) = (partitions(&words[5..end]), number(end + 1) as u8);
            KeyspaceDescription::new(words[2].to_owned(), made, 1, partitions, depth)
                .creation(KeyspaceId(number(1)))
        }
        "drop" => Change::Keyspace(KeyspaceId(number(1)), KeyspaceChange::Drop),
        "replace" => {
            let change = KeyspaceChange::ReplacePartitions(partitions(&words[3..]));
            Change::Keyspace(KeyspaceId(number(1)), change)
        }
        "design" => {
            let design = Design {
                policy: words[2].parse().unwrap(),
                filter: words[3].parse().unwrap(),
                ..Design::default()
            };
            Change::Keyspace(KeyspaceId(number(1)), KeyspaceChange::SetDesign(design))
        }
        "tree" => Change::Tree(tree_edit(state, &words[1..])),
        "counters" => Change::Counters {
            next_table: u64::from(number(1)),
            next_keyspace: number(2),
            next_partition: number(3),
        },
        "log" => Change::LogStart { segment: number(1) },
        "closed" => {
            let (segment, offset) = words[1].split_once(':').unwrap();
            Change::Closed {
                end: LogPosition {
                    segment: segment.parse().unwrap(),
                    offset: offset.parse().unwrap(),
                },
                last: SeqNo(u64::from(number(2))),
            }
        }
        "opened" => Change::Opened,
        other => panic!("unknown change {other}"),
    }
}

fn print(state: &State, out: &mut String) {
    for (id, k) in &state.keyspaces {
        let partitions: Vec<_> = k.partitions.iter().map(|p| p.0.to_string()).collect();
        let division = &k.layout.partitioning;
        writeln!(
            out,
            "= keyspace {} `{}` {division} {} {} partitions {}",
            id.0,
            k.name,
            k.design.policy,
            k.design.filter,
            partitions.join(" ")
        )
        .unwrap();
    }
    for (id, tree) in &state.trees {
        write!(out, "= tree {} of {}", id.0, tree.keyspace.0).unwrap();
        write!(out, " depth {}", tree.depth).unwrap();
        if tree.policy_note > 0 {
            write!(out, " nominal {}", tree.policy_note).unwrap();
        }
        writeln!(out, " flushed through {}", tree.flushed_through.0).unwrap();
        for (id, (at, meta)) in &tree.tables {
            writeln!(
                out,
                "=   table {} at {}.{}.{} {}..{}",
                id.0,
                at.level,
                at.group,
                at.run.0,
                String::from_utf8_lossy(&meta.smallest_key),
                String::from_utf8_lossy(&meta.largest_key)
            )
            .unwrap();
        }
        for (level, ranges) in &tree.ranges {
            writeln!(out, "=   level {level} in {ranges} groups").unwrap();
        }
        for (level, through) in &tree.draining {
            writeln!(out, "=   level {level} drains through table {}", through.0).unwrap();
        }
    }
    writeln!(
        out,
        "= next table {}, keyspace {}, partition {}; log from segment {}",
        state.next_table, state.next_keyspace, state.next_partition, state.log_start
    )
    .unwrap();
    match state.closed {
        Some((end, last)) => writeln!(
            out,
            "= closed at {}:{}, number {}",
            end.segment, end.offset, last.0
        )
        .unwrap(),
        None => writeln!(out, "= open").unwrap(),
    }
}

fn run(text: &str) -> String {
    let mut out = String::new();
    let mut state = State::default();
    for line in text.lines().filter(|line| !line.starts_with('=')) {
        writeln!(out, "{line}").unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        match words.first() {
            None | Some(&"#") => {}
            Some(&"reset") => state = State::default(),
            Some(&"state") => {
                assert_eq!(State::replay(&[state.snapshot()]).unwrap(), state);
                print(&state, &mut out);
            }
            Some(_) => {
                // After an error a state is undefined.
                let mut next = state.clone();
                match next.apply(&change(&state, &words)) {
                    Ok(()) => state = next,
                    Err(error) => writeln!(out, "= {error}").unwrap(),
                }
            }
        }
    }
    out
}

#[test]
#[allow(clippy::disallowed_methods, reason = "tests read their texts")]
fn histories_amount_to_what_their_texts_say() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/version");
    let mut count = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let found = run(&text);
        if std::env::var_os("HEDGEROW_BLESS").is_some() && found != text {
            std::fs::write(&path, &found).unwrap();
        } else {
            assert_eq!(found, text, "{}", path.display());
        }
        count += 1;
    }
    assert!(count > 0);
}
