//! The modules of a crate as syntax trees, and the items that their paths lead to.

use std::collections::BTreeMap;

use syn::{Attribute, Ident, Item, Meta, Type, UseTree};

use crate::tidy::Sources;

/// The names from the root of the crate to a module.
pub(super) type Module = Vec<String>;

/// The items that all builds of a crate compile, by module.
pub(super) struct Modules(BTreeMap<Module, Vec<Item>>);

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Module(Module),
    /// The item of a module with this name.
    Item(Module, String),
}

/// One name that a `use` declares.
pub(super) struct Import {
    pub(super) path: Vec<String>,
    pub(super) name: String,
}

/// A path of imports longer than this is a circle.
const IMPORTS_MAX: usize = 20;

impl Modules {
    /// Reads the crate in a folder that ends with `/`.
    pub(super) fn read(sources: &Sources, folder: &str) -> Modules {
        let mut modules = Modules(BTreeMap::new());
        modules.read_file(sources, &format!("{folder}lib.rs"), folder, Module::new());
        modules
    }

    /// Reads a file and the files of its modules, which are in `folder`.
    fn read_file(&mut self, sources: &Sources, path: &str, folder: &str, module: Module) {
        let text = sources.texts.get(path).map_or("", String::as_str);
        let file = syn::parse_file(text).unwrap_or_else(|e| panic!("{path}: {e}"));
        self.add(sources, file.items, folder, module);
    }

    fn add(&mut self, sources: &Sources, mut items: Vec<Item>, folder: &str, module: Module) {
        items.retain(|item| !is_conditional(attributes(item)));
        for item in &mut items {
            let Item::Mod(declared) = item else {
                continue;
            };
            let name = declared.ident.to_string();
            let below = format!("{folder}{name}/");
            let child = [module.as_slice(), &[name]].concat();
            if let Some((_, items)) = declared.content.take() {
                self.add(sources, items, &below, child);
                continue;
            }
            let files = [
                below.trim_end_matches('/').to_owned() + ".rs",
                format!("{below}mod.rs"),
            ];
            if let Some(file) = files.iter().find(|file| sources.texts.contains_key(*file)) {
                self.read_file(sources, file, &below, child);
            }
        }
        self.0.insert(module, items);
    }

    /// All modules with their items.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Module, &[Item])> {
        self.0
            .iter()
            .map(|(module, items)| (module, items.as_slice()))
    }

    /// The items of a module.
    pub(super) fn items(&self, module: &Module) -> &[Item] {
        self.0.get(module).map_or(&[], Vec::as_slice)
    }

    /// The item of a module with this name.
    pub(super) fn item(&self, module: &Module, name: &str) -> Option<&Item> {
        let mut items = self.items(module).iter();
        items.find(|item| ident(item).is_some_and(|ident| ident == name))
    }

    /// The target of a path in a module; `None` outside of the crate.
    pub(super) fn target(&self, from: &Module, path: &[String]) -> Option<Target> {
        self.target_within(from, path, IMPORTS_MAX)
    }

    fn target_within(&self, from: &Module, path: &[String], left: usize) -> Option<Target> {
        let (last, modules) = path.split_last()?;
        let mut at = from.clone();
        for name in modules {
            at = match name.as_str() {
                "crate" => Module::new(),
                "self" => at,
                "super" => at[..at.len().checked_sub(1)?].to_vec(),
                _ => {
                    let child = [at.as_slice(), std::slice::from_ref(name)].concat();
                    match self.0.contains_key(&child) {
                        true => child,
                        false => match self.imported(&at, name, left)? {
                            Target::Module(module) => module,
                            Target::Item(..) => return None,
                        },
                    }
                }
            };
        }
        if self.item(&at, last).is_some() {
            return Some(Target::Item(at, last.clone()));
        }
        let child = [at.as_slice(), std::slice::from_ref(last)].concat();
        match self.0.contains_key(&child) {
            true => Some(Target::Module(child)),
            false => self.imported(&at, last, left),
        }
    }

    fn imported(&self, module: &Module, name: &str, left: usize) -> Option<Target> {
        let left = left.checked_sub(1)?;
        let imports = self.items(module).iter().filter_map(|item| match item {
            Item::Use(item) => Some(imports(&item.tree)),
            _ => None,
        });
        let mut imports = imports.flatten().filter(|import| import.name == name);
        imports.find_map(|import| self.target_within(module, &import.path, left))
    }

    /// The target of a type in a module, if the type is of this crate.
    pub(super) fn target_of_type(&self, from: &Module, ty: &Type) -> Option<Target> {
        match ty {
            Type::Path(path) => self.target_of_path(from, &path.path),
            _ => None,
        }
    }

    pub(super) fn target_of_path(&self, from: &Module, path: &syn::Path) -> Option<Target> {
        let names = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string());
        self.target(from, &names.collect::<Vec<_>>())
    }
}

/// The names that a `use` declares, each with its path. Of a glob there are none.
pub(super) fn imports(tree: &UseTree) -> Vec<Import> {
    let import = |path: &Ident, name: &Ident| Import {
        path: vec![path.to_string()],
        name: name.to_string(),
    };
    match tree {
        UseTree::Path(path) => {
            let mut found = imports(&path.tree);
            for import in &mut found {
                if import.name == "self" {
                    import.path.clear();
                    import.name = path.ident.to_string();
                }
                import.path.insert(0, path.ident.to_string());
            }
            found
        }
        UseTree::Name(name) => vec![import(&name.ident, &name.ident)],
        UseTree::Rename(renamed) => vec![import(&renamed.ident, &renamed.rename)],
        UseTree::Group(group) => group.items.iter().flat_map(imports).collect(),
        _ => Vec::new(),
    }
}

/// True for what some builds leave out: tests, documents, models, the parts for fuzzers.
pub(super) fn is_conditional(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            let names = ["test", "doc", "loom", "fuzzing", "\"internals\""];
            !condition.starts_with("not") && names.iter().any(|name| condition.contains(name))
        }
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name of an item that a path can lead to. A module is found by its path.
pub(super) fn ident(item: &Item) -> Option<&Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        _ => None,
    }
}
