//! The text of a list: a section for each public module, with its items by name.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Block, Fields, File, GenericArgument, ImplItem, Item, ItemImpl, PatIdent,
    PathArguments, Receiver, ReceiverKind, Type, Visibility,
};

use super::modules::{Import, Module, Modules, Target, ident, imports, is_conditional};

/// Attributes that users notice.
const ATTRIBUTES: [&str; 6] = [
    "default",
    "deprecated",
    "derive",
    "must_use",
    "non_exhaustive",
    "repr",
];

/// The public items of a crate, whose root has this name.
pub(super) fn items(modules: &Modules, root: &str) -> String {
    let mut sections = Vec::new();
    collect(modules, &Module::new(), root.to_owned(), &mut sections);
    let public: BTreeSet<Target> = sections
        .iter()
        .flat_map(|section| section.items.values().cloned())
        .collect();
    let impls = Impls::of(modules, &public);
    let mut text = String::new();
    for section in &sections {
        text += &format!("\nmod {}\n", section.name);
        for (name, from) in &section.foreign {
            text += &format!("\npub use {from} as {name};\n");
        }
        for (name, target) in &section.items {
            let Target::Item(module, defined) = target else {
                continue;
            };
            let Some(item) = modules.item(module, defined) else {
                continue;
            };
            text.push('\n');
            if name != defined {
                text += &format!("# {defined} as {name}\n");
            }
            text += &printed(item.clone());
            for line in impls.0.get(target).into_iter().flatten() {
                text += line;
            }
        }
    }
    text
}

/// The items of one public module.
struct Section {
    name: String,
    items: BTreeMap<String, Target>,
    /// Names of other crates.
    foreign: BTreeMap<String, String>,
}

fn collect(modules: &Modules, module: &Module, name: String, sections: &mut Vec<Section>) {
    let mut items = BTreeMap::new();
    let mut foreign = BTreeMap::new();
    let mut below = BTreeMap::new();
    let mut export = |Import { path, name }: Import| match modules.target(module, &path) {
        Some(Target::Module(module)) => drop(below.insert(name, module)),
        Some(target) => drop(items.insert(name, target)),
        None => drop(foreign.insert(name, path.join("::"))),
    };
    for item in modules.items(module) {
        match item {
            Item::Use(item) if is_public(&item.vis) => {
                imports(&item.tree).into_iter().for_each(&mut export);
            }
            item if visibility(item).is_some_and(is_public) => {
                let name = match item {
                    Item::Mod(item) => &item.ident,
                    item => ident(item).expect("an item with a visibility has a name"),
                };
                let name = name.to_string();
                let path = vec!["self".to_owned(), name.clone()];
                export(Import { path, name });
            }
            _ => {}
        }
    }
    sections.push(Section {
        name: name.clone(),
        items,
        foreign,
    });
    for (child, module) in below {
        collect(modules, &module, format!("{name}::{child}"), sections);
    }
}

/// The text of the implementations of each public item, first its own methods.
struct Impls(BTreeMap<Target, Vec<String>>);

impl Impls {
    fn of(modules: &Modules, public: &BTreeSet<Target>) -> Impls {
        let mut own: BTreeMap<(Target, String), ItemImpl> = BTreeMap::new();
        let mut texts: BTreeMap<Target, BTreeSet<String>> = BTreeMap::new();
        for (module, items) in modules.all() {
            for item in items {
                match item {
                    Item::Impl(item) if item.trait_.is_none() => {
                        let Some(target) = modules.target_of_type(module, &item.self_ty) else {
                            continue;
                        };
                        let methods = public_items(item);
                        if methods.is_empty() || !public.contains(&target) {
                            continue;
                        }
                        let empty = ItemImpl {
                            items: Vec::new(),
                            ..item.clone()
                        };
                        let header = printed(Item::Impl(empty.clone()));
                        let merged = own.entry((target, header)).or_insert(empty);
                        merged.items.extend(methods);
                    }
                    Item::Impl(item) => {
                        for target in implemented(modules, module, item, public) {
                            let text = printed(Item::Impl(without_methods(item)));
                            texts.entry(target).or_default().insert(text);
                        }
                    }
                    Item::Macro(item) if item.ident.is_none() => {
                        let Some(name) = item.mac.tokens.clone().into_iter().next() else {
                            continue;
                        };
                        let target = modules.target(module, &[name.to_string()]);
                        if let Some(target) = target.filter(|target| public.contains(target)) {
                            let text = format!("{};\n", tokens(item));
                            texts.entry(target).or_default().insert(text);
                        }
                    }
                    _ => {}
                }
            }
        }
        let mut all: BTreeMap<Target, Vec<String>> = BTreeMap::new();
        for ((target, _), mut item) in own {
            item.items.sort_by_key(name_of);
            let text = printed(Item::Impl(item));
            all.entry(target).or_default().push(text);
        }
        for (target, texts) in texts {
            all.entry(target).or_default().extend(texts);
        }
        Impls(all)
    }
}

