//! The public interface of the crate, compared with the list in `public-api.txt`: no item comes, goes or changes unseen.
//!
//! `LOKT_WRITE_API=1 cargo test -p lokt --test public_api` writes the list anew. A change of it is a line in CHANGELOG.md, and the
//! removal or change of a line is a new major version (before 1.0: a new minor one).

#![expect(clippy::disallowed_methods, reason = "the test reads sources, and writes the list when it is told to")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use quote::quote;
use syn::{Attribute, Fields, ImplItem, Item, ItemUse, TraitItem, Type, UseTree, Visibility};

/// The sources of one module, below its path in the crate.
struct Module {
    path: String,
    file: PathBuf,
    items: Vec<Item>,
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &Path) -> Vec<Item> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).items
}

/// The module at `file` and all modules below it.
fn modules(path: &str, file: PathBuf, found: &mut Vec<Module>) {
    let items = read(&file);
    let stem = file.file_stem().expect("it is a file").to_string_lossy().into_owned();
    let dir = file.parent().expect("it is in a directory");
    let below = if stem == "lib" || stem == "mod" { dir.to_owned() } else { dir.join(stem) };
    for item in &items {
        let Item::Mod(module) = item else { continue };
        if module.content.is_none() && !is_test(&module.attrs) {
            let name = module.ident.to_string();
            let places = [below.join(format!("{name}.rs")), below.join(&name).join("mod.rs")];
            let place = places.into_iter().find(|place| place.exists()).expect("a module has a file");
            modules(&format!("{path}::{name}"), place, found);
        }
    }
    found.push(Module { path: path.to_owned(), file, items });
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| quote!(#attribute).to_string().contains("cfg (test)"))
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| quote!(#attribute).to_string().contains("hidden"))
}

/// The text of the documentation.
fn docs(attributes: &[Attribute]) -> String {
    let docs = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    docs.map(|attribute| quote!(#attribute).to_string() + "\n").collect()
}

/// The traits that are derived.
fn derived(attributes: &[Attribute]) -> String {
    let derives = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
    derives.map(|attribute| attribute.parse_args::<proc_macro2::TokenStream>().expect("a list").to_string()).collect()
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// What a `pub use` names: the path it comes from, and its name.
fn leaves(tree: &UseTree, path: &str, found: &mut Vec<(String, String)>) {
    match tree {
        UseTree::Path(inner) => leaves(&inner.tree, &format!("{path}{}::", inner.ident), found),
        UseTree::Name(name) => found.push((format!("{path}{}", name.ident), name.ident.to_string())),
        UseTree::Rename(renamed) => found.push((format!("{path}{}", renamed.ident), renamed.rename.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, path, found)),
        UseTree::Glob(_) => panic!("a glob hides what is public: {path}*"),
    }
}

/// One line of Rust, as rustfmt would write it if lines had no end.
fn line(tokens: proc_macro2::TokenStream) -> String {
    let file: syn::File = syn::parse2(tokens).expect("it is Rust");
    let text = prettyplease::unparse(&file);
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    joined.replace("( ", "(").replace(", )", ")").replace(" {}", "").replace("< ", "<").trim_end_matches(';').to_owned()
}

fn named(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

/// The lines of one public type, function or trait, and of what is implemented for it.
fn describe(name: &str, at: &str, module: &Module, all: &[Module], lines: &mut BTreeSet<String>) {
    let mut type_docs = String::new();
    for item in &module.items {
        match item {
            Item::Struct(item) if item.ident == name => {
                type_docs = docs(&item.attrs);
                let (ident, generics) = (&item.ident, &item.generics);
                lines.insert(format!("{at}: {}", line(quote!(pub struct #ident #generics {}))));
                lines.insert(format!("{at}: derive({})", derived(&item.attrs)));
                let open = item.fields.iter().find(|field| is_public(&field.vis));
                assert!(open.is_none(), "{at} has a public field, which can never change");
            }
            Item::Enum(item) if item.ident == name => {
                type_docs = docs(&item.attrs);
                let open = item.attrs.iter().any(|attribute| attribute.path().is_ident("non_exhaustive"));
                assert!(open, "{at} may grow: it needs #[non_exhaustive]");
                lines.insert(format!("{at}: pub enum {name}"));
                lines.insert(format!("{at}: derive({})", derived(&item.attrs)));
                for variant in &item.variants {
                    let (ident, fields) = (&variant.ident, &variant.fields);
                    let mut fields = fields.clone();
                    match &mut fields {
                        Fields::Named(named) => named.named.iter_mut().for_each(|field| field.attrs.clear()),
                        Fields::Unnamed(unnamed) => unnamed.unnamed.iter_mut().for_each(|field| field.attrs.clear()),
                        Fields::Unit => {}
                    }
                    let shown = line(quote!(enum E { #ident #fields }));
                    let shown = shown.trim_start_matches("enum E { ").trim_end_matches(", }").to_owned();
                    lines.insert(format!("{at}::{shown}"));
                }
            }
            Item::Trait(item) if item.ident == name => {
                lines.insert(format!("{at}: pub trait {name}"));
                for item in &item.items {
                    match item {
                        TraitItem::Fn(method) => {
                            let signature = &method.sig;
                            lines.insert(format!("{at}::{}", line(quote!(#signature {}))));
                        }
                        TraitItem::Type(ty) => {
                            lines.insert(format!("{at}::type {}", ty.ident));
                        }
                        _ => {}
                    }
                }
            }
            Item::Fn(item) if item.sig.ident == name => {
                let signature = &item.sig;
                lines.insert(format!("{at}: {}", line(quote!(pub #signature {}))));
            }
            Item::Const(item) if item.ident == name => {
                let ty = &item.ty;
                lines.insert(format!("{at}: pub const {name}: {}", quote!(#ty)));
            }
            Item::Type(item) if item.ident == name => panic!("{at} is an alias; name the type itself"),
            _ => {}
        }
    }
    for item in all.iter().flat_map(|module| &module.items) {
        let Item::Impl(implementation) = item else { continue };
        if named(&implementation.self_ty).as_deref() != Some(name) {
            continue;
        }
        if let Some((_, of, _)) = &implementation.trait_ {
            let (generics, ty) = (&implementation.generics, &implementation.self_ty);
            if !quote!(#of).to_string().starts_with("sealed") {
                lines.insert(format!("{at}: {}", line(quote!(impl #generics #of for #ty {}))));
            }
            continue;
        }
        for item in &implementation.items {
            let ImplItem::Fn(method) = item else { continue };
            if is_public(&method.vis) && !is_hidden(&method.attrs) {
                let (signature, visibility) = (&method.sig, &method.vis);
                let text = line(quote!(struct S; impl S { #visibility #signature {} }));
                let text = text.trim_start_matches("struct S; impl S { ").trim_end_matches(" }").to_owned();
                lines.insert(format!("{at}::{text}"));
                let fails = quote!(#signature).to_string().contains("-> Result");
                let (method_docs, name) = (docs(&method.attrs), &signature.ident);
                assert!(
                    !fails || method_docs.contains("# Errors"),
                    "{at}::{name} returns a Result and has no `# Errors`"
                );
                let shown = method_docs.contains("```") || type_docs.contains("```");
                assert!(!fails || shown, "{at}::{name} can fail, and neither it nor its type has an example");
            }
        }
    }
}

/// Where the items of another crate of ours are, for those that are re-exported.
fn sources_of(krate: &str) -> Option<PathBuf> {
    Some(here().join("..").join(krate.strip_prefix("lokt_")?).join("src/lib.rs"))
}

fn public_api() -> String {
    let mut ours = Vec::new();
    modules("lokt", here().join("src/lib.rs"), &mut ours);
    let mut others: BTreeMap<String, Vec<Module>> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    let public: BTreeSet<String> = {
        let mut public = BTreeSet::from(["lokt".to_owned()]);
        for module in ours.iter().rev() {
            for item in &module.items {
                if let Item::Mod(inner) = item
                    && is_public(&inner.vis)
                {
                    public.insert(format!("{}::{}", module.path, inner.ident));
                }
            }
        }
        public
    };
    for module in ours.iter().filter(|module| public.contains(&module.path)) {
        for item in &module.items {
            let Item::Use(ItemUse { vis, tree, .. }) = item else { continue };
            if !is_public(vis) {
                continue;
            }
            let mut found = Vec::new();
            leaves(tree, "", &mut found);
            for (from, name) in found {
                let at = format!("{}::{name}", module.path);
                let (place, original) = from.rsplit_once("::").expect("it comes from a module");
                let krate = place.split("::").next().expect("a path has a beginning").to_owned();
                let (all, path): (&[Module], String) = match sources_of(&krate) {
                    Some(lib) => {
                        let theirs = others.entry(krate.clone()).or_insert_with(|| {
                            let mut found = Vec::new();
                            modules(&krate, lib, &mut found);
                            found
                        });
                        (theirs, place.to_owned())
                    }
                    None => (&ours, inside(&module.path, place)),
                };
                let source = all.iter().find(|module| module.path == path);
                let source = source.unwrap_or_else(|| panic!("{at} comes from {path}, which has no file"));
                let before = lines.len();
                describe(original, &at, source, all, &mut lines);
                assert!(lines.len() > before, "{at} was found in {}", source.file.display());
            }
        }
    }
    lines.into_iter().map(|line| line.replace("crate::", "lokt::").replace(" ,", ",") + "\n").collect()
}

/// The path of a module that a `pub use` in `module` names.
fn inside(module: &str, place: &str) -> String {
    let place = place.trim_start_matches("self::");
    match place.strip_prefix("crate") {
        Some(rest) => format!("lokt{rest}"),
        None => format!("{module}::{place}"),
    }
}

#[test]
fn the_public_interface_is_the_one_that_is_listed() {
    let (file, now) = (here().join("public-api.txt"), public_api());
    if std::env::var_os("LOKT_WRITE_API").is_some() {
        fs::write(&file, &now).expect("the checkout is writable");
    }
    let listed = fs::read_to_string(&file).unwrap_or_default();
    let (now, listed): (BTreeSet<&str>, BTreeSet<&str>) = (now.lines().collect(), listed.lines().collect());
    let (new, gone): (Vec<_>, Vec<_>) = (now.difference(&listed).collect(), listed.difference(&now).collect());
    assert!(
        new.is_empty() && gone.is_empty(),
        "the public interface changed. New: {new:#?}\ngone: {gone:#?}\n`LOKT_WRITE_API=1 cargo test -p lokt --test public_api` lists it"
    );
}

#[test]
fn no_signature_names_a_crate_that_is_not_ours() {
    let api = public_api();
    for foreign in ["jiff", "rustix", "serde_json", "Timestamp", "Value", "lokt_"] {
        let named: Vec<&str> = api.lines().filter(|line| line.contains(foreign)).collect();
        assert!(named.is_empty(), "{foreign} is in the public interface: {named:#?}");
    }
}

#[test]
fn every_type_can_be_printed_for_debugging() {
    let api = public_api();
    for line in api.lines().filter(|line| line.contains(": pub struct ") || line.contains(": pub enum ")) {
        let at = line.split(": ").next().expect("a line has a beginning");
        let prints =
            |other: &str| other.contains("fmt::Debug for") || other.contains(": derive(") && other.contains("Debug");
        assert!(api.lines().any(|other| other.starts_with(&format!("{at}: ")) && prints(other)), "{at} has no Debug");
    }
}

#[test]
fn the_front_has_few_items() {
    let api = public_api();
    let items: BTreeSet<&str> = api
        .lines()
        .filter_map(|line| line.split_once(": pub "))
        .map(|(at, _)| at)
        .filter(|at| at.matches("::").count() == 1)
        .collect();
    assert!((15..=30).contains(&items.len()), "about 25 items at the front, not {}: {items:#?}", items.len());
}
