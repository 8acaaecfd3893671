//! Licences, sources and bans of all dependencies, by the rules of `deny.toml`.
//!
//! `cargo deny` checks the same rules and more; this test needs only cargo.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::cargo::{Graph, built_in};
use crate::files::read;

#[derive(Deserialize)]
struct Rules {
    graph: Targets,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Targets {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    name: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: BTreeSet<String>,
}

#[test]
fn licences_are_among_those_allowed() {
    let (rules, graph) = load();
    let refused: Vec<_> = graph
        .foreign()
        .filter(|package| {
            let licence = package.license.as_deref().unwrap_or_default();
            let mut allowed = rules.licenses.allow.clone();
            let mut exceptions = rules.licenses.exceptions.iter();
            if let Some(more) = exceptions.find(|it| it.name == package.name) {
                allowed.extend(more.allow.iter().cloned());
            }
            !satisfied(licence, &allowed)
        })
        .map(|package| {
            format!(
                "{} {}: {:?}",
                package.name, package.version, package.license
            )
        })
        .collect();
    assert!(
        refused.is_empty(),
        "licences that deny.toml does not allow: {refused:#?}"
    );
}

#[test]
fn sources_are_among_those_allowed() {
    let (rules, graph) = load();
    let refused: Vec<_> = graph
        .foreign()
        .filter(|package| {
            let source = package.source.as_deref().unwrap_or_default();
            let registry = source.strip_prefix("registry+").unwrap_or(source);
            !rules.sources.allow_registry.contains(registry)
        })
        .map(|package| format!("{} from {:?}", package.name, package.source))
        .collect();
    assert!(
        refused.is_empty(),
        "sources that deny.toml does not allow: {refused:#?}"
    );
}

#[test]
fn nothing_banned_is_built_in() {
    let rules = rules();
    assert!(!rules.bans.deny.is_empty());
    let mut options = vec!["--all-features"];
    for target in &rules.graph.targets {
        options.extend(["--target", target]);
    }
    let built = built_in(&options);
    assert!(built.contains("tokio"));
    let found: Vec<_> = rules
        .bans
        .deny
        .iter()
        .filter(|ban| built.contains(&ban.name))
        .map(|ban| format!("{}: {}", ban.name, ban.reason))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// Programs linked with musl, for which most machines have no C compiler.
const STATIC: [&str; 5] = [
    "orlop-containerd-shim",
    "orlop-keeper",
    "orlop-lazy",
    "orlop-run",
    "orlop-shim",
];

/// Packages that compile C.
const C: [&str; 3] = ["aws-lc-sys", "ring", "zstd-sys"];

#[test]
fn static_programs_contain_no_c() {
    let graph = Graph::read(&[]);
    for name in STATIC {
        let program = graph.house().find(|package| package.name == name);
        let program = program.unwrap_or_else(|| panic!("{name} is a package"));
        let with = graph.run_with(&program.id);
        let c = with.iter().find(|name| C.contains(name));
        assert_eq!(c, None, "{name} is linked with musl");
    }
}

#[test]
fn licence_expressions_are_read_right() {
    let allow = BTreeSet::from(["MIT", "ISC", "Unicode-3.0"].map(str::to_owned));
    for good in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/Apache-2.0",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR MIT",
        "MIT AND ISC",
    ] {
        assert!(satisfied(good, &allow), "{good}");
    }
    for bad in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR ISC) AND Zlib",
        "MIT WITH exception",
    ] {
        assert!(!satisfied(bad, &allow), "{bad}");
    }
}

fn rules() -> Rules {
    toml::from_str(&read("deny.toml")).expect("deny.toml has the tables used here")
}

fn load() -> (Rules, Graph) {
    let rules = rules();
    let mut options = vec!["--all-features"];
    for target in &rules.graph.targets {
        options.extend(["--filter-platform", target]);
    }
    let graph = Graph::read(&options);
    (rules, graph)
}

/// Returns whether an SPDX expression can be satisfied with allowed licences only.
fn satisfied(expression: &str, allow: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    !words.is_empty() && any_of(&words, &mut at, allow) && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize, allow: &BTreeSet<String>) -> bool {
    let mut met = all_of(words, at, allow);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all_of(words, at, allow);
    }
    met
}

fn all_of(words: &[&str], at: &mut usize, allow: &BTreeSet<String>) -> bool {
    let mut met = one_of(words, at, allow);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one_of(words, at, allow);
    }
    met
}

fn one_of(words: &[&str], at: &mut usize, allow: &BTreeSet<String>) -> bool {
    let word = words.get(*at).copied().unwrap_or_default();
    *at += 1;
    if word == "(" {
        let met = any_of(words, at, allow);
        *at += 1;
        return met;
    }
    if words.get(*at) == Some(&"WITH") {
        let full = format!(
            "{word} WITH {}",
            words.get(*at + 1).copied().unwrap_or_default()
        );
        *at += 2;
        return allow.contains(&full);
    }
    allow.contains(word)
}
