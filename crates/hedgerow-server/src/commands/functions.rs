//! FUNCTION: libraries of functions, which outlive the process.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::arguments::is;
use super::{Args, wrong_subcommand};
use crate::glob;
use crate::resp::{Reply, error};
use crate::scripting::{Library, Registered};
use crate::store::{Databases, engine_error};

/// The end of a dump: a checksum.
const SUM_BYTES: usize = 8;

/// Returns true for the subcommands that change libraries.
pub(crate) fn writes(args: Args<'_>) -> bool {
    ["LOAD", "DELETE", "FLUSH", "RESTORE"]
        .iter()
        .any(|it| is(args[1], it))
}

/// Runs a subcommand. Returns its reply, and true if it has written.
pub(crate) fn function(databases: &Databases, args: Args<'_>) -> (Reply, bool) {
    let scripts = &databases.scripts;
    let done = |result: Result<Reply, String>| match result {
        Ok(reply) => (reply, true),
        Err(text) => (error(text), false),
    };
    match args[1] {
        it if is(it, "LOAD") && args.len() >= 3 => {
            let (options, source) = (&args[2..args.len() - 1], args[args.len() - 1]);
            if let Some(option) = options.iter().find(|it| !is(it, "REPLACE")) {
                let option = String::from_utf8_lossy(option);
                return done(Err(format!("ERR Unknown option given: {option}")));
            }
            done(load(databases, source, !options.is_empty()))
        }
        it if (is(it, "FLUSH") || is(it, "RESTORE"))
            && args.len() > 4 - usize::from(is(it, "FLUSH")) =>
        {
            let word = String::from_utf8_lossy(it).to_lowercase();
            done(Err(format!(
                "ERR unknown subcommand or wrong number of arguments for '{word}'. Try FUNCTION HELP."
            )))
        }
        it if is(it, "DELETE") && args.len() == 3 => done(delete(databases, args[2])),
        it if is(it, "FLUSH") && args.len() <= 3 => match args.get(2) {
            Some(mode) if !is(mode, "ASYNC") && !is(mode, "SYNC") => done(Err(
                "ERR FUNCTION FLUSH only supports SYNC|ASYNC option".to_owned(),
            )),
            _ => done(store(databases, Vec::new())),
        },
        it if is(it, "LIST") => (list(&scripts.libraries(), &args[2..]), false),
        it if is(it, "DUMP") && args.len() == 2 => (dump(&scripts.libraries()), false),
        it if is(it, "RESTORE") && (3..=4).contains(&args.len()) => {
            done(restore(databases, args[2], args.get(3).copied()))
        }
        it if is(it, "KILL") && args.len() == 2 => match scripts.kill(true) {
            true => (Reply::OK, false),
            false => (error("NOTBUSY No scripts in execution right now."), false),
        },
        it if is(it, "STATS") && args.len() == 2 => (stats(&scripts.libraries()), false),
        it if is(it, "HELP") => {
            let lines = [
                "FUNCTION <subcommand>. Subcommands are:",
                "LOAD [REPLACE] <library>: adds a library.",
                "DELETE <library>: removes a library.",
                "LIST [LIBRARYNAME <pattern>] [WITHCODE]: tells what there is.",
                "DUMP: returns all libraries as bytes.",
                "RESTORE <bytes> [FLUSH|APPEND|REPLACE]: adds the libraries of a dump.",
                "FLUSH [ASYNC|SYNC]: removes all libraries.",
                "KILL: ends the functions that run; what they did is undone.",
                "STATS: tells how many there are.",
            ];
            (Reply::bulks(lines), false)
        }
        _ => (error(wrong_subcommand(args)), false),
    }
}

/// Checks a library by running it.
fn loaded(databases: &Databases, source: &[u8]) -> Result<Library, String> {
    let mut library = Library::parse(source)?;
    let machine = databases.scripts.take()?;
    let registered = machine.load_library(&library.text);
    databases.scripts.give_back(machine);
    for (function, _) in registered? {
        if library.functions.iter().any(|it| it.name == function.name) {
            let text = "ERR Error registering functions: Function already exists in the library";
            return Err(text.to_owned());
        }
        library.functions.push(function);
    }
    Ok(library)
}

/// Adds a library to others.
fn add(libraries: &mut Vec<Arc<Library>>, library: Library, replaces: bool) -> Result<(), String> {
    let name = &library.name;
    if libraries.iter().any(|it| it.name == *name) && !replaces {
        return Err(format!("ERR Library {name} already exists"));
    }
    libraries.retain(|it| it.name != *name);
    let mut others = libraries.iter().flat_map(|it| &it.functions);
    let taken = others.find(|other| library.functions.iter().any(|it| it.name == other.name));
    if let Some(taken) = taken {
        return Err(format!("ERR Function {} already exists", taken.name));
    }
    libraries.push(Arc::new(library));
    Ok(())
}

fn store(databases: &Databases, libraries: Vec<Arc<Library>>) -> Result<Reply, String> {
    let stored = databases.store_libraries(libraries);
    stored.map_err(|failure| match engine_error(&failure) {
        Reply::Error(text) => text,
        _ => failure.to_string(),
    })?;
    Ok(Reply::OK)
}

