//! Checks of what ARCHITECTURE.md says about the location of code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{read, sources, top};

/// Words that explain nothing and are no module names.
const EMPTY_WORDS: [&str; 14] = [
    "utils", "util", "helpers", "common", "misc", "guard", "hunt", "home", "vow", "shown", "tell",
    "offer", "several", "trials",
];

/// Returns every Rust file of the crates, as a path from the root.
fn all_sources() -> Vec<PathBuf> {
    let found = sources(&top().join("crates")).into_iter();
    let relative = |path: PathBuf| path.strip_prefix(top()).unwrap().to_owned();
    found.map(relative).collect()
}

/// Converts `RunPodSandbox` to `run_pod_sandbox`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[test]
fn a_call_of_cri_is_found_by_its_name_in_both_backends() {
    let table = read("crates/cri/api/src/rpc.rs");
    let (_, table) = table.split_once("\ncalls! {\n").unwrap();
    let rows = table.lines().take_while(|line| *line != "}");
    let calls: Vec<&str> = rows
        .map(|row| row.split_whitespace().next().unwrap())
        .collect();
    assert!(calls.len() > 30 && calls.contains(&"RunPodSandbox"));
    let missing: Vec<String> = calls
        .iter()
        .flat_map(|call| {
            let file = snake(call);
            ["runtime/engine", "dockershim"]
                .map(|crate_| format!("crates/{crate_}/src/rpc/{file}.rs"))
        })
        .filter(|path| !top().join(path).is_file())
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn a_call_of_orlops_own_is_found_by_its_name() {
    let mut calls = 0;
    for entry in fs::read_dir(top().join("crates/cri/api/proto/orlop/v1")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut service = "";
        for line in text.lines().map(str::trim) {
            let name = |rest: &'static str| {
                let rest = line.strip_prefix(rest)?;
                rest.split(|it: char| !it.is_alphanumeric()).next()
            };
            service = name("service ").unwrap_or(service);
            let Some(call) = name("rpc ") else { continue };
            let folder = format!("rpc_{}", snake(service));
            let path = format!("crates/runtime/engine/src/{folder}/{}.rs", snake(call));
            assert!(top().join(&path).is_file(), "{service}.{call}: no {path}");
            calls += 1;
        }
    }
    assert!(calls >= 10, "{calls}");
}

#[test]
fn a_key_is_found_in_the_table_of_keys() {
    let schema = read("crates/orlop/src/config/schema.rs");
    let documented = read("docs/reference/configuration.md");
    let rows = documented.lines().filter_map(|line| {
        let (key, _) = line.strip_prefix("| `")?.split_once('`')?;
        Some(key.to_owned())
    });
    let keys: BTreeSet<String> = rows.collect();
    assert!(keys.len() > 80, "{}", keys.len());
    let missing: Vec<_> = keys
        .iter()
        .filter(|key| !schema.contains(&format!("        {key}: ")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_file_says_at_its_head_what_it_is_for() {
    let sources = all_sources();
    assert!(sources.len() > 1000, "{}", sources.len());
    let silent: Vec<_> = sources
        .iter()
        .filter(|path| {
            let text = fs::read_to_string(top().join(path)).unwrap();
            !text.starts_with("//!")
        })
        .collect();
    assert!(silent.is_empty(), "no //! in the first line: {silent:#?}");
}

#[test]
fn no_module_bears_a_word_that_explains_nothing() {
    let empty: Vec<_> = all_sources()
        .into_iter()
        .filter(|path| path.iter().any(|part| part == "src"))
        .filter(|path| {
            path.iter().any(|part| {
                let word = Path::new(part).file_stem().and_then(|it| it.to_str());
                word.is_some_and(|word| EMPTY_WORDS.contains(&word))
            })
        })
        .collect();
    assert!(empty.is_empty(), "{empty:#?}");
}
