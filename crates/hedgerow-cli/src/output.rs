//! The output for people and programs: text or JSON on standard output, progress on standard error.

use std::fmt::{self, Arguments};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use serde_json::Value;

use crate::exit::Failure;

/// The cells of a bar on a wide terminal, and the fewest that show anything.
const BAR_CELLS: usize = 22;
const BAR_CELLS_MIN: usize = 4;
/// The columns below which a terminal has no room for a bar of progress.
const PROGRESS_COLUMNS: u16 = 64;

/// Standard output, for text or for JSON.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
    /// True on a terminal that shows block characters, for bars.
    pub(crate) drawing: bool,
    colours: bool,
    /// The room that is left on the screen, if the output must fit it.
    screen: Option<Screen>,
    /// The first failed write. Nothing is written after it.
    broken: Option<io::Error>,
}

#[derive(Debug)]
struct Screen {
    columns: usize,
    rows_left: usize,
    lines_hidden: u64,
}

impl Output {
    pub(crate) fn new(json: bool) -> Output {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let dumb = variable("TERM").is_none_or(|term| term == "dumb");
        let drawing = io::stdout().is_terminal() && !dumb;
        Output {
            json,
            drawing,
            colours: drawing && variable("NO_COLOR").is_none(),
            screen: None,
            broken: None,
        }
    }

    /// Prints a line of text for people; nothing with `--json`.
    pub(crate) fn line(&mut self, text: Arguments<'_>) {
        if !self.json {
            self.write(text);
        }
    }

    /// Prints a text for people behind an indent. A terminal gets lines that it has room for.
    pub(crate) fn wrapped(&mut self, indent: &str, text: &str) {
        match self.columns() {
            Some(columns) => self.line(format_args!("{}", wrap(text, indent, columns))),
            None => self.line(format_args!("{indent}{text}")),
        }
    }

    /// Prints an empty line and a heading. A terminal gets lines that it has room for.
    pub(crate) fn heading(&mut self, title: &str, rest: &str) {
        let space = if rest.is_empty() { "" } else { " " };
        let mut text = format!("{title}{space}{rest}");
        let columns = self.columns().filter(|_| self.screen.is_none());
        if let Some(columns) = columns.filter(|it| console::measure_text_width(&text) > *it) {
            text = wrap(&text, "", columns);
        }
        // A terminal narrower than the title has it without bold letters.
        match text.strip_prefix(title) {
            Some(rest) => self.line(format_args!("\n{}{rest}", self.bold(title))),
            None => self.line(format_args!("\n{text}")),
        }
    }

    /// Prints a result for programs; nothing without `--json`.
    pub(crate) fn object(&mut self, object: &Value) {
        if self.json {
            self.write(format_args!("{object}"));
        }
    }

    pub(crate) fn bold(&self, text: &str) -> String {
        self.styled("1", text)
    }

    pub(crate) fn red(&self, text: &str) -> String {
        self.styled("31", text)
    }

    pub(crate) fn green(&self, text: &str) -> String {
        self.styled("32", text)
    }

