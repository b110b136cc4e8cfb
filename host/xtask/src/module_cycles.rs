//! Modules that use each other in a circle, crate by crate. None of them can be tested, moved or
//! read alone.
//!
//! A module is a file. It uses another if it names a path of it: a child its parent, and a parent
//! its child, like any other. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

/// The names of a module from the root of its crate.
type Module = Vec<String>;

/// What the files of each module say.
type Texts = BTreeMap<Module, Vec<String>>;

/// What each module of a crate uses.
type Uses = BTreeMap<Module, BTreeSet<Module>>;

/// The paths that a file names, outside of tests.
#[derive(Default)]
struct Paths(Vec<Vec<String>>);

impl Paths {
    /// The paths of a use, braces taken apart.
    fn tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| {
            let mut path = before.to_vec();
            path.push(name.to_string());
            path
        };
        match tree {
            syn::UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.0.push(with(&name.ident)),
            syn::UseTree::Rename(name) => self.0.push(with(&name.ident)),
            syn::UseTree::Glob(_) => self.0.push(before.to_vec()),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(before, tree));
            }
        }
    }

    /// Paths among the arguments of a macro, which are not parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Vec::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.0.push(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.0.push(std::mem::take(&mut path));
                    self.tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.0.push(std::mem::take(&mut path));
                }
            }
        }
        self.0.push(path);
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .meta
                .require_list()
                .is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

