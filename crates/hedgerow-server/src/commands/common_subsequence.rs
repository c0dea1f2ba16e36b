//! LCS: the longest common subsequence of two strings. Time and memory are the product of their
//! lengths; the length alone takes two rows.

use super::Args;
use super::arguments::{Options, is};
use super::strings::{STRING_BYTES_MAX, bytes};
use crate::resp::Reply;
use crate::store::{Answer, Meta, Stop, Txn};

/// The form of the reply; the bytes of the subsequence if nothing else is asked for.
#[derive(Default)]
struct Form {
    is_length: bool,
    is_places: bool,
    with_lengths: bool,
    /// Shorter runs are left out of the places.
    least: usize,
}

impl Form {
    fn parse(rest: Args<'_>) -> Answer<Form> {
        let (mut form, mut options) = (Form::default(), Options::new(rest));
        while let Some(option) = options.next() {
            match option {
                _ if is(option, "LEN") => form.is_length = true,
                _ if is(option, "IDX") => form.is_places = true,
                _ if is(option, "WITHMATCHLEN") => form.with_lengths = true,
                _ if is(option, "MINMATCHLEN") => form.least = options.integer()?.max(0) as usize,
                _ => return Err(Stop::syntax()),
            }
        }
        if form.is_length && form.is_places {
            return Err(Stop::reply(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(form)
    }

    /// The places of the runs, and the length of the whole subsequence.
    fn places(&self, runs: Vec<Run>, length: i64) -> Reply {
        let place = |from: usize, length: usize| {
            Reply::Array(vec![Reply::count(from), Reply::count(from + length - 1)])
        };
        let found = runs.into_iter().filter(|it| it.2 >= self.least);
        let found = found.map(|(i, j, length)| {
            let mut parts = vec![place(i, length), place(j, length)];
            if self.with_lengths {
                parts.push(Reply::count(length));
            }
            Reply::Array(parts)
        });
        Reply::Map(vec![
            (Reply::bulk("matches"), Reply::Array(found.collect())),
            (Reply::bulk("len"), Reply::Integer(length)),
        ])
    }
}

pub(super) fn lcs(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let form = Form::parse(&args[3..])?;
    let entries = txn.lookup_all(&args[1..3], Ok)?;
    if entries
        .iter()
        .any(|it| it.meta().is_some_and(Meta::is_collection))
    {
        return Err(Stop::reply(
            "ERR The specified keys must contain string values",
        ));
    }
    let (a, b) = (bytes(&entries[0]), bytes(&entries[1]));
    let cells = (a.len() + 1).saturating_mul(b.len() + 1);
    // The length alone takes little memory, and as much time.
    let bytes = match form.is_length {
        true => cells,
        false => cells.saturating_mul(size_of::<u32>()),
    };
    if bytes > STRING_BYTES_MAX {
        return Err(Stop::reply(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    if form.is_length {
        return Ok(Reply::Integer(i64::from(length(a, b))));
    }
    let lengths = lengths(a, b);
    let length = i64::from(lengths[lengths.len() - 1]);
    let runs = common_runs(a, b, &lengths);
    if form.is_places {
        return Ok(form.places(runs, length));
    }
    let runs = runs.iter().rev();
    let common = runs.flat_map(|(i, _, length)| &a[*i..i + length]);
    Ok(Reply::Bulk(common.copied().collect()))
}

/// The length of the longest common subsequence.
fn length(a: &[u8], b: &[u8]) -> u32 {
    let (long, short) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let (mut above, mut row) = (vec![0; short.len() + 1], vec![0; short.len() + 1]);
    for x in long {
        for (j, y) in short.iter().enumerate() {
            row[j + 1] = match x == y {
                true => above[j] + 1,
                false => above[j + 1].max(row[j]),
            };
        }
        std::mem::swap(&mut above, &mut row);
    }
    above[short.len()]
}

/// The lengths of the longest common subsequences of all beginnings of `a` and `b`: a row for each
/// beginning of `a`.
fn lengths(a: &[u8], b: &[u8]) -> Vec<u32> {
    let width = b.len() + 1;
    let mut lengths = vec![0u32; (a.len() + 1) * width];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            let above = lengths[i * width + j + 1].max(lengths[(i + 1) * width + j]);
            let both = lengths[i * width + j] + 1;
            lengths[(i + 1) * width + j + 1] = if x == y { both } else { above };
        }
    }
    lengths
}

/// The place of a run of common bytes in `a`, that in `b`, and the length.
type Run = (usize, usize, usize);

/// The runs of a longest common subsequence, from the end.
fn common_runs(a: &[u8], b: &[u8], lengths: &[u32]) -> Vec<Run> {
    let width = b.len() + 1;
    let (mut i, mut j) = (a.len(), b.len());
    let mut runs: Vec<Run> = Vec::new();
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            match runs.last_mut() {
                Some(run) if run.0 == i + 1 && run.1 == j + 1 => *run = (i, j, run.2 + 1),
                _ => runs.push((i, j, 1)),
            }
        } else if lengths[(i - 1) * width + j] > lengths[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::{length, lengths};
    use crate::commands::world::World;

    #[test]
    fn two_rows_find_the_length_of_the_whole_table() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..500 {
            let mut text = || -> Vec<u8> {
                let count = random.usize(..20);
                (0..count).map(|_| random.u8(b'a'..b'd')).collect()
            };
            let (a, b) = (text(), text());
            assert_eq!(Some(&length(&a, &b)), lengths(&a, &b).last());
        }
    }

    /// The table of two strings of 8,000 bytes took 256 MiB.
    #[test]
    fn the_table_takes_no_more_than_a_value() {
        let world = World::new();
        world.run(&format!("SET a {}", "a".repeat(4_200)));
        world.run(&format!("SET b {}", "ba".repeat(2_100)));
        let refused = world.run("LCS a b");
        assert!(refused.contains("exceeds proto-max-bulk-len"), "{refused}");
        assert_eq!(world.run("LCS a b IDX"), refused);
        assert_eq!(world.run("LCS a b LEN"), "2100");
        assert_eq!(world.run("LCS a none"), "");
        world.run(&format!("SET a {}", "a".repeat(16_000)));
        assert_eq!(world.run("LCS a b LEN"), refused);
    }
}