    fn styled(&self, code: &str, text: &str) -> String {
        if self.colours {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn write(&mut self, text: Arguments<'_>) {
        let Some(mut screen) = self.screen.take() else {
            if self.broken.is_none() {
                self.broken = writeln!(io::stdout().lock(), "{text}").err();
            }
            return;
        };
        for line in text.to_string().lines() {
            if screen.rows_left == 0 {
                screen.lines_hidden += 1;
                continue;
            }
            screen.rows_left -= 1;
            let line = console::truncate_str(line, screen.columns, "…");
            self.write(format_args!("{line}"));
        }
        self.screen = Some(screen);
    }

    /// The cells of a bar that has `others` columns of text beside it: the usual number, fewer on a
    /// narrow terminal, none if they would show nothing.
    pub(crate) fn bar_cells(&self, others: usize) -> usize {
        let Some(columns) = self.columns() else {
            return BAR_CELLS;
        };
        match columns.saturating_sub(others).min(BAR_CELLS) {
            0..BAR_CELLS_MIN => 0,
            cells => cells,
        }
    }

    /// The columns of the terminal; `None` without one.
    pub(crate) fn columns(&self) -> Option<usize> {
        let columns = || usize::from(console::Term::stdout().size().1);
        self.drawing.then(columns)
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// True after a failed write.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Clears the screen of a terminal. The output up to [`end_screen`](Self::end_screen) fits it.
    pub(crate) fn clear_screen(&mut self) {
        if self.drawing && !self.json {
            self.write(format_args!("\x1b[H\x1b[2J"));
            let (rows, columns) = console::Term::stdout().size();
            self.screen = Some(Screen {
                columns: usize::from(columns),
                // The cleared line, the last line, and the cursor's.
                rows_left: usize::from(rows).saturating_sub(3),
                lines_hidden: 0,
            });
        }
    }

    /// Says what did not fit the screen.
    pub(crate) fn end_screen(&mut self) {
        if let Some(screen) = self.screen.take().filter(|it| it.lines_hidden > 0) {
            let lines = counted(screen.lines_hidden, "more line");
            let said = format!("… {lines}: make the terminal larger, or leave out --watch");
            let said = console::truncate_str(&said, screen.columns, "…");
            self.write(format_args!("{said}"));
        }
    }

    /// Returns the failure of the first write that failed.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.broken.map_or(Ok(()), |e| Err(Failure::output(&e)))
    }
}

/// A bar on standard error that counts to `total`; invisible if standard error is no terminal.
pub(crate) fn progress(doing: &str, total: u64) -> ProgressBar {
    bar(
        doing,
        total,
        "{prefix:<9} {wide_bar} {human_pos} of {human_len}, {whole_per_sec}/s, {eta}",
    )
}

/// A bar on standard error that counts bytes; invisible if standard error is no terminal.
pub(crate) fn progress_bytes(doing: &str, total: u64) -> ProgressBar {
    bar(
        doing,
        total,
        "{prefix:<9} {wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta}",
    )
}

fn bar(doing: &str, total: u64, template: &str) -> ProgressBar {
    let whole_per_sec = |state: &ProgressState, out: &mut dyn fmt::Write| {
        // A bar that cannot be drawn is left out.
        let _ = write!(out, "{}", count(state.per_sec() as u64));
    };
    let template = match console::Term::stderr().size().1 {
        columns if columns < PROGRESS_COLUMNS => "{prefix:<9} {wide_bar} {percent} %, {eta}",
        _ => template,
    };
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("whole_per_sec", whole_per_sec)
        .progress_chars("█▉▊▋▌▍▎▏ ");
    ProgressBar::new(total)
        .with_style(style)
        .with_prefix(doing.to_owned())
}

/// Divides a text at its spaces into lines of at most `columns`, each behind an indent. A longer
/// word has a line of its own.
fn wrap(text: &str, indent: &str, columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let width = |text: &str| console::measure_text_width(text);
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n")
}

/// Formats `1234567` as `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: `1 run`, `2 runs`, `3 directories`, `4 flushes`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    let n_shown = count(n);
    match noun.strip_suffix('y') {
        _ if n == 1 => format!("{n_shown} {noun}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{n_shown} {stem}ies"),
        _ if noun.ends_with("sh") || noun.ends_with("ch") => format!("{n_shown} {noun}es"),
        _ => format!("{n_shown} {noun}s"),
    }
}

/// Formats `1536` as `1.5 KiB`.
pub(crate) fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = n as f64;
    let mut unit = 0;
    // A value that would print as 1024.0 is 1.0 of the next unit.
    while value >= 1023.95 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{n} B")
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// A spinner with a count on standard error, for work without a known end.
pub(crate) fn wheel(doing: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:<9} {spinner} {human_pos}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::new_spinner()
        .with_style(style)
        .with_prefix(doing.to_owned())
}

/// A spinner with the elapsed time on standard error, for work that reports no progress.
pub(crate) fn waiting(doing: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:<9} {spinner} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let wheel = ProgressBar::new_spinner()
        .with_style(style)
        .with_prefix(doing.to_owned());
    wheel.enable_steady_tick(Duration::from_millis(100));
    wheel
}

/// Formats a count per second with three digits: `1.23 million`, `45.6 thousand`, `789`.
pub(crate) fn rate(n: u64, time: Duration) -> String {
    let per_second = per_second(n, time);
    let (value, unit) = match per_second {
        x if x >= 999_500.0 => (x / 1e6, " million"),
        x if x >= 9_995.0 => (x / 1e3, " thousand"),
        x => return count(x.round() as u64),
    };
    let decimals = match value {
        x if x >= 99.95 => 0,
        x if x >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}{unit}")
}

/// The count per second; 0 if no time passed.
pub(crate) fn per_second(n: u64, time: Duration) -> f64 {
    if time.is_zero() {
        0.0
    } else {
        n as f64 / time.as_secs_f64()
    }
}

/// Formats 0.0123 s as `12.3 ms`.
pub(crate) fn seconds(time: Duration) -> String {
    let s = time.as_secs_f64();
    if s == 0.0 {
        "0 s".to_owned()
    } else if s >= 1.0 {
        format!("{s:.1} s")
    } else if s >= 0.001 {
        format!("{:.1} ms", s * 1e3)
    } else {
        format!("{:.0} µs", s * 1e6)
    }
}

/// Formats a name or path on one line; bytes that are no printable UTF-8 are escaped.
pub(crate) fn shown(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => name.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "directory"), "1 directory");
        assert_eq!(counted(2, "directory"), "2 directories");
        assert_eq!(counted(0, "batch"), "0 batches");
        assert_eq!(counted(2, "key"), "2 keys");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!(rate(123_456, Duration::from_secs(1)), "123 thousand");
        assert_eq!(rate(1_234_567, Duration::from_secs(1)), "1.23 million");
        assert_eq!(rate(5, Duration::ZERO), "0");
        assert_eq!(seconds(Duration::from_micros(12_340)), "12.3 ms");
    }

    #[test]
    fn a_text_is_wrapped_at_its_words() {
        assert_eq!(wrap("one two three", "", 7), "one two\nthree");
        assert_eq!(wrap("one two three", "  ", 8), "  one\n  two\n  three");
        assert_eq!(wrap("one two three", "  ", 9), "  one two\n  three");
        assert_eq!(wrap("größe µs", "", 8), "größe µs");
        assert_eq!(wrap("incomprehensible it", "", 5), "incomprehensible\nit");
    }

    #[test]
    fn names_stay_on_their_line() {
        assert_eq!(shown("grün".as_bytes()), "grün");
        assert_eq!(shown(b"two\nlines"), "two\\nlines");
        assert_eq!(shown(b"\xFF"), "\\xff");
    }
}
