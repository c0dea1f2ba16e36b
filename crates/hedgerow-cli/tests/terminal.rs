//! The program in a terminal, which `script` of util-linux makes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::disallowed_methods,
    reason = "the history is read with std::fs"
)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use support::{Place, hedgerow, stdout};

/// A program in a terminal.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    screen: ChildStdout,
}

impl Terminal {
    fn start(place: &Place, (columns, rows): (u16, u16), words: &str) -> Terminal {
        let program = env!("CARGO_BIN_EXE_hedgerow");
        let line = format!("stty cols {columns} rows {rows}; exec {program} {words}");
        let mut script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("HEDGEROW_DB", place.db())
            .env("XDG_STATE_HOME", place.path("state"))
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Terminal {
            keys: script.stdin.take().unwrap(),
            screen: script.stdout.take().unwrap(),
            script,
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the terminal has shown a text. Returns what it has shown until then.
    fn wait_for(&mut self, text: &str) -> String {
        let mut shown = Vec::new();
        while !shown.ends_with(text.as_bytes()) {
            let mut byte = [0];
            if self.screen.read(&mut byte).unwrap() == 0 {
                let shown = String::from_utf8_lossy(&shown);
                panic!("expected `{text}`, found the end of {shown}");
            }
            shown.push(byte[0]);
        }
        String::from_utf8(shown).unwrap()
    }

    /// The rest of what is shown until the program ends, which must succeed.
    fn rest(mut self) -> String {
        let mut shown = String::new();
        self.screen.read_to_string(&mut shown).unwrap();
        let ended = self.script.wait().unwrap();
        assert!(ended.success(), "{ended}: {shown}");
        shown
    }
}

#[test]
fn lines_that_are_typed_ahead_or_pasted_are_run() {
    let place = Place::new();
    let mut shell = Terminal::start(&place, (80, 60), "shell");
    shell.wait_for("default> ");
    shell.press("put a 1\rput b 2\rscan\r");
    shell.wait_for("a\t1\r\nb\t2\r\n");
    shell.press("\x1b[200~put c 3\nscan --from c\x1b[201~\r");
    shell.wait_for("c\t3\r\n");
    shell.press("exit\r");
    shell.rest();
}

#[test]
fn ctrl_c_ends_a_watch_and_no_prompt() {
    let place = Place::new();
    place.text("put", &["a", "1"]);
    let mut shell = Terminal::start(&place, (80, 60), "shell");
    shell.wait_for("default> ");
    shell.press("stats --watch 1000\r");
    shell.wait_for("Memory");
    shell.press("\x03");
    shell.wait_for("default> ");
    shell.press("get a\r");
    shell.wait_for("1\r\n");
    shell.press("exit\r");
    shell.rest();
    let history = fs::read_to_string(place.path("state/hedgerow/history")).unwrap();
    assert!(history.contains("stats --watch 1000\nget a\n"), "{history}");
}

/// 2 MB of values: more than the terminal and its pipes hold.
fn fill_much(place: &Place) {
    let value = "v".repeat(100);
    let pairs: Vec<_> = (0..20_000)
        .map(|i| (format!("key {i:06}"), &value))
        .collect();
    place.fill(&pairs);
}

#[test]
fn ctrl_c_ends_commands_that_read_many_keys_and_no_shell() {
    let place = Place::new();
    fill_much(&place);
    let mut shell = Terminal::start(&place, (80, 60), "shell");
    shell.wait_for("default> ");
    for line in ["scan", "scan --unordered", "dump"] {
        shell.press(&format!("{line}\r"));
        shell.wait_for("key 000100");
        shell.press("\x03");
        let shown = shell.wait_for("default> ");
        assert!(shown.contains("hedgerow: ended by Ctrl-C"), "{line}");
    }
    shell.press("count\r");
    shell.wait_for("20000\r\n");
    shell.press("exit\r");
    shell.rest();
}

#[test]
fn words_are_completed_and_a_second_session_has_the_history() {
    let place = Place::new();
    place.text("put", &["a", "1815"]);
    let mut first = Terminal::start(&place, (80, 60), "shell");
    first.wait_for("default> ");
    // `count`, which has no other completion.
    first.press("cou\t\r");
    first.wait_for("1\r\n");
    first.press("get a\rexit\r");
    first.rest();
    let mut second = Terminal::start(&place, (80, 60), "shell");
    second.wait_for("default> ");
    // Up, over `exit` to `get a`.
    second.press("\x1b[A\x1b[A\r");
    second.wait_for("1815\r\n");
    second.press("exit\r");
    second.rest();
}

#[test]
fn a_watch_fits_a_low_terminal() {
    let place = Place::new();
    place.text("put", &["a", "1"]);
    let mut stats = Terminal::start(&place, (80, 10), "stats --watch 1000");
    let shown = stats.wait_for("or leave out --watch\r\n");
    stats.press("\x03");
    stats.rest();
    // The cursor stands in the last row.
    assert_eq!(shown.lines().count(), 9, "{shown}");
    assert!(
        shown.contains(" more lines: make the terminal larger"),
        "{shown}"
    );
}

#[test]
fn sizes_are_seen_on_a_narrow_terminal() {
    let place = Place::new();
    place.text("put", &["a", "1"]);
    for (columns, is_whole) in [(40, false), (80, true), (120, true)] {
        let mut stats = Terminal::start(&place, (columns, 60), "stats --watch 1000");
        let shown = stats.wait_for("  all ") + &stats.wait_for("\r\n");
        stats.press("\x03");
        stats.rest();
        let names = ["memtable ", "level 0 ", "memtables ", "page cache ", "all "];
        for name in names {
            let row = shown.lines().find(|it| it.trim_start().starts_with(name));
            let row = row.unwrap();
            assert!(row.contains(" B") || row.contains("iB"), "{columns}: {row}");
            assert!(!is_whole || !row.contains('…'), "{columns}: {row}");
        }
        assert!(
            shown
                .lines()
                .all(|row| row.chars().count() <= columns.into())
        );
    }
}

#[test]
fn texts_fit_a_narrow_terminal() {
    let place = Place::new();
    place.text("put", &["a", "1"]);
    place.text("compact", &[""; 0]);
    let db = place.db();
    let db = db.to_str().unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for command in [
        "advise --price leveling:10",
        &format!("explain design --db {db}"),
        &format!("stats --db {db}"),
    ] {
        // A line of a pipe has no width.
        let piped = hedgerow(&command.split(' ').collect::<Vec<_>>());
        let piped = String::from_utf8_lossy(stdout(&piped)).into_owned();
        for columns in [80, 100, 300] {
            let shown = Terminal::start(&place, (columns, 60), command).rest();
            let widest = shown.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns.into()), "{columns}: {shown}");
            // Bars and measured numbers differ.
            if command.starts_with("advise") {
                assert_eq!(words(&shown), words(&piped));
            }
        }
    }
}