fn load(databases: &Databases, source: &[u8], replaces: bool) -> Result<Reply, String> {
    let library = loaded(databases, source)?;
    let name = library.name.clone();
    let mut libraries = databases.scripts.libraries().to_vec();
    if !replaces && libraries.iter().any(|it| it.name == name) {
        return Err(format!("ERR Library '{name}' already exists"));
    }
    add(&mut libraries, library, replaces)?;
    store(databases, libraries)?;
    Ok(Reply::bulk(name))
}

/// Adds a library, in the place of one with its name.
pub(crate) fn put(databases: &Databases, source: &[u8]) -> Result<(), String> {
    load(databases, source, true).map(drop)
}

fn delete(databases: &Databases, name: &[u8]) -> Result<Reply, String> {
    let mut libraries = databases.scripts.libraries().to_vec();
    let before = libraries.len();
    libraries.retain(|it| it.name.as_bytes() != name);
    if libraries.len() == before {
        return Err("ERR Library not found".to_owned());
    }
    store(databases, libraries)
}

/// All libraries: a length and the source of each, and a checksum.
fn dump(libraries: &[Arc<Library>]) -> Reply {
    let mut bytes = Vec::new();
    for library in libraries {
        bytes.extend_from_slice(&(library.source.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&library.source);
    }
    let sum = xxh3_64(&bytes).to_be_bytes();
    bytes.extend_from_slice(&sum);
    Reply::Bulk(bytes)
}

fn restore(databases: &Databases, bytes: &[u8], policy: Option<&[u8]>) -> Result<Reply, String> {
    let is_policy = |word: &str| policy.is_some_and(|it| is(it, word));
    if policy.is_some()
        && !["APPEND", "REPLACE", "FLUSH"]
            .iter()
            .any(|it| is_policy(it))
    {
        return Err(
            "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."
                .to_owned(),
        );
    }
    let damaged = || "ERR DUMP payload version or checksum are wrong".to_owned();
    let end = bytes.len().checked_sub(SUM_BYTES).ok_or_else(damaged)?;
    let (mut rest, sum) = bytes.split_at(end);
    if sum != xxh3_64(rest).to_be_bytes() {
        return Err(damaged());
    }
    let mut libraries = match is_policy("FLUSH") {
        true => Vec::new(),
        false => databases.scripts.libraries().to_vec(),
    };
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (source, behind) = behind.split_at_checked(length).ok_or_else(damaged)?;
        let library = loaded(databases, source)?;
        add(&mut libraries, library, is_policy("REPLACE"))?;
        rest = behind;
    }
    store(databases, libraries)
}

fn function_row(function: &Registered) -> Reply {
    let description = function.description.as_ref();
    let flags = function.flags.names().iter().map(|it| Reply::bulk(*it));
    Reply::Map(vec![
        (Reply::bulk("name"), Reply::bulk(&function.name)),
        (Reply::bulk("description"), Reply::bulk_or_null(description)),
        (Reply::bulk("flags"), Reply::Set(flags.collect())),
    ])
}

fn list(libraries: &[Arc<Library>], options: Args<'_>) -> Reply {
    let (mut pattern, mut with_code, mut at) = (None, false, 0);
    while let Some(option) = options.get(at) {
        match *option {
            it if is(it, "WITHCODE") && !with_code => with_code = true,
            it if is(it, "LIBRARYNAME") && pattern.is_none() => {
                at += 1;
                let Some(name) = options.get(at) else {
                    return error("ERR library name argument was not given");
                };
                pattern = Some(*name);
            }
            other => {
                let other = String::from_utf8_lossy(other);
                return error(format!("ERR Unknown argument {other}"));
            }
        }
        at += 1;
    }
    let is_wanted = |it: &&Arc<Library>| {
        pattern.is_none_or(|pattern| glob::matches(pattern, it.name.as_bytes(), true))
    };
    let rows = libraries.iter().filter(is_wanted).map(|library| {
        let functions = library.functions.iter().map(function_row).collect();
        let mut row = vec![
            (Reply::bulk("library_name"), Reply::bulk(&library.name)),
            (Reply::bulk("engine"), Reply::bulk("LUA")),
            (Reply::bulk("functions"), Reply::Array(functions)),
        ];
        if with_code {
            row.push((Reply::bulk("library_code"), Reply::bulk(&library.source)));
        }
        Reply::Map(row)
    });
    Reply::Array(rows.collect())
}

fn stats(libraries: &[Arc<Library>]) -> Reply {
    let functions = libraries.iter().map(|it| it.functions.len()).sum();
    let counts = vec![
        (
            Reply::bulk("libraries_count"),
            Reply::count(libraries.len()),
        ),
        (Reply::bulk("functions_count"), Reply::count(functions)),
    ];
    Reply::Map(vec![
        (Reply::bulk("running_script"), Reply::Null),
        (
            Reply::bulk("engines"),
            Reply::Map(vec![(Reply::bulk("LUA"), Reply::Map(counts))]),
        ),
    ])
}

/// Loads the stored libraries when the database is opened.
///
/// # Errors
/// `Corruption` for a library that cannot be loaded again.
pub(crate) fn load_stored(databases: &Databases) -> hedgerow::Result<()> {
    let mut libraries = Vec::new();
    for source in databases.stored_libraries()? {
        let loaded = loaded(databases, &source);
        let added = loaded.and_then(|library| add(&mut libraries, library, false));
        added.map_err(|text| hedgerow::Error::new(hedgerow::ErrorKind::Corruption, text))?;
    }
    databases.scripts.set_libraries(libraries);
    Ok(())
}
