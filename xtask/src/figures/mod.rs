//! Numbers of documents, recomputed from the raw rows that they come from.
//!
//! A comment before a table says where its numbers come from. It has a line for each row of the
//! table, and one for each column after the first, in their order. A cell is of the raw rows that
//! both lines select. Its numbers are the values of the formulas of its row, or of its column:
//!
//! ```text
//! <!-- figures: median of a.jsonl, b.jsonl
//! all: threads=1
//! row: workload=fillrandom
//! row: workload=readrandom -> latency_us.p99
//! col: store=hedgerow -> ops_per_second
//! col: store=rocksdb -> ops_per_second; ops_per_second[store=hedgerow] / ops_per_second
//! col: given: the goals
//! text: fills # times as fast -> ops_per_second[store=hedgerow] / ops_per_second[store=rocksdb]
//! -->
//! ```
//!
//! `given` is for what was not measured: sizes, targets. `text` finds words of the document, and
//! recomputes the numbers where it has `#`. A table of counts names its command instead:
//! `<!-- figures: counted by COMMAND -->`. Numbers whose rows nobody has say why:
//! `<!-- figures: without rows: REASON -->`. A decision keeps the numbers that it was made with, of
//! code that is gone: `<!-- figures: recorded with the decision -->`, in `docs/design` alone. A
//! table of numbers without a comment is an error. In a report this is a table with a number in any
//! cell after the first column.

mod formula;
mod numbers;

use std::ops::Range;
use std::path::Path;

use formula::{Rows, Selection, evaluate};
use numbers::{like, matched, numbers};
use serde_json::{Value, json};

const RUNS: &str = "crates/hedgerow-papers/runs";
/// Folders of documents with numbers.
const FOLDERS: [&str; 3] = ["docs", "docs/benchmarks", DECISIONS];
/// Folders whose `README.md` is checked, too. The bindings have folders with one.
const READ_FIRST: [&str; 3] = ["", "bench-peers", "bindings"];
/// The documents in which every number of a table has its source begin with these.
const REPORTS: [&str; 4] = ["README.md", "docs/benchmarks/", "bench-peers/", "bindings/"];
/// The folder whose tables may be as old as the decision.
const DECISIONS: &str = "docs/design";
const OPENING: &str = "<!-- figures:";
const COUNTED: &str = "counted by ";
const RECORDED: &str = "recorded with the decision";
const WITHOUT_ROWS: &str = "without rows: ";
const GIVEN: &str = "given";

/// A wrong number, or another error, at a place of a document.
struct Finding {
    at: usize,
    wrong: String,
    /// The right number, and where it goes.
    right: Option<(Range<usize>, String)>,
}

impl Finding {
    fn new(at: usize, wrong: String) -> Finding {
        Finding {
            at,
            wrong,
            right: None,
        }
    }
}

/// Returns all findings, each `path:line: finding`. With `bless` it corrects wrong numbers.
#[allow(clippy::disallowed_methods, reason = "a tool on the real file system")]
pub(crate) fn check(root: &Path, bless: bool) -> Vec<String> {
    let list = |folder: &str| {
        let listed = std::fs::read_dir(root.join(folder)).into_iter().flatten();
        listed.flatten().map(|entry| entry.path())
    };
    let mut documents: Vec<_> = FOLDERS.into_iter().flat_map(list).collect();
    let firsts = READ_FIRST.map(|folder| root.join(folder));
    documents.extend(
        firsts
            .into_iter()
            .chain(list("bindings"))
            .map(|it| it.join("README.md")),
    );
    documents.retain(|path| path.extension().is_some_and(|it| it == "md") && path.is_file());
    documents.sort();
    let mut lines = Vec::new();
    for path in documents {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string();
        let is_report = REPORTS.iter().any(|report| name.starts_with(report));
        let read = |file: &str| read_rows(&root.join(RUNS).join(file), file);
        let mut findings = findings(&text, is_report, &read);
        if bless {
            let mut new = text.clone();
            findings.sort_by_key(|finding| std::cmp::Reverse(finding.at));
            for (span, right) in findings.iter().filter_map(|finding| finding.right.clone()) {
                new.replace_range(span, &right);
            }
            std::fs::write(&path, new).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            findings.retain(|finding| finding.right.is_none());
        }
        let recorded = text.find(&format!("{OPENING} {RECORDED}"));
        if let Some(at) = recorded.filter(|_| !name.starts_with(DECISIONS)) {
            let wrong =
                format!("expected numbers of today, found `{RECORDED}` outside {DECISIONS}");
            findings.push(Finding::new(at, wrong));
        }
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        lines.extend(
            findings
                .iter()
                .map(|it| format!("{name}:{}: {}", line(it.at), it.wrong)),
        );
    }
    lines
}

