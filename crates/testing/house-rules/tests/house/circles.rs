//! Import cycles within each crate, and the order of the folders of the native engine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::cargo::Graph;
use crate::files::{sources, top};
use crate::words::{Import, Source};

/// Limit of files in an import cycle: in a larger one, no file can be read alone.
const FILES: usize = 3;

/// Limit of folders and files directly in `src` in an import cycle.
const FOLDERS: usize = 1;

#[test]
fn no_import_cycle_is_wide() {
    let graph = Graph::read(&[]);
    let mut wide = Vec::new();
    let mut crates = 0;
    for package in graph.house() {
        let source = package.directory().join("src");
        if !source.is_dir() {
            continue;
        }
        crates += 1;
        let arrows = Arrows::within(&source);
        for (most, what, circles) in [
            (FILES, "files", arrows.circles()),
            (FOLDERS, "folders", arrows.folders().circles()),
        ] {
            let circles = circles.into_iter().filter(|circle| circle.len() > most);
            wide.extend(circles.map(|circle| format!("{}: {what} {circle:?}", package.name)));
        }
    }
    assert!(crates > 40, "only {crates} crates");
    assert!(
        wide.is_empty(),
        "files and folders that need each other: {wide:#?}"
    );
}

/// Layers of the engine from bottom to top: folders and single files. Each may use the earlier ones.
const FLOORS: &[&str] = &[
    // From a request to a specification, without a node.
    "spec",
    "error",
    "off_reactor",
    "config",
    "reach",
    // Stored state.
    "record",
    "image",
    // State of the running node.
    "node",
    // Validation of requests before anything is created.
    "ask",
    "checkpoint",
    "container",
    // Plugins may stop and change any container.
    "nri",
    "pod",
    "stats",
    "streaming",
    "after_restart",
    "doctor",
    // RPC methods.
    "engine",
    "gauges",
    "batches",
    "rpc",
    "rpc_images",
    "rpc_networks",
    "rpc_containers",
    "rpc_inspection",
    "service",
    // Start of the engine.
    "start",
    "reconfigure",
];

#[test]
fn no_floor_builds_on_one_above_it() {
    let arrows = Arrows::within(&top().join("crates/runtime/engine/src"));
    let floor = |module: &Module| {
        let name = module.first().map(String::as_str);
        name.map(|name| {
            let place = FLOORS.iter().position(|floor| *floor == name);
            place.unwrap_or_else(|| panic!("{name} has no place among the FLOORS yet"))
        })
    };
    let mut upward = BTreeSet::new();
    for (from, needs) in &arrows.from {
        for to in needs {
            // The crate's root only re-exports.
            if let (Some(lower), Some(upper)) = (floor(from), floor(to))
                && lower < upper
            {
                upward.insert(format!("{} uses {}", from.join("::"), to.join("::")));
            }
        }
    }
    assert!(upward.is_empty(), "arrows upward: {upward:#?}");
    let there: BTreeSet<_> = arrows
        .from
        .keys()
        .filter_map(|module| module.first())
        .collect();
    let stale: Vec<_> = FLOORS
        .iter()
        .filter(|floor| !there.iter().any(|name| name == *floor))
        .collect();
    assert!(stale.is_empty(), "floors that are not there: {stale:?}");
}

/// Import graph of a crate's files.
struct Arrows {
    files: BTreeMap<Module, File>,
    from: BTreeMap<Module, BTreeSet<Module>>,
}

/// Path of a module in its crate.
type Module = Vec<String>;

struct File {
    source: Source,
    /// Imported names with their paths from the crate's root.
    names: BTreeMap<String, Module>,
}

impl Arrows {
    fn within(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        let holds_tests = |path: &PathBuf| {
            let stem = path.file_stem().unwrap().to_string_lossy();
            stem.ends_with("tests")
        };
        for path in sources(root).into_iter().filter(|path| !holds_tests(path)) {
            let mut module = module_of(path.strip_prefix(root).unwrap());
            if module == ["main"] && !root.join("lib.rs").is_file() {
                module.clear();
            }
            let source = Source::read(&std::fs::read_to_string(&path).unwrap());
            let names = BTreeMap::new();
            files.insert(module, File { source, names });
        }
        let modules: BTreeSet<Module> = files.keys().cloned().collect();
        for (module, file) in &mut files {
            for Import { name, path } in &file.source.imports {
                if let Some(path) = from_root(&modules, module, path) {
                    file.names.insert(name.clone(), path);
                }
            }
        }
        let mut arrows = Self {
            files,
            from: BTreeMap::new(),
        };
        for module in modules {
            let needs = arrows.needs(&module);
            arrows.from.insert(module, needs);
        }
        arrows
    }

