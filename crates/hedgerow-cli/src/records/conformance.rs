//! Tests that every format passes.

use proptest::prelude::*;

use super::*;

const FORMATS: [Format; 3] = [Format::Json, Format::Csv, Format::Tsv];
const ENCODINGS: [Encoding; 3] = [Encoding::Text, Encoding::Hex, Encoding::Base64];

fn written(format: Format, encoding: Encoding, records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sink = format.sink(&mut bytes, encoding).unwrap();
    for record in records {
        sink.write(record).unwrap();
    }
    sink.finish().unwrap();
    drop(sink);
    bytes
}

/// Returns all records and the bytes read, or the line and the text of the first problem.
fn read(
    format: Format,
    encoding: Encoding,
    bytes: &[u8],
) -> Result<(Vec<Record>, u64), (u64, String)> {
    read_columns(format, encoding, None, bytes)
}

fn read_columns(
    format: Format,
    encoding: Encoding,
    columns: Option<&str>,
    bytes: &[u8],
) -> Result<(Vec<Record>, u64), (u64, String)> {
    let columns = columns.map(|it| it.parse().unwrap());
    let mut source = format.source(bytes, encoding, columns.as_ref()).unwrap();
    let mut records = Vec::new();
    loop {
        match source.next() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => return Ok((records, source.bytes())),
            Err(Problem::Malformed(what)) => return Err((source.line(), what)),
            Err(Problem::Io(error)) => panic!("{error}"),
        }
    }
}

/// Any bytes, and bytes with a meaning in the formats.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<Vec<u8>>(),
        "[a-z,\"\\\\\\r\\n\\t\u{feff}é\\x00]{0,8}".prop_map(String::into_bytes),
    ]
}