#[allow(clippy::disallowed_methods, reason = "a tool on the real file system")]
fn read_rows(path: &Path, file: &str) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{file}: {e}"))?;
    let row = |(i, line): (usize, &str)| {
        let mut row: Value =
            serde_json::from_str(line).map_err(|e| format!("{file}:{}: {e}", i + 1))?;
        row["file"] = json!(file);
        row["line"] = json!(i + 1);
        Ok(row)
    };
    text.lines().enumerate().map(row).collect()
}

type Read<'a> = &'a dyn Fn(&str) -> Result<Vec<Value>, String>;

fn findings(text: &str, is_report: bool, read: Read<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut next = 0;
    let mut source: Option<Source<'_>> = None;
    while next < text.len() {
        let rest = &text[next..];
        let line = rest.lines().next().unwrap_or("");
        let mut end = next + line.len() + 1;
        if line.starts_with(OPENING) {
            let Some(length) = rest.find("-->") else {
                findings.push(Finding::new(next, "expected `-->`".to_owned()));
                break;
            };
            end = next + length + 3;
            match Source::parse(&rest[OPENING.len()..length], read) {
                Ok(found) => {
                    findings.extend(found.check_texts(text, next));
                    source = Some(found);
                }
                Err(wrong) => findings.push(Finding::new(next, wrong)),
            }
        } else if line.starts_with('|') {
            let table = Table::at(text, next);
            end = table.end;
            match source.take() {
                Some(source) => findings.extend(source.check_table(text, &table)),
                None if table.has_figures(text, is_report) => {
                    let wrong = "expected where the numbers of this table come from".to_owned();
                    findings.push(Finding::new(next, wrong));
                }
                None => {}
            }
        } else if !line.trim().is_empty()
            && let Some(unused) = source.take().filter(|it| !it.rows.is_empty())
        {
            let rows = unused.rows.len();
            let wrong = format!("expected a table behind the comment of {rows} rows");
            findings.push(Finding::new(next, wrong));
        }
        next = end;
    }
    findings
}

/// The rows that a line of a comment selects, and its formulas.
struct Line<'a> {
    selection: Selection,
    formulas: Vec<&'a str>,
    is_given: bool,
}

/// A comment: the raw rows of its files, and the lines of its table.
#[derive(Default)]
struct Source<'a> {
    data: Vec<Value>,
    aggregate: &'a str,
    /// The table's numbers are not of rows.
    is_without_rows: bool,
    all: Selection,
    rows: Vec<Line<'a>>,
    columns: Vec<Line<'a>>,
    texts: Vec<Line<'a>>,
    patterns: Vec<&'a str>,
}

