use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cbindgen::{Builder, Config, ExportConfig, Language, Style};

/// Enumerations whose numbers are passed as `int`, so that any number of C code is a value.
const NUMBERS: [&str; 5] = [
    "hg_durability",
    "hg_expiry",
    "hg_merged",
    "hg_direction",
    "hg_isolation",
];

/// The declarations of a header, each in one line: functions, structures, enumerations and types of
/// functions.
fn declarations(header: &str) -> BTreeSet<String> {
    let mut text = without(header, "/*", "*/");
    text = without(&text, "#ifdef __cplusplus", "#endif");
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let mut found = BTreeSet::new();
    let mut statement = String::new();
    let mut depth = 0;
    for c in lines.collect::<Vec<_>>().join("\n").chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ';' if depth == 0 => {
                let text = normal(&std::mem::take(&mut statement));
                // A name of a structure says no more than the functions do. LevelDB's names of
                // numbers have no counterpart.
                let is_opaque = text.starts_with("typedef struct") && !text.contains('{');
                if !is_opaque && !text.starts_with("enum{") {
                    found.insert(text);
                }
                continue;
            }
            _ => {}
        }
        statement.push(c);
    }
    found
}

/// The text without the parts between `from` and `to`.
fn without(text: &str, from: &str, to: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, part)) = rest.split_once(from) {
        kept.push_str(before);
        rest = part.split_once(to).map_or("", |(_, after)| after);
    }
    kept + rest
}

/// The text with single spaces, and none where C needs none.
fn normal(statement: &str) -> String {
    let words: Vec<_> = statement.split_whitespace().collect();
    let mut text = words.join(" ").replace("struct ", "");
    if text.starts_with("typedef ") && statement.contains("struct") {
        text = text.replacen("typedef ", "typedef struct ", 1);
    }
    for sign in ["(", ")", "{", "}", ",", ";", "*", "="] {
        text = text
            .replace(&format!(" {sign}"), sign)
            .replace(&format!("{sign} "), sign);
    }
    // A list may end with a comma.
    text.replace(",}", "}")
}

fn generated(crate_dir: &Path) -> String {
    let config = Config {
        language: Language::C,
        style: Style::Type,
        usize_is_size_t: true,
        export: ExportConfig {
            include: NUMBERS.map(str::to_owned).to_vec(),
            ..ExportConfig::default()
        },
        ..Config::default()
    };
    let mut builder = Builder::new().with_config(config);
    let mut sources = vec![crate_dir.join("src")];
    while let Some(folder) = sources.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                None => sources.push(path),
                Some(_) => builder = builder.with_src(path),
            }
        }
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

/// Compares a header with the sources of a crate. `prefix` begins the names of its functions.
fn compare(header: &str, crate_dir: &str, prefix: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path: PathBuf = root.join(header);
    let written = declarations(&std::fs::read_to_string(&path).unwrap());
    let made = declarations(&generated(&root.join(crate_dir)));
    let functions = |all: &BTreeSet<String>| {
        let is_function =
            |text: &&String| text.contains(&format!("{prefix}_")) && text.contains('(');
        all.iter().filter(is_function).count()
    };
    let only_written: Vec<_> = written.difference(&made).collect();
    let only_made: Vec<_> = made.difference(&written).collect();
    assert!(
        only_written.is_empty() && only_made.is_empty(),
        "only in {header}: {only_written:#?}\nonly in the sources: {only_made:#?}"
    );
    assert!(functions(&written) > 50, "the functions are found");
}

#[test]
fn the_header_of_leveldb_says_what_the_sources_define() {
    compare("leveldb/include/leveldb/c.h", "leveldb", "leveldb");
}

#[test]
fn the_header_of_hedgerow_says_what_the_sources_define() {
    compare("include/hedgerow.h", ".", "hg");
}

#[test]
fn comments_and_spaces_make_no_difference() {
    let a =
        "#include <a.h>\n/* A; comment. */ typedef struct t t;\nint f(const char *a,\n  int b);";
    assert_eq!(
        declarations(a),
        declarations("int f( const char* a, int b ) ;")
    );
    assert_ne!(
        declarations(a),
        declarations("int f(const char* a, long b);")
    );
}