impl<'f> Visit<'f> for Paths {
    fn visit_item_mod(&mut self, item: &'f syn::ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'f syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.tree(&[], &item.tree);
        }
    }

    /// To say where something is seen uses nothing.
    fn visit_vis_restricted(&mut self, _: &'f syn::VisRestricted) {}

    fn visit_path(&mut self, path: &'f syn::Path) {
        let names = path.segments.iter().map(|part| part.ident.to_string());
        self.0.push(names.collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'f syn::Macro) {
        self.tokens(call.tokens.clone());
    }
}

/// The Rust files of a folder, with those of its folders.
pub fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let found = paths.flat_map(|path| {
        if path.is_dir() {
            sources(&path)
        } else {
            vec![path]
        }
    });
    found
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The module that a file of a crate is; nothing for tests. A library and its program are both the
/// root.
fn module_of(file: &Path) -> Option<Module> {
    let names = file.with_extension("");
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    let mut module: Module = names.collect();
    let is_of_tests = |name: &String| name == "tests" || name.starts_with("test_");
    if module.iter().any(is_of_tests) {
        return None;
    }
    module.pop_if(|name| ["lib", "main", "mod"].contains(&name.as_str()));
    Some(module)
}

/// What the files of a crate say, by the module that they are.
fn texts(folder: &Path) -> Texts {
    let mut found = Texts::new();
    for file in sources(folder) {
        let inside = file.strip_prefix(folder).expect("a file of the folder");
        let Some(module) = module_of(inside) else {
            continue;
        };
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        found.entry(module).or_default().push(text);
    }
    found
}

/// The module that a path leads to, seen from another.
fn resolve(modules: &Texts, own: &Module, path: &[String]) -> Option<Module> {
    let mut rest = path;
    let mut at = match rest.first()?.as_str() {
        "crate" => {
            rest = &rest[1..];
            Module::new()
        }
        "self" | "super" => {
            let mut at = own.clone();
            while let Some(first) = rest
                .first()
                .filter(|name| ["self", "super"].contains(&&***name))
            {
                if first == "super" {
                    at.pop();
                }
                rest = &rest[1..];
            }
            at
        }
        child => {
            let mut at = own.clone();
            at.push(child.to_owned());
            if path.len() < 2 || !modules.contains_key(&at) {
                return None;
            }
            own.clone()
        }
    };
    for name in rest {
        at.push(name.clone());
        if !modules.contains_key(&at) {
            at.pop();
            break;
        }
    }
    Some(at)
}

/// What the modules of a crate use of each other.
fn uses(folder: &Path) -> Uses {
    let found = texts(folder);
    let used = |(own, texts): (&Module, &Vec<String>)| {
        let mut paths = Paths::default();
        for text in texts {
            let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{own:?}: {error}"));
            paths.visit_file(&file);
        }
        let used = paths.0.iter().filter_map(|path| resolve(&found, own, path));
        let used = used.filter(|module| module != own && found.contains_key(module));
        (own.clone(), used.collect())
    };
    found.iter().map(used).collect()
}

/// All that a module leads to.
fn reach(uses: &Uses, from: &Module) -> BTreeSet<Module> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for next in uses.get(module).into_iter().flatten() {
            if reached.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    reached
}

/// Modules each of which leads to all the others, largest group first.
pub fn circles(folder: &Path) -> Vec<Vec<String>> {
    let uses = uses(folder);
    let reached: BTreeMap<&Module, BTreeSet<Module>> = uses
        .keys()
        .map(|module| (module, reach(&uses, module)))
        .collect();
    let mut groups = BTreeSet::new();
    for (module, others) in &reached {
        let back = |other: &&Module| reached[*other].contains(*module);
        let group: Vec<&Module> = others.iter().filter(back).collect();
        if group.len() > 1 {
            let named = group.iter().map(|module| match module.is_empty() {
                true => "the root".to_owned(),
                false => module.join("::"),
            });
            groups.insert(named.collect::<Vec<_>>());
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups
}

/// Uses of a room by one before it, in this order. A room is a module of a crate's root.
fn backward(folder: &Path, order: &[&str]) -> Vec<String> {
    let place = |module: &Module| {
        let room = module.first()?;
        let place = order.iter().position(|name| name == room);
        Some(place.unwrap_or_else(|| panic!("{room} has no place in the order of rooms")))
    };
    let mut wrong = Vec::new();
    for (module, others) in uses(folder) {
        for other in others {
            if let (Some(own), Some(used)) = (place(&module), place(&other))
                && own < used
            {
                wrong.push(format!("{} uses {}", module.join("::"), other.join("::")));
            }
        }
    }
    wrong
}

mod tests {
    use super::{backward, circles};

    /// The rooms of the live loop. Each knows only those before it.
    const ROOMS: [&str; 17] = [
        "canary",
        "config",
        "error",
        "generated_pages",
        "process",
        "managed",
        "status",
        "observe",
        "bootstrap",
        "policies",
        "decide",
        "metrics",
        "act",
        "serve",
        "aws",
        "controller",
        "environment",
    ];

    #[test]
    fn rooms_of_the_loop_know_only_those_before_them() {
        let folder = longshore_xtask::guests::root().join("host/live/src");
        let wrong = backward(&folder, &ROOMS);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// The most modules of a crate that may use each other in a circle. Where a crate has fewer by
    /// now, its number here becomes smaller with it.
    const LARGEST: [(&str, usize); 18] = [
        ("api", 4),
        ("aws", 4),
        ("cloud", 4),
        ("core", 4),
        ("daemon", 4),
        ("ec2", 4),
        ("emulator", 4),
        ("fuzz", 4),
        ("journal", 4),
        ("kwok", 4),
        ("live", 4),
        ("objects", 4),
        ("policy", 4),
        ("report", 4),
        ("sim", 4),
        ("simcluster", 4),
        ("userdata", 4),
        ("xtask", 4),
    ];

    #[test]
    fn few_modules_use_each_other_in_a_circle() {
        let mut wrong = Vec::new();
        for (name, most) in LARGEST {
            let groups = circles(&longshore_xtask::guests::root().join(format!("host/{name}/src")));
            let largest = groups.first().map_or(1, Vec::len);
            if largest > most || largest < most && most > 4 {
                wrong.push(format!(
                    "{name}: {largest} for {most}: {:?}",
                    groups.first()
                ));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