impl<'a> Source<'a> {
    fn parse(comment: &'a str, read: Read<'_>) -> Result<Source<'a>, String> {
        let (head, lines) = comment.split_once('\n').unwrap_or((comment, ""));
        let head = head.trim();
        let mut source = Source::default();
        if head == RECORDED
            || [COUNTED, WITHOUT_ROWS]
                .iter()
                .any(|it| head.starts_with(it))
        {
            source.is_without_rows = true;
            return Ok(source);
        }
        let (aggregate, files) = head.split_once(" of ").ok_or_else(|| {
            format!(
                "expected `median of FILE`, `counted by COMMAND` or `without rows: REASON`, \
                 found `{head}`"
            )
        })?;
        source.aggregate = aggregate;
        for file in files.split(',') {
            source.data.extend(read(file.trim())?);
        }
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            let (kind, line) = line.split_once(':').unwrap_or((line, ""));
            match kind {
                "all" => source.all = Selection::parse(line)?,
                "row" => source.rows.push(Line::parse(line)?),
                "col" => source.columns.push(Line::parse(line)?),
                "text" => {
                    let (pattern, formulas) =
                        line.rsplit_once("->").ok_or("expected `->` in a text")?;
                    source.patterns.push(pattern.trim());
                    source
                        .texts
                        .push(Line::parse(&line[line.len() - formulas.len() - 2..])?);
                }
                other => return Err(format!("expected all, row, col or text, found `{other}`")),
            }
        }
        Ok(source)
    }

    fn check_table(&self, text: &str, table: &Table) -> Vec<Finding> {
        if self.is_without_rows {
            return Vec::new();
        }
        let mut findings = Vec::new();
        let columns = table
            .rows
            .first()
            .map_or(0, |row| row.cells.len().saturating_sub(1));
        if (table.rows.len(), columns) != (self.rows.len(), self.columns.len()) {
            let found = (table.rows.len(), columns);
            let said = (self.rows.len(), self.columns.len());
            let wrong = format!("expected a table of {said:?} rows and columns, found {found:?}");
            return vec![Finding::new(table.at, wrong)];
        }
        for (row, line) in table.rows.iter().zip(&self.rows) {
            for (cell, column) in row.cells.iter().skip(1).zip(&self.columns) {
                if line.is_given || column.is_given {
                    continue;
                }
                let of = if line.formulas.is_empty() {
                    column
                } else {
                    line
                };
                let selection = column.selection.and(&line.selection);
                let found = numbers(&text[cell.clone()], cell.start);
                // The formulas of a row need not be about each column.
                if found.is_empty() && !line.formulas.is_empty() {
                    continue;
                }
                findings.extend(self.compare(text, cell.start, &found, &selection, &of.formulas));
            }
        }
        findings
    }

    fn check_texts(&self, text: &str, at: usize) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (pattern, line) in self.patterns.iter().zip(&self.texts) {
            let places: Vec<_> = { text.char_indices() }
                .filter_map(|(start, _)| matched(text, start, pattern))
                .collect();
            match &places[..] {
                [spans] if spans.len() == line.formulas.len() => {
                    findings.extend(self.compare(
                        text,
                        at,
                        spans,
                        &Selection::default(),
                        &line.formulas,
                    ));
                }
                found => {
                    let wrong = format!(
                        "expected one place with {} numbers for `{pattern}`, found {}",
                        line.formulas.len(),
                        found.len()
                    );
                    findings.push(Finding::new(at, wrong));
                }
            }
        }
        findings
    }

    /// Compares the numbers at these places with formulas. A cell may leave the last ones out if no
    /// row has them.
    fn compare(
        &self,
        text: &str,
        at: usize,
        found: &[Range<usize>],
        selection: &Selection,
        formulas: &[&str],
    ) -> Vec<Finding> {
        if found.len() > formulas.len() {
            let wrong = format!(
                "expected at most {} numbers, found {}",
                formulas.len(),
                found.len()
            );
            return vec![Finding::new(at, wrong)];
        }
        let rows = Rows {
            rows: &self.data,
            aggregate: self.aggregate,
            selection: self.all.and(selection),
        };
        let mut left_out = formulas[found.len()..].iter();
        let known = left_out.find_map(|it| Some((it, evaluate(it, &rows).ok()?)));
        // The ratio of a number to itself is no news.
        if let Some((formula, value)) = known.filter(|(_, value)| *value != 1.0) {
            let wrong = format!("expected {value} by `{formula}`, found no number for it");
            return vec![Finding::new(at, wrong)];
        }
        let pairs = found.iter().zip(formulas);
        let wrong = pairs.filter_map(|(span, formula)| {
            let printed = &text[span.clone()];
            let value = match evaluate(formula, &rows) {
                Ok(value) => value,
                Err(wrong) => return Some(Finding::new(span.start, wrong)),
            };
            let right = like(printed, value);
            (right != printed).then(|| Finding {
                at: span.start,
                wrong: format!("expected {right} by `{formula}`, found {printed}"),
                right: Some((span.clone(), right)),
            })
        });
        wrong.collect()
    }
}

impl<'a> Line<'a> {
    fn parse(text: &'a str) -> Result<Line<'a>, String> {
        let (selection, formulas) = text.split_once("->").unwrap_or((text, ""));
        let given = selection.trim().strip_prefix(GIVEN);
        let is_given = given.is_some();
        if given.is_some_and(|reason| reason.trim_start_matches([':', ' ']).is_empty()) {
            return Err(format!(
                "expected `{GIVEN}: REASON`, found `{}`",
                text.trim()
            ));
        }
        Ok(Line {
            selection: Selection::parse(if is_given { "" } else { selection })?,
            formulas: split(formulas),
            is_given,
        })
    }
}

/// Splits at semicolons outside of brackets.
fn split(formulas: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = formulas.split(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ';' && depth == 0
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

/// A table's body.
struct Table {
    at: usize,
    end: usize,
    rows: Vec<Row>,
}

struct Row {
    cells: Vec<Range<usize>>,
}

impl Table {
    fn at(text: &str, at: usize) -> Table {
        let mut end = at;
        let mut rows = Vec::new();
        for line in text[at..]
            .split_inclusive('\n')
            .take_while(|line| line.starts_with('|'))
        {
            let bars: Vec<usize> = line.match_indices('|').map(|(bar, _)| end + bar).collect();
            let cells = bars.windows(2).map(|pair| pair[0] + 1..pair[1]).collect();
            rows.push(Row { cells });
            end += line.len();
        }
        // Its head, and the line below.
        rows.drain(..rows.len().min(2));
        Table { at, end, rows }
    }

    /// Returns true if a cell after the first has figures: any number, if `is_report`, or else
    /// digits, and no more letters than digits.
    fn has_figures(&self, text: &str, is_report: bool) -> bool {
        let cells = self.rows.iter().flat_map(|row| row.cells.iter().skip(1));
        cells.map(|cell| &text[cell.clone()]).any(|cell| {
            let count = |is: fn(&char) -> bool| cell.chars().filter(is).count();
            let digits = count(char::is_ascii_digit);
            let are_many = digits > 0 && digits >= count(|c| c.is_alphabetic());
            are_many || is_report && !numbers(cell, 0).is_empty()
        })
    }
}

#[cfg(test)]
mod tests;