    /// Returns the graph of folders and files directly in `src`. The crate's root only re-exports.
    fn folders(&self) -> Self {
        let mut from: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        let folder = |module: &Module| module.first().map(|first| vec![first.clone()]);
        for (module, needs) in &self.from {
            let Some(here) = folder(module) else { continue };
            let mut needs: BTreeSet<Module> = needs.iter().filter_map(folder).collect();
            needs.remove(&here);
            from.entry(here).or_default().extend(needs);
        }
        Self {
            files: BTreeMap::new(),
            from,
        }
    }

    /// Returns the files that a file refers to.
    fn needs(&self, module: &Module) -> BTreeSet<Module> {
        let file = &self.files[module];
        let mut needs = BTreeSet::new();
        let mut followed = BTreeSet::new();
        for path in &file.source.paths {
            let (first, rest) = path.split_first().unwrap();
            let whole = match file.names.get(first) {
                Some(known) => {
                    followed.insert(first.clone());
                    Some([known.as_slice(), rest].concat())
                }
                None => from_root(self.files.keys(), module, path),
            };
            needs.extend(whole.and_then(|path| self.home_of(&path, 0)));
        }
        for (name, path) in &file.names {
            if !self.files.contains_key(path) {
                needs.extend(self.home_of(path, 0));
            } else if !followed.contains(name) && !file.source.says_mod(name) {
                // A macro was given the whole module.
                let inside = self.files.keys().filter(|other| other.starts_with(path));
                needs.extend(inside.cloned());
            }
        }
        needs.remove(module);
        needs
    }

    /// Returns the file that defines an item, following re-exports.
    fn home_of(&self, path: &[String], depth: usize) -> Option<Module> {
        let longest = (0..=path.len()).rev();
        let module = longest
            .map(|len| &path[..len])
            .find(|module| self.files.contains_key(*module))?;
        let handed_on = path.get(module.len());
        let handed_on = handed_on.and_then(|name| {
            let file = &self.files[module];
            let is_foreign = file.source.imports.iter().any(|one| one.name == *name);
            match file.names.get(name) {
                Some(known) if depth < 8 => {
                    let rest = &path[module.len() + 1..];
                    Some(self.home_of(&[known.as_slice(), rest].concat(), depth + 1))
                }
                _ => is_foreign.then_some(None),
            }
        });
        handed_on.unwrap_or_else(|| Some(module.to_vec()))
    }

    /// Returns the import cycles, direct or indirect, widest first.
    fn circles(&self) -> Vec<Vec<String>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = self
            .from
            .keys()
            .map(|one| (one, self.reached(one)))
            .collect();
        let mut circles = BTreeSet::new();
        for (one, others) in &reached {
            let circle: BTreeSet<String> = others
                .iter()
                .filter(|other| reached[*other].contains(one))
                .map(|other| other.join("::"))
                .collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        let mut circles: Vec<Vec<String>> = circles
            .into_iter()
            .map(|one| one.into_iter().collect())
            .collect();
        circles.sort_by_key(|one| std::cmp::Reverse(one.len()));
        circles
    }

    fn reached<'a>(&'a self, from: &Module) -> BTreeSet<&'a Module> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&Module> = self.from[from].iter().collect();
        while let Some(one) = next.pop() {
            if reached.insert(one) {
                next.extend(&self.from[one]);
            }
        }
        reached
    }
}

/// Converts a path in a source file to one from the crate's root; `None` if it leads elsewhere.
fn from_root<'m>(
    modules: impl IntoIterator<Item = &'m Module>,
    here: &Module,
    path: &[String],
) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([here.as_slice(), rest].concat()),
        "super" => {
            let up = path.iter().take_while(|word| *word == "super").count();
            let kept = here.len().checked_sub(up)?;
            Some([&here[..kept], &path[up..]].concat())
        }
        _ => {
            let below = [here.as_slice(), std::slice::from_ref(first)].concat();
            let is_child = modules.into_iter().any(|module| *module == below);
            is_child.then(|| [here.as_slice(), path].concat())
        }
    }
}

fn module_of(path: &Path) -> Module {
    let words = path.with_extension("");
    let words = words.iter().map(|word| word.to_string_lossy().into_owned());
    let mut module: Module = words.collect();
    if module
        .last()
        .is_some_and(|last| last == "mod" || last == "lib")
    {
        module.pop();
    }
    module
}
