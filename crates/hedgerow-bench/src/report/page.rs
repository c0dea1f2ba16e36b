//! The page around the charts.

use std::fmt::Write;

use serde_json::Value;

use crate::report::Section;
use crate::report::chart::{COLOURS, short};
use crate::report::series::{Results, text};

const STYLE: &str = "\
body { font: 15px/1.5 sans-serif; color: #222; background: #fff; max-width: 120rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem }
figure { margin: 0 } figcaption { font-weight: bold; margin-bottom: .25rem }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 28rem), 1fr)); gap: 2rem; align-items: start }
svg { display: block; width: 100%; max-width: 42rem; height: auto }
.legend { margin-bottom: .5rem } .legend span { display: inline-block; margin-right: 1.25rem; overflow-wrap: anywhere }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .4em }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem } th, td { padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: left }
td.n { white-space: nowrap; text-align: right; font-variant-numeric: tabular-nums }
td.failed { color: #a00; overflow-wrap: anywhere } p.note { color: #555 }
th { vertical-align: bottom } .results th, .results td { padding: .2rem .4rem }
.results td:nth-child(2) { min-width: 9rem; overflow-wrap: anywhere }
.settings th, .settings td { min-width: 8rem; overflow-wrap: anywhere }";

/// The columns of the table of results, with headings.
const COLUMNS: [(&str, &[&str]); 13] = [
    ("operations", &["ops"]),
    ("seconds", &["seconds"]),
    ("per second", &["ops_per_second"]),
    ("p50 µs", &["latency_us", "p50"]),
    ("p99 µs", &["latency_us", "p99"]),
    ("p99.9 µs", &["latency_us", "p999"]),
    ("longest µs", &["latency_us", "max"]),
    ("write ampl.", &["write_amplification"]),
    ("space ampl.", &["space_amplification"]),
    ("block reads", &["block_reads"]),
    ("device reads", &["device_reads"]),
    ("stalled s", &["stall_seconds"]),
    ("cpu s", &["cpu_seconds"]),
];

pub(super) fn html(sections: &[Section<'_>]) -> String {
    let sections: String = sections.iter().map(html_of).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Hedgerow bench</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n\
         <h1>Hedgerow bench</h1>\n\
         <p class=\"note\">Repeated results are drawn by their median. Axes of times are logarithmic.</p>\n\
         {sections}</body>\n</html>\n"
    )
}

fn html_of(section: &Section<'_>) -> String {
    let mut figures = String::new();
    for (title, names, svg) in &section.figures {
        let title = escape(title);
        let legend = legend(names);
        let svg = svg.replacen(
            "<svg ",
            &format!("<svg role=\"img\" aria-label=\"{title}\" "),
            1,
        );
        figures += &format!("<figure><figcaption>{title}</figcaption>{legend}{svg}</figure>\n");
    }
    let title = match section.title {
        "" => String::new(),
        title => format!("<h1>{}</h1>\n", escape(title)),
    };
    let results = &section.results;
    let notes = section.notes.iter().cloned().chain(failures(results));
    let notes: String = notes
        .map(|note| format!("<p>{}</p>\n", escape(&note)))
        .collect();
    format!(
        "{title}{}\n{notes}<div class=\"charts\">\n{figures}</div>\n\
         <h2>Results</h2>\n{}\n<h2>Settings</h2>\n{}\n",
        legend(&results.series),
        result_table(results),
        settings_table(results),
    )
}

/// A line for each workload that failed. A chart cannot show it.
fn failures<'a>(results: &'a Results<'_>) -> impl Iterator<Item = String> + 'a {
    results.rows().filter_map(|(result, workload, series)| {
        let reason = result["error"].as_str()?;
        Some(match results.series.len() {
            1 => format!("{workload} failed: {reason}"),
            _ => format!("{workload} of {series} failed: {reason}"),
        })
    })
}

/// Escapes text for HTML.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            c => escaped.push(c),
        }
    }
    escaped
}

fn legend(names: &[String]) -> String {
    let mut legend = String::new();
    for (i, name) in names.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let (r, g, b) = (colour.0, colour.1, colour.2);
        // Writing to a string cannot fail.
        let _ = write!(
            legend,
            "<span><i style=\"background: rgb({r}, {g}, {b})\"></i>{}</span>",
            escape(name)
        );
    }
    format!("<div class=\"legend\">{legend}</div>")
}

fn result_table(results: &Results<'_>) -> String {
    let headings = COLUMNS.map(|(heading, _)| heading);
    let mut table = row("th", ["workload", "store"].into_iter().chain(headings));
    for (result, workload, series) in results.rows() {
        let names = [workload, series].map(|name| format!("<td>{}</td>", escape(name)));
        table += &format!("<tr>{}{}</tr>\n", names.concat(), numbers(result));
    }
    format!("<div class=\"wide\"><table class=\"results\">\n{table}</table></div>")
}

/// The cells of a result beside its names; one cell with the reason if the workload failed.
fn numbers(result: &Value) -> String {
    if let Some(reason) = result["error"].as_str() {
        let reason = escape(reason);
        let columns = COLUMNS.len();
        return format!("<td class=\"failed\" colspan=\"{columns}\">failed: {reason}</td>");
    }
    let numbers = COLUMNS.map(|(_, path)| {
        let value = path.iter().fold(result, |value, name| &value[name]);
        let number = value.as_f64().map_or("–".to_owned(), short);
        format!("<td class=\"n\">{number}</td>")
    });
    numbers.concat()
}

/// A column of settings for each series, from its first result.
fn settings_table(results: &Results<'_>) -> String {
    let firsts = (0..results.series.len()).filter_map(|series| {
        let first = results.series_of.iter().position(|its| *its == series)?;
        Some(&results.all[first]["settings"])
    });
    let firsts: Vec<&Value> = firsts.collect();
    let objects = firsts.iter().filter_map(|settings| settings.as_object());
    let mut names: Vec<&String> = objects.flat_map(|settings| settings.keys()).collect();
    names.sort();
    names.dedup();
    let series = results.series.iter().map(String::as_str);
    let mut table = row("th", ["setting"].into_iter().chain(series));
    for name in names {
        let values: Vec<String> = firsts
            .iter()
            .map(|settings| text(&settings[name]))
            .collect();
        let values = values.iter().map(String::as_str);
        table += &row("td", [name.as_str()].into_iter().chain(values));
    }
    format!("<div class=\"wide\"><table class=\"settings\">\n{table}</table></div>")
}

fn row<'a>(cell: &str, texts: impl Iterator<Item = &'a str>) -> String {
    let cells = texts.map(|text| format!("<{cell}>{}</{cell}>", escape(text)));
    format!("<tr>{}</tr>\n", cells.collect::<String>())
}