/// The call of a macro: its name and its first words.
fn tokens(item: &syn::ItemMacro) -> String {
    let name = item.mac.path.segments.iter().map(|it| it.ident.to_string());
    let name = name.collect::<Vec<_>>().join("::");
    format!("{name}!({})", item.mac.tokens)
}

/// The public items that an implementation of a trait belongs to: its type, or else the types in
/// the arguments of the trait. There are none if the trait is not public.
fn implemented(
    modules: &Modules,
    module: &Module,
    item: &ItemImpl,
    public: &BTreeSet<Target>,
) -> Vec<Target> {
    let Some((path, _)) = &item.trait_ else {
        return Vec::new();
    };
    let of = modules.target_of_path(module, path);
    if of.is_some_and(|of| !public.contains(&of)) {
        return Vec::new();
    }
    let is_public = |target: &Target| public.contains(target);
    if let Some(target) = modules.target_of_type(module, &item.self_ty) {
        return Some(target).filter(is_public).into_iter().collect();
    }
    let arguments = path.segments.iter().flat_map(|it| match &it.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.iter().collect(),
        _ => Vec::new(),
    });
    let types = arguments.filter_map(|argument| match argument {
        GenericArgument::Type(ty) => modules.target_of_type(module, inner(ty)),
        _ => None,
    });
    types.filter(is_public).collect()
}

/// The type behind references.
fn inner(ty: &Type) -> &Type {
    match ty {
        Type::Reference(reference) => inner(&reference.elem),
        ty => ty,
    }
}

fn public_items(item: &ItemImpl) -> Vec<ImplItem> {
    let is_listed = |item: &&ImplItem| match item {
        ImplItem::Fn(item) => is_public(&item.vis) && !is_conditional(&item.attrs),
        ImplItem::Const(item) => is_public(&item.vis),
        _ => false,
    };
    item.items.iter().filter(is_listed).cloned().collect()
}

fn without_methods(item: &ItemImpl) -> ItemImpl {
    let mut item = item.clone();
    item.items.retain(|item| !matches!(item, ImplItem::Fn(_)));
    item
}

fn name_of(item: &ImplItem) -> String {
    match item {
        ImplItem::Fn(item) => item.sig.ident.to_string(),
        ImplItem::Const(item) => item.ident.to_string(),
        _ => String::new(),
    }
}

fn visibility(item: &Item) -> Option<&Visibility> {
    match item {
        Item::Const(item) => Some(&item.vis),
        Item::Enum(item) => Some(&item.vis),
        Item::Fn(item) => Some(&item.vis),
        Item::Mod(item) => Some(&item.vis),
        Item::Static(item) => Some(&item.vis),
        Item::Struct(item) => Some(&item.vis),
        Item::Trait(item) => Some(&item.vis),
        Item::Type(item) => Some(&item.vis),
        _ => None,
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// An item as users see it.
fn printed(mut item: Item) -> String {
    Face.visit_item_mut(&mut item);
    let file = File {
        shebang: None,
        frontmatter: None,
        attrs: Vec::new(),
        items: vec![item],
    };
    let text = prettyplease::unparse(&file);
    text.replace("    private: _,\n", "    // private fields\n")
        .replace(",\n    {}\n", ";\n")
        .replace(" {}\n", ";\n")
        .replace("{\n        ..\n    }", "{ .. }")
}

/// Reduces an item to its face: no bodies, documents and private fields.
struct Face;

impl VisitMut for Face {
    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        attributes.retain(|it| ATTRIBUTES.iter().any(|name| it.path().is_ident(name)));
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        block.stmts.clear();
    }

    fn visit_trait_item_fn_mut(&mut self, item: &mut syn::TraitItemFn) {
        visit_mut::visit_trait_item_fn_mut(self, item);
        if let Some(default) = &mut item.default {
            *default = syn::parse_quote!({ .. });
        }
    }

    fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
        pattern.mutability = None;
    }

    fn visit_receiver_mut(&mut self, receiver: &mut Receiver) {
        if matches!(receiver.kind, ReceiverKind::Value) {
            receiver.mutability = None;
        }
    }

    fn visit_item_struct_mut(&mut self, item: &mut syn::ItemStruct) {
        visit_mut::visit_item_struct_mut(self, item);
        match &mut item.fields {
            Fields::Named(fields) => {
                let all = fields.named.len();
                let public = std::mem::take(&mut fields.named).into_iter();
                fields.named = public.filter(|field| is_public(&field.vis)).collect();
                if fields.named.len() < all {
                    let private: syn::FieldsNamed = syn::parse_quote!({ private: _ });
                    fields.named.extend(private.named);
                }
            }
            Fields::Unnamed(fields) => {
                let private = |field: &&mut syn::Field| !is_public(&field.vis);
                for field in fields.unnamed.iter_mut().filter(private) {
                    field.vis = Visibility::Inherited;
                    field.ty = syn::parse_quote!(_);
                }
            }
            Fields::Unit => {}
        }
    }
}
