use serde_json::{Value, json};

use super::chart::{Bar, Chart, Group, short, width};
use super::series::Results;
use super::{METRICS, page, read_results};

fn result(store: &str, workload: &str, threads: u64, rate: f64) -> Value {
    json!({
        "workload": workload, "store": store, "version": "1.0", "threads": threads, "ops": 1000,
        "seconds": 0.5, "ops_per_second": rate,
        "latency_us": { "p50": 0.8, "p99": 12.0, "p999": 90.5, "max": 21_000.0 },
        "write_amplification": (workload == "fillrandom").then_some(3.5),
        "memory": { "memtables": 1 << 26, "page_cache": 3 << 26, "resident": 1 << 29 },
        "settings": { "threads": threads, "seed": rate, "num": 1000, "filter": "bloom:10" },
    })
}

fn some_results() -> Vec<Value> {
    vec![
        result("hedgerow", "fillrandom", 1, 700_000.0),
        result("hedgerow", "readrandom", 1, 300_000.0),
        result("hedgerow", "readrandom", 2, 580_000.0),
        result("rocksdb", "readrandom", 1, 100_000.0),
        result("rocksdb", "readrandom", 1, 300_000.0),
        result("rocksdb", "readrandom", 1, 200_000.0),
    ]
}

#[test]
fn the_page_needs_nothing_else() {
    let page = page(&some_results()).unwrap();
    for elsewhere in [
        "src=", "href=", "url(", "@import", "<script", "<link", "<img", "<iframe",
    ] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    // The only address is the name of SVG's own tags.
    let addresses: Vec<_> = page
        .match_indices("://")
        .map(|(at, _)| &page[at - 4..at + 22])
        .collect();
    assert!(
        addresses.iter().all(|a| a.contains("www.w3.org/2000/sv")),
        "{addresses:?}"
    );
    assert!(page.contains("Write amplification") && page.contains("page_cache"));
    // Six of the metrics, and the memory.
    assert_eq!(page.matches("<svg").count(), 7);
}