/// Records with a value alone, if they are plain.
fn record(is_plain: bool) -> impl Strategy<Value = Record> {
    let operands = prop::collection::vec(bytes(), 0..3);
    let parts = (
        bytes(),
        bytes(),
        any::<Option<u64>>(),
        operands,
        any::<bool>(),
    );
    parts.prop_map(
        move |(key, value, expires, operands, has_value)| match is_plain {
            true => Record {
                key,
                value: Some(value),
                ..Record::default()
            },
            false => Record {
                key,
                value: (has_value || operands.is_empty()).then_some(value),
                expires,
                operands,
            },
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        plain in prop::collection::vec(record(true), 0..20),
        any in prop::collection::vec(record(false), 0..20),
    ) {
        for format in FORMATS {
            let records = match format {
                Format::Json => &any,
                Format::Csv | Format::Tsv | Format::Ldb => &plain,
            };
            for encoding in ENCODINGS {
                let text = written(format, encoding, records);
                let expected = (records.clone(), text.len() as u64);
                prop_assert_eq!(read(format, encoding, &text), Ok(expected));
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(text in bytes()) {
        for format in FORMATS {
            for encoding in ENCODINGS {
                if let Err((line, _)) = read(format, encoding, &text) {
                    prop_assert!(line >= 1);
                }
            }
        }
    }
}

#[test]
fn the_line_that_is_wrong_is_named() {
    let cases = [
        (
            Format::Json,
            "{\"key\":\"a\",\"value\":\"\"}\n\n{\"key\":\"b\"}\n",
            3,
            "no \"value\"",
        ),
        (
            Format::Json,
            "{\"key\":\"a\",\"value\":\"\"}\nkey",
            2,
            "found `key`: expected value",
        ),
        (Format::Json, "[]\n", 1, "found `[]`"),
        (
            Format::Json,
            "{\"key\":\"a\",\"value\":7}\n",
            1,
            "\"value\": expected a string",
        ),
        (
            Format::Json,
            "{\"key\":\"a\",\"value\":\"\",\"ttl\":\"\"}\n",
            1,
            "found also \"ttl\"",
        ),
        (
            Format::Json,
            "{\"key\":\"a\",\"value\":\"\",\"expires\":-1}\n",
            1,
            "expected milliseconds since 1970, found -1",
        ),
        (
            Format::Json,
            "{\"key\":\"a\",\"operands\":[7]}\n",
            1,
            "\"operands\": expected a string",
        ),
        (
            Format::Json,
            "{\"key\":\"\\ud800\",\"value\":\"\"}\n",
            1,
            "hex escape",
        ),
        (
            Format::Csv,
            "name,year\na,b\n",
            1,
            "expected the header `key,value`, found `name,year`",
        ),
        (Format::Csv, "key,value\n\"a\n\",b\nc\n", 4, "found 1"),
        (Format::Csv, "key,value\na,b\na,b,c\n", 3, "found 3"),
        (Format::Csv, "key,value\r\na,b\r\na,b,c\r\n", 3, "found 3"),
        (
            Format::Csv,
            "key,value\na,b\nc,\"d\ne,f\n",
            3,
            "a closing quote",
        ),
        (Format::Csv, "key,value\na,\"b\"\"", 2, "a closing quote"),
        (Format::Csv, "key,value\r\na,\"", 2, "a closing quote"),
        (Format::Csv, "\"key,value\na,b", 1, "a closing quote"),
    ];
    for (format, text, expected, says) in cases {
        let (line, what) = read(format, Encoding::Text, text.as_bytes()).unwrap_err();
        assert_eq!(line, expected, "{text:?}: {what}");
        assert!(what.contains(says), "{text:?}: {what}");
    }
}

#[test]
fn tables_of_others_are_read_by_their_columns() {
    let pairs = |format, columns, text: &str| {
        let read = read_columns(format, Encoding::Text, columns, text.as_bytes());
        let (records, _) = read.map_err(|(line, what)| format!("{line}: {what}"))?;
        let pair = |it: Record| {
            let both = [it.key, it.value.unwrap_or_default()];
            both.map(|bytes| String::from_utf8(bytes).unwrap())
                .join("=")
        };
        Ok::<_, String>(records.into_iter().map(pair).collect::<Vec<_>>())
    };
    let table = "id,name,born\n7,\"Ada, L.\",1815\n8,Grace,1906\n";
    let by_name = pairs(Format::Csv, Some("key=id,value=name"), table);
    assert_eq!(by_name.unwrap(), ["7=Ada, L.", "8=Grace"]);
    let table_of_tabs = "7\tx\tADA\n8\ty\tG\\tH\tmore\n";
    let by_number = pairs(Format::Tsv, Some("key=3,value=1"), table_of_tabs);
    assert_eq!(by_number.unwrap(), ["ADA=7", r"G\tH=8"]);
    assert_eq!(pairs(Format::Tsv, None, "a\t1\n").unwrap(), ["a=1"]);
    let missing = pairs(Format::Csv, Some("key=id,value=year"), table);
    let says = "1: expected a column `year`, found `id,name,born`";
    assert_eq!(missing.unwrap_err(), says);
    let short = pairs(Format::Tsv, Some("key=3,value=1"), "7\tx\n");
    assert_eq!(short.unwrap_err(), "1: expected at least 3 fields, found 2");
    for wrong in ["", "id,name", "key=0,value=1", "value=1,key=2"] {
        assert!(wrong.parse::<Columns>().is_err(), "{wrong}");
    }
}

#[test]
fn a_quote_is_closed_at_the_end_of_a_file() {
    for end in ["", "\n", "\r\n", "\r", "\n\n\n"] {
        for (field, value) in [
            ("\"1\"", "1"),
            ("\"\n\"", "\n"),
            ("1\"", "1\""),
            ("\"\"", ""),
        ] {
            let text = format!("key,value\na,{field}{end}");
            let (records, bytes) = read(Format::Csv, Encoding::Text, text.as_bytes()).unwrap();
            assert_eq!(records.len(), 1, "{text:?}");
            assert_eq!(records[0].value.as_deref(), Some(value.as_bytes()));
            assert_eq!(bytes, text.len() as u64, "{text:?}");
        }
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_record() {
    for (format, text) in [
        (Format::Json, "\u{feff}{\"key\":\"a\",\"value\":\"1\"}\n"),
        (Format::Csv, "\u{feff}key,value\na,1\n"),
        (Format::Tsv, "\u{feff}a\t1\n"),
    ] {
        let (records, _) = read(format, Encoding::Text, text.as_bytes()).unwrap();
        assert_eq!(records[0].key, b"a", "{format:?}");
    }
}

#[test]
fn a_name_says_its_format() {
    let choose = |name: &str| Format::choose(None, Some(Path::new(name)));
    assert_eq!(choose("a.csv").unwrap(), Format::Csv);
    assert_eq!(choose("a.tar.NDJSON").unwrap(), Format::Json);
    assert!(choose("csv").is_err());
    let asked = Format::choose(Some(Format::Csv), Some(Path::new("a.json")));
    assert_eq!(asked.unwrap(), Format::Csv);
    assert_eq!(Format::choose(None, None).unwrap(), Format::Json);
}

#[test]
fn a_dump_of_rocksdb_is_read_if_it_is_whole() {
    let read = |text: &str| read(Format::Ldb, Encoding::Text, text.as_bytes());
    let whole = "0x ==> 0x656D\n0x6100fF ==> 0x\nKeys in range: 2\n";
    let record = |key: &[u8], value: &[u8]| Record {
        key: key.to_vec(),
        value: Some(value.to_vec()),
        ..Record::default()
    };
    let records = vec![record(b"", b"em"), record(b"a\0\xff", b"")];
    assert_eq!(read(whole), Ok((records, whole.len() as u64)));
    assert_eq!(read("Keys in range: 0\n"), Ok((vec![], 17)));
    for (text, line, expected) in [
        ("", 1, "expected `Keys in range: 0` at the end"),
        ("0x61 ==> 0x\n", 2, "expected `Keys in range: 1` at the end"),
        (
            "0x61 ==> 0x\nKeys in range: 2\n",
            2,
            "expected 1 entries, found 2",
        ),
        ("0x61 : 0x\n", 1, "expected a line such as"),
        ("a ==> b\n", 1, "key: expected `0x`"),
        ("0x61 ==> 0x6\n", 1, "value: expected hexadecimal digits"),
    ] {
        let (found_line, problem) = read(text).unwrap_err();
        assert_eq!(found_line, line, "{text}");
        assert!(problem.starts_with(expected), "{problem}");
    }
}
