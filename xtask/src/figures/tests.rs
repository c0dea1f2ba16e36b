use serde_json::json;

use super::*;

const DOCUMENT: &str = "\
Ours fills 2.0
times as fast, in 1,250 s.

<!-- figures: median of a.jsonl
all: threads=1
row: workload=fill
row: workload=read -> ops; latency_us.p99 / 1e3
row: given: the goals
col: store=ours -> ops
col: store=theirs -> ops; ops[store=ours] / ops
text: Ours fills # times -> ops[store=ours; workload=fill] / ops[store=theirs; workload=fill]
text: # s. -> seconds[store=ours; workload=fill]
-->

| | `ours:10` | theirs |
|---|---|---|
| fill | 1,200 | 600 (2.00) |
| read | 5 (0.25 ms) | |
| target | 7 | 8 |
";

fn rows(file: &str) -> Result<Vec<Value>, String> {
    assert_eq!(file, "a.jsonl");
    let row = |store: &str, workload: &str, ops: u64| {
        json!({ "threads": 1, "store": store, "workload": workload, "ops": ops, "seconds": 1250,
                "latency_us": { "p99": 250 } })
    };
    Ok(vec![
        row("ours", "fill", 1200),
        row("theirs", "fill", 600),
        row("ours", "read", 5),
    ])
}

fn wrong(text: &str) -> Vec<String> {
    let found = findings(text, true, &rows);
    found.into_iter().map(|finding| finding.wrong).collect()
}

#[test]
fn a_document_whose_numbers_are_those_of_the_rows_has_no_findings() {
    assert_eq!(wrong(DOCUMENT), [""; 0]);
}

#[test]
fn every_changed_digit_is_found_in_tables_and_texts() {
    let changes = [
        ("fills 2.0", "fills 2.1"),
        ("1,250 s", "1,251 s"),
        ("1,200", "1,201"),
        ("(2.00)", "(2.01)"),
        ("(0.25 ms)", "(0.26 ms)"),
    ];
    for (right, changed) in changes {
        let found = wrong(&DOCUMENT.replacen(right, changed, 1));
        assert_eq!(found.len(), 1, "{changed}: {found:?}");
        assert!(found[0].starts_with("expected "), "{found:?}");
    }
    assert_eq!(
        wrong(&DOCUMENT.replace("| 7 |", "| 9 |")),
        [""; 0],
        "it is given"
    );
}

#[test]
fn a_finding_knows_what_would_be_right() {
    let changed = DOCUMENT.replace("1,200", "9");
    let found = findings(&changed, true, &rows);
    let (span, right) = found[0].right.clone().unwrap();
    assert_eq!((&changed[span], &right[..]), ("9", "1,200"));
}

#[test]
fn numbers_without_a_source_and_sources_without_numbers_are_errors() {
    let without = "| a | b |\n|---|---|\n| x | 12 ms |\n";
    assert_eq!(
        wrong(without),
        ["expected where the numbers of this table come from"]
    );
    let words = "| a | b |\n|---|---|\n| x | 12 million entries of `p99` |\n";
    assert_eq!(wrong(words), wrong(without));
    assert_eq!(findings(words, false, &rows).len(), 0);
    for mark in ["counted by cargo test", "without rows: nobody has them"] {
        let marked = format!("<!-- figures: {mark} -->\n{without}");
        assert_eq!(wrong(&marked), [""; 0]);
    }
    let unmarked = format!("<!-- figures: without rows: -->\n{without}");
    assert!(wrong(&unmarked)[0].starts_with("expected `median of FILE`"));
    let no_reason = DOCUMENT.replace("given: the goals", "given");
    assert_eq!(
        wrong(&no_reason)[0],
        "expected `given: REASON`, found `given`"
    );
    let row_left_out = DOCUMENT.replace("| target | 7 | 8 |\n", "");
    assert!(wrong(&row_left_out)[0].contains("expected a table of (3, 2)"));
    let one_more = DOCUMENT.replace("| 1,200 |", "| 1,200 (3) |");
    assert_eq!(wrong(&one_more), ["expected at most 1 numbers, found 2"]);
    for emptied in [
        DOCUMENT.replace("| 1,200 |", "| |"),
        DOCUMENT.replace("600 (2.00)", "600"),
    ] {
        let found = wrong(&emptied);
        assert!(found[0].ends_with("found no number for it"), "{found:?}");
    }
    let words_changed = DOCUMENT.replacen("Ours fills", "It fills", 1);
    assert!(wrong(&words_changed)[0].contains("found 0"));
    let no_row = DOCUMENT.replace("workload=fill\n", "workload=scan\n");
    assert!(wrong(&no_row)[0].contains("no row has `ops`"));
}

#[test]
fn the_figures_of_the_documents_are_those_of_the_rows() {
    let bless = std::env::var_os("HEDGEROW_BLESS").is_some();
    let findings = check(&crate::root(), bless);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