/// Every tag that is opened is closed, in order.
#[test]
fn the_page_is_well_formed() {
    let page = page(&some_results()).unwrap();
    let mut open = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag
            .trim_start_matches('/')
            .split_whitespace()
            .next()
            .unwrap_or("");
        let is_empty = tag.ends_with('/') || ["meta", "!DOCTYPE"].contains(&name);
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !is_empty {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn nothing_in_a_result_becomes_a_tag() {
    let evil = "<script>alert('1')</script>\"&";
    let mut results = vec![result(evil, evil, 1, 1.0), result(evil, evil, 2, 1.0)];
    results[0]["settings"][evil] = json!(evil);
    results[0]["version"] = json!(evil);
    results[0]["memory"][evil] = json!(5);
    let page = page(&results).unwrap();
    assert!(
        !page.contains("<script") && !page.contains("alert('1')"),
        "{page}"
    );
    assert!(page.contains("&lt;script&gt;alert("));
}

#[test]
fn a_workload_that_failed_is_shown_with_its_reason() {
    let mut all = some_results();
    let failed = json!({
        "workload": "seekrandom", "store": "rocksdb", "version": "1.0", "threads": 1,
        "error": "no <keys>", "settings": { "threads": 1, "filter": "bloom:10" },
    });
    all.push(failed);
    let drawings = |page: &str| page.matches("<svg").count();
    let page_of_all = page(&all).unwrap();
    for part in [
        "<p>seekrandom of rocksdb 1.0, threads 1 failed: no &lt;keys&gt;</p>",
        "<td>seekrandom</td>",
        ">failed: no &lt;keys&gt;</td>",
    ] {
        assert!(page_of_all.contains(part), "{part}");
    }
    assert_eq!(drawings(&page_of_all), drawings(&page(&all[..6]).unwrap()));
    let alone = page(&all[6..]).unwrap();
    assert!(alone.contains("<p>seekrandom failed: no &lt;keys&gt;</p>"));
    assert_eq!(drawings(&alone), 0);
}

#[test]
fn series_are_told_apart_by_what_differs() {
    let all = some_results();
    let results = Results::new(&all).unwrap();
    assert_eq!(
        results.series,
        [
            "hedgerow 1.0, threads 1",
            "hedgerow 1.0, threads 2",
            "rocksdb 1.0, threads 1"
        ]
    );
    assert_eq!(results.groups, ["fillrandom", "readrandom"]);
    let chart = results.chart(&METRICS[0]).unwrap();
    let bars: Vec<_> = chart.groups.iter().map(|group| group.bars.len()).collect();
    assert_eq!(bars, [1, 3]);
    // The third store's is the median of three.
    assert_eq!(chart.groups[1].bars[2].parts, [(2, 200_000.0)]);
}

#[test]
fn odd_results_are_drawn_or_refused() {
    // Metrics without a result are not drawn; numbers that cannot be drawn are left out.
    let little = json!({ "workload": "readrandom", "ops_per_second": -5, "seconds": "soon" });
    let page_of_little = page(&[little]).unwrap();
    assert!(!page_of_little.contains("<svg"));
    for refused in [
        vec![],
        vec![json!({})],
        vec![json!(5)],
        vec![json!({ "workload": 3 })],
    ] {
        let error = page(&refused).unwrap_err().to_string();
        assert!(error.contains("expected "), "{error}");
    }
    let zero =
        json!({ "workload": "w", "ops_per_second": 0, "latency_us": { "p50": 0, "max": 1e300 } });
    assert_eq!(page(&[zero]).unwrap().matches("<svg").count(), 3);
}

/// A text of a drawing: its line, its sides in pixels, the text.
fn texts(svg: &str) -> Vec<(i32, [i32; 2], String)> {
    let parse = |tag: &str| {
        let (attributes, rest) = tag.split_once('>')?;
        // A text that stands upright.
        if attributes.contains("transform") {
            return None;
        }
        let attribute = |name: &str| {
            let (_, value) = attributes.split_once(&format!(" {name}=\""))?;
            value.split_once('"').map(|(value, _)| value)
        };
        let text = rest.split_once("</text>")?.0.trim().to_owned();
        let [x, y] = ["x", "y"].map(|name| attribute(name)?.parse::<i32>().ok());
        let (x, wide) = (x?, width(&text) as i32);
        let sides = match attribute("text-anchor")? {
            "end" => [x - wide, x],
            "middle" => [x - wide / 2, x + wide / 2],
            _ => [x, x + wide],
        };
        Some((y?, sides, text))
    };
    svg.split("<text").skip(1).filter_map(parse).collect()
}

/// Asserts that nothing is cut off, and that texts of one line do not touch.
fn assert_room(svg: &str) {
    let mut texts = texts(svg);
    texts.sort();
    // The drawing library may write a number twice at one place.
    texts.dedup();
    let right = svg.split_once(" width=\"").unwrap().1;
    let right: i32 = right.split_once('"').unwrap().0.parse().unwrap();
    for (_, sides, text) in &texts {
        let is_inside = sides[0] >= 0 && sides[1] <= right;
        assert!(is_inside, "`{text}` at {sides:?} of {right}");
    }
    for pair in texts.windows(2) {
        let [(y, sides, text), (next_y, next_sides, next)] = pair else {
            unreachable!()
        };
        let is_free = y != next_y || sides[1] <= next_sides[0];
        assert!(is_free, "`{text}` at {sides:?}, `{next}` at {next_sides:?}");
    }
}

#[test]
fn every_text_has_room_whichever_font_the_reader_has() {
    let long = "0=runs:4;1-2=tiering:8/bloom:12;3=leveling:8,partitioned/none";
    let mut all = Vec::new();
    for (rate, i) in [0.0123, 7.0, 99_999.0, 4_444_444.0, 999_400_000_000.0]
        .into_iter()
        .zip(0_i32..)
    {
        for policy in [
            "leveling:6",
            long,
            "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
        ] {
            let mut result = result("hedgerow", "readwhilewriting", 1, rate);
            result["case"] = json!(format!("{i}"));
            result["settings"]["policy"] = json!(policy);
            result["latency_us"] = json!({ "p50": rate, "p99": 0.0123 });
            result["activities"] = json!({ "flush": rate, "merge": 1 });
            result["cost_us"] = json!({ "predicted": rate, "measured": 0.5 });
            result["grown"] =
                json!({ "user_bytes": 1e6 * 100_f64.powi(i), "write_amplification": rate });
            all.push(result);
        }
    }
    for results in [&all[..], &all[..3], &all[12..], &some_results()] {
        let page = page(results).unwrap();
        let drawings: Vec<&str> = page.split_inclusive("</svg>").collect();
        assert!(drawings.len() > 5);
        for drawing in &drawings[..drawings.len() - 1] {
            let at = drawing.find("<svg").unwrap();
            assert_room(&drawing[at..]);
        }
    }
}

#[test]
fn a_chart_names_its_groups_and_numbers() {
    let chart = Chart {
        title: String::new(),
        unit: "µs".to_owned(),
        log: true,
        legend: Vec::new(),
        groups: vec![Group {
            label: "long ".repeat(30),
            bars: vec![Bar {
                parts: vec![(99, 1234.0)],
            }],
        }],
    };
    let svg = chart.to_svg().unwrap();
    assert!(svg.contains("1234") && svg.contains("long long"), "{svg}");
    assert_eq!(svg.matches("long").count(), 30);
}

#[test]
fn results_are_read_from_lines_and_arrays() {
    let lines = "{\"workload\":\"a\"}\n\n{\"workload\":\"b\"}\n";
    assert_eq!(read_results(lines).unwrap().len(), 2);
    assert_eq!(read_results("[{\"workload\":\"a\"}]").unwrap().len(), 1);
    let error = read_results("{}\n{]").unwrap_err().to_string();
    assert!(error.contains("expected a result on line 2"), "{error}");
}

#[test]
fn numbers_are_short() {
    let shown = [
        0.0,
        0.0123,
        0.5,
        2.71428,
        42.42,
        789.4,
        1234.0,
        45_678.0,
        1_234_567.0,
        2e9,
    ]
    .map(short);
    let expected = [
        "0", "0.012", "0.50", "2.71", "42.4", "789", "1234", "45.7 k", "1.23 M", "2 G",
    ];
    assert_eq!(shown, expected);
}
