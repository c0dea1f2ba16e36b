//! Modules of the engine import each other in no circle. A module that declares another one may
//! name it: a contract names its variants, and these name the contract.

use std::collections::{BTreeMap, BTreeSet};

use super::Sources;
use super::rust::words;

const ENGINE: &str = "crates/hedgerow/src/";

/// The names from the root of the crate to a module.
type Module = Vec<String>;

pub(crate) fn check(sources: &Sources) -> Vec<String> {
    let modules: BTreeMap<Module, (&str, &str)> = sources
        .code_under(ENGINE)
        .map(|(path, code)| (module_of(path), (path, code)))
        .collect();
    let mut imports: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (module, (_, code)) in &modules {
        let targets = paths(code)
            .filter_map(|path| target(module, &path, &modules))
            .filter(|target| !target.starts_with(module));
        imports.insert(module, targets.collect());
    }
    let path = |module: &Module| modules[module].0;
    let circles = circles(&imports).into_iter().map(|circle| {
        let others: Vec<&str> = circle[1..].iter().map(|module| path(module)).collect();
        let others = others.join(", ");
        format!("{}:1: imports in a circle with {others}", path(circle[0]))
    });
    circles.collect()
}

fn module_of(path: &str) -> Module {
    let inside = path[ENGINE.len()..].trim_end_matches(".rs");
    let parts = inside
        .split('/')
        .filter(|part| !["mod", "lib"].contains(part));
    parts.map(str::to_owned).collect()
}

/// The paths of a file that begin with `crate` or `super`; those of a group in braces one by one.
fn paths(code: &str) -> impl Iterator<Item = String> + '_ {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    ["crate::", "super::"].into_iter().flat_map(move |root| {
        code.match_indices(root).flat_map(move |(at, _)| {
            let longer = code[..at].ends_with(is_path);
            let rest = &code[at..];
            let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
            let (stem, group) = rest.split_at(end);
            let mut found = Vec::new();
            if longer {
                return found;
            }
            match group.strip_prefix('{').filter(|_| stem.ends_with("::")) {
                None => found.push(stem.to_owned()),
                Some(group) => {
                    let names = group.split(['{', '}', ';']).next().unwrap_or("");
                    let names = names.split(',').map(str::trim);
                    found.extend(names.map(|name| format!("{stem}{name}")));
                }
            }
            found
        })
    })
}

/// The module that a path leads to: the longest that it names, or the child whose item that one
/// hands on under its own name.
fn target<'a>(
    from: &Module,
    path: &str,
    modules: &'a BTreeMap<Module, (&str, &str)>,
) -> Option<&'a Module> {
    let mut names = path.split("::").peekable();
    let mut module = match names.next_if_eq(&"crate") {
        Some(_) => Module::new(),
        None => from.clone(),
    };
    while names.next_if_eq(&"super").is_some() {
        module.pop();
    }
    for name in names {
        module.push(name.to_owned());
        if !modules.contains_key(&module) {
            module.pop();
            let (_, code) = modules.get(&module)?;
            module.extend(child_with(code, name).map(str::to_owned));
            break;
        }
    }
    modules.get_key_value(&module).map(|(module, _)| module)
}

/// The child of a module from which it imports a name.
fn child_with<'a>(code: &'a str, name: &str) -> Option<&'a str> {
    let statements = code.split(';').filter_map(|it| it.rsplit_once("use "));
    let mut imports = statements.filter_map(|(_, path)| path.split_once("::"));
    let (child, _) = imports.find(|(child, names)| {
        !["crate", "super", "std"].contains(child) && words(names, name).next().is_some()
    })?;
    Some(child)
}

/// The modules of each circle: those that lead to each other.
fn circles<'a>(imports: &BTreeMap<&'a Module, BTreeSet<&'a Module>>) -> Vec<Vec<&'a Module>> {
    let reach = |from: &'a Module| {
        let mut reached = BTreeSet::new();
        let mut left = vec![from];
        while let Some(module) = left.pop() {
            let next = imports.get(module).into_iter().flatten();
            left.extend(next.filter(|module| reached.insert(**module)));
        }
        reached
    };
    let reached: BTreeMap<_, _> = imports.keys().map(|it| (*it, reach(it))).collect();
    let mut circles = Vec::new();
    for (module, beyond) in &reached {
        let circle = beyond.iter().filter(|it| reached[**it].contains(module));
        let circle: Vec<&Module> = circle.copied().collect();
        // The first of a circle reports it.
        if circle.len() > 1 && circle[0] == *module {
            circles.push(circle);
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Sources::of(files))
    }

    #[test]
    fn a_circle_is_found_whatever_its_way() {
        let a = "crates/hedgerow/src/paths/a.rs";
        let (b, c) = (
            "crates/hedgerow/src/paths/b.rs",
            "crates/hedgerow/src/c/mod.rs",
        );
        assert_eq!(
            found(&[
                (a, "use super::b::{f, g};"),
                (b, "use crate::{c, e::f};"),
                (c, "fn f() { crate::paths::a::g() }"),
                ("crates/hedgerow/src/d.rs", "use crate::paths::a;"),
                ("crates/hedgerow/src/paths/mod.rs", "mod a;\nmod b;"),
            ]),
            [format!("{c}:1: imports in a circle with {a}, {b}")]
        );
    }

    #[test]
    fn a_name_that_the_parent_hands_on_hides_no_circle() {
        let (a, b) = (
            "crates/hedgerow/src/scan/a.rs",
            "crates/hedgerow/src/scan/b.rs",
        );
        let files = [
            (
                "crates/hedgerow/src/scan/mod.rs",
                "mod a;\nmod b;\npub use b::{B, C};",
            ),
            (a, "use super::B;"),
            (b, "use super::a::f;"),
        ];
        assert_eq!(
            found(&files),
            [format!("{a}:1: imports in a circle with {b}")]
        );
    }

    #[test]
    fn a_contract_names_its_variants() {
        let files = [
            ("crates/hedgerow/src/order/mod.rs", "fn f() { sorted::g() }"),
            ("crates/hedgerow/src/order/sorted.rs", "use super::Order;"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
