//! The public items of the published crates, as lists in the repository: a change of the API shows
//! in a diff.
//!
//! The list of a crate has every item that its users can name, with its public fields and methods
//! and the traits that it implements. It is made from the sources, so it needs no compiler of its
//! own. It does not see auto traits (`Send`), and of a macro that implements traits only the call.

mod modules;
mod print;

use modules::Modules;

use crate::tidy::Sources;

/// The crates with a list.
const CRATES: [&str; 6] = [
    "hedgerow",
    "hedgerow-bench",
    "hedgerow-copies",
    "hedgerow-io",
    "hedgerow-mem",
    "hedgerow-server",
];
const COMMAND: &str = "HEDGEROW_BLESS=1 cargo test -p xtask public";

/// The path of the list of a crate.
fn list_of(name: &str) -> String {
    format!("crates/{name}/public-api.txt")
}

/// Returns the first difference between the list and the sources of each crate.
pub(crate) fn check(sources: &Sources) -> Vec<String> {
    let difference = |name: &str| {
        let path = list_of(name);
        let recorded = sources.texts.get(&path).map_or("", String::as_str);
        let found = list(sources, name);
        let lines = found.lines().chain([""]).zip(recorded.lines().chain([""]));
        let line = lines
            .take_while(|(found, recorded)| found == recorded)
            .count();
        (found != recorded).then(|| {
            let new = found.lines().nth(line).unwrap_or("the end");
            format!(
                "{path}:{}: the public items changed: `{new}`; see {COMMAND}",
                line + 1
            )
        })
    };
    CRATES.into_iter().filter_map(difference).collect()
}

/// The public items of a crate as text.
fn list(sources: &Sources, name: &str) -> String {
    let modules = Modules::read(sources, &format!("crates/{name}/src/"));
    let root = name.replace('-', "_");
    format!("# Written by {COMMAND}\n{}", print::items(&modules, &root))
}

/// Writes the lists of all crates.
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a tool on the real file system")]
fn write(root: &std::path::Path) {
    let sources = Sources::read(root);
    for name in CRATES {
        let path = root.join(list_of(name));
        let list = list(&sources, name);
        std::fs::write(&path, list).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

#[cfg(test)]
mod tests;
