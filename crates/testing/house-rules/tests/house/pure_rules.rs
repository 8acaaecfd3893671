//! The crate with the kubelet's decisions must stay free of I/O.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use crate::files::{sources, top};

/// The crate with the decisions.
const RULES: &str = "kubelet-rules";

/// Crates that run tasks, open files, communicate or call the system.
const DOERS: &[&str] = &[
    "async-io",
    "futures-util",
    "http",
    "hyper",
    "libc",
    "mio",
    "nix",
    "rand",
    "reqwest",
    "rustix",
    "rustls",
    "signal-hook",
    "socket2",
    "tempfile",
    "tokio",
    "tonic",
    "tower",
    "tracing",
    "ureq",
];

/// Names in the standard library that do the same, and of the lints that forbid it.
const WORDS: &[&str] = &[
    "std::{",
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "std::os",
    "SystemTime",
    "Instant",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "Timestamp::now",
    "Zoned::now",
    "include!",
    "disallowed_methods",
    "disallowed_types",
    "disallowed_macros",
];

/// One example of each kind that its `clippy.toml` forbids.
const REFUSED: &[&str] = &[
    "std::fs::read",
    "std::fs::File",
    "std::path::Path::exists",
    "std::net::TcpStream",
    "std::process::Command",
    "std::time::SystemTime::now",
    "std::time::Instant::now",
    "std::env::var",
    "std::thread::spawn",
];

#[test]
fn what_decides_builds_on_nothing_that_does() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(cargo)
        .args([
            "tree",
            "--locked",
            "--offline",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .args(["--format", "{p}", "--package", &format!("orlop-{RULES}")])
        .current_dir(crate_directory())
        .output()
        .expect("run cargo tree");
    assert!(
        tree.status.success(),
        "{}",
        String::from_utf8_lossy(&tree.stderr)
    );
    let tree = String::from_utf8(tree.stdout).expect("cargo writes UTF-8");
    let names: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(
        names.contains("prost"),
        "the tree has no messages: {names:?}"
    );
    let doers: Vec<_> = DOERS.iter().filter(|name| names.contains(*name)).collect();
    assert!(doers.is_empty(), "{RULES} drags in {doers:?}");
}

#[test]
fn what_decides_asks_nobody() {
    let mut found = Vec::new();
    let files = sources(&crate_directory().join("src"));
    for path in &files {
        let text = std::fs::read_to_string(path).expect("read a source");
        for (number, line) in (1..).zip(text.lines()) {
            let code = line.split("//").next().unwrap_or_default();
            for word in WORDS.iter().filter(|word| code.contains(**word)) {
                found.push(format!("{}:{number}: {word}", path.display()));
            }
        }
    }
    let count = files.len();
    assert!(count > 40, "only {count} sources were read");
    assert!(
        found.is_empty(),
        "{RULES} is told what is known: {found:#?}"
    );
}

#[test]
fn the_lint_refuses_each_kind_of_asking() {
    let path = crate_directory().join("clippy.toml");
    let text = std::fs::read_to_string(path).expect("read clippy.toml");
    let table: toml::Table = text.parse().expect("clippy.toml is TOML");
    let listed: BTreeSet<&str> = ["disallowed-methods", "disallowed-types"]
        .iter()
        .filter_map(|key| table.get(*key)?.as_array())
        .flatten()
        .filter_map(|entry| entry.get("path")?.as_str())
        .collect();
    let missing: Vec<_> = REFUSED
        .iter()
        .filter(|path| !listed.contains(*path))
        .collect();
    assert!(
        missing.is_empty(),
        "clippy.toml does not refuse {missing:?}"
    );
}

fn crate_directory() -> PathBuf {
    top().join("crates/node").join(RULES)
}
