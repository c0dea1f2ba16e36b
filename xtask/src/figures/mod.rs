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
//! col: given
//! text: fills # times as fast -> ops_per_second[store=hedgerow] / ops_per_second[store=rocksdb]
//! -->
//! ```
//!
//! `given` is for what was not measured: sizes, targets. `text` finds words of the document, and
//! recomputes the numbers where it has `#`. A table of counts names its command instead:
//! `<!-- figures: counted by COMMAND -->`. A decision keeps the numbers that it was made with, of
//! code that is gone: `<!-- figures: recorded with the decision -->`, in `docs/design` alone. A
//! table of numbers without a comment is an error.

mod formula;

use std::ops::Range;
use std::path::Path;

use formula::{Rows, Selection, evaluate};
use serde_json::{Value, json};

const RUNS: &str = "crates/hedgerow-papers/runs";
/// Folders of documents with numbers; `README.md` is checked, too.
const FOLDERS: [&str; 3] = ["docs", "docs/benchmarks", DECISIONS];
/// The folder whose tables may be as old as the decision.
const DECISIONS: &str = "docs/design";
const OPENING: &str = "<!-- figures:";
const COUNTED: &str = "counted by ";
const RECORDED: &str = "recorded with the decision";
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
    let mut documents = vec![root.join("README.md")];
    for folder in FOLDERS {
        let listed = std::fs::read_dir(root.join(folder)).into_iter().flatten();
        documents.extend(listed.flatten().map(|entry| entry.path()));
    }
    documents.retain(|path| path.extension().is_some_and(|it| it == "md"));
    documents.sort();
    let mut lines = Vec::new();
    for path in documents {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut findings = findings(&text, &|file| read_rows(&root.join(RUNS).join(file), file));
        if bless {
            let mut new = text.clone();
            findings.sort_by_key(|finding| std::cmp::Reverse(finding.at));
            for (span, right) in findings.iter().filter_map(|finding| finding.right.clone()) {
                new.replace_range(span, &right);
            }
            std::fs::write(&path, new).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            findings.retain(|finding| finding.right.is_none());
        }
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string();
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

fn findings(text: &str, read: Read<'_>) -> Vec<Finding> {
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
                None if table.has_figures(text) => {
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
        if head.starts_with(COUNTED) || head == RECORDED {
            source.is_without_rows = true;
            return Ok(source);
        }
        let (aggregate, files) = head.split_once(" of ").ok_or_else(|| {
            format!("expected `median of FILE` or `counted by COMMAND`, found `{head}`")
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

    /// Compares the numbers at these places with formulas. A cell may leave the last ones out.
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
        let is_given = selection.trim() == GIVEN;
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

    /// Returns true if a cell after the first has digits, and no more letters than digits.
    fn has_figures(&self, text: &str) -> bool {
        let cells = self.rows.iter().flat_map(|row| row.cells.iter().skip(1));
        cells.map(|cell| &text[cell.clone()]).any(|cell| {
            let count = |is: fn(&char) -> bool| cell.chars().filter(is).count();
            let digits = count(char::is_ascii_digit);
            digits > 0 && digits >= count(|c| c.is_alphabetic())
        })
    }
}

/// Finds numbers that stand by themselves outside of code: not those of `p99` or `leveling:10`.
fn numbers(text: &str, offset: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut at, mut before, mut is_code) = (0, ' ', false);
    while let Some(c) = text[at..].chars().next() {
        is_code ^= c == '`';
        let length = number_length(&text[at..]);
        let is_part = before.is_alphanumeric() || matches!(before, '.' | '_' | ':');
        if length > 0 && !is_part && !is_code {
            found.push(offset + at..offset + at + length);
        }
        let step = length.max(c.len_utf8());
        before = text[at..at + step].chars().last().unwrap_or(' ');
        at += step;
    }
    found
}

/// The length of a number such as `12`, `-0.5` or `1,234,567.8` that a text begins with, or 0.
fn number_length(text: &str) -> usize {
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let sign = usize::from(text.starts_with('-'));
    let mut length = digits(&text[sign..]);
    if length == 0 {
        return 0;
    }
    length += sign;
    while text[length..].starts_with(',') && digits(&text[length + 1..]) == 3 {
        length += 4;
    }
    let decimals = text[length..].strip_prefix('.').map_or(0, digits);
    if decimals > 0 {
        length + 1 + decimals
    } else {
        length
    }
}

/// The places of the numbers of a pattern, if the text at a place is as it says.
fn matched(text: &str, start: usize, pattern: &str) -> Option<Vec<Range<usize>>> {
    let (mut at, mut spans) = (start, Vec::new());
    let mut letters = pattern.chars().peekable();
    while let Some(wanted) = letters.next() {
        if wanted == '#' {
            let length = number_length(&text[at..]);
            if length == 0 {
                return None;
            }
            spans.push(at..at + length);
            at += length;
        } else if wanted.is_whitespace() {
            while letters.next_if(|c| c.is_whitespace()).is_some() {}
            let rest = text[at..].trim_start();
            if rest.len() == text.len() - at {
                return None;
            }
            at = text.len() - rest.len();
        } else {
            at += text[at..]
                .chars()
                .next()
                .filter(|found| *found == wanted)?
                .len_utf8();
        }
    }
    Some(spans)
}

/// Writes a number with the decimals of another, and a comma after thousands.
fn like(printed: &str, value: f64) -> String {
    let decimals = printed
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    let number = format!("{value:.decimals$}");
    let (sign, number) = number
        .strip_prefix('-')
        .map_or(("", &number[..]), |it| ("-", it));
    let (whole, decimals) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut divided = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            divided.push(',');
        }
        divided.push(digit);
    }
    format!("{sign}{divided}{decimals}")
}

#[cfg(test)]
mod tests;
