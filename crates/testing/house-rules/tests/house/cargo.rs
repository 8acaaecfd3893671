//! What cargo says of the workspace and of all that it builds with.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The graph of packages.
#[derive(Deserialize)]
pub struct Graph {
    packages: Vec<Package>,
    resolve: Resolve,
    workspace_members: Vec<String>,
}

/// A crate: one of the house, or a foreign one.
#[derive(Deserialize)]
pub struct Package {
    pub id: String,
    pub name: String,
    pub version: String,
    manifest_path: PathBuf,
    pub license: Option<String>,
    /// Where it comes from; of a crate of the house there is nothing to say.
    pub source: Option<String>,
    pub dependencies: Vec<Dependency>,
}

impl Package {
    /// The directory of its manifest.
    pub fn directory(&self) -> &Path {
        let parent = self.manifest_path.parent();
        parent.expect("a manifest is in a directory")
    }
}

/// What a package asks for.
#[derive(Deserialize)]
pub struct Dependency {
    pub name: String,
    pub kind: Kind,
    pub path: Option<String>,
}

/// What a dependency is for: null means that the package runs with it.
pub type Kind = Option<Purpose>;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    Dev,
    Build,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

/// A package that was chosen, and those it got.
#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Got>,
}

#[derive(Deserialize)]
struct Got {
    pkg: String,
    dep_kinds: Vec<GotKind>,
}

#[derive(Deserialize)]
struct GotKind {
    kind: Kind,
}

/// What `cargo metadata` says.
pub fn metadata<T: DeserializeOwned>(options: &[&str]) -> T {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked"])
        .args([
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ])
        .args(options)
        .output()
        .expect("run cargo");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo's answer has the fields used here")
}

/// The names of all packages that are compiled with these options, tests included. `cargo metadata` also names
/// packages that only a weak feature (`ring?/alloc`) mentions.
pub fn built_in(options: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--workspace",
            "--prefix=none",
            "--format={p}",
        ])
        .args(["--edges=normal,build,dev"])
        .args(options)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("run cargo");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    let names = lines.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

impl Graph {
    pub fn read(options: &[&str]) -> Self {
        metadata(options)
    }

    /// The crates of the house.
    pub fn house(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The crates of others that are built in.
    pub fn foreign(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| {
            package.source.is_some() && self.resolve.nodes.iter().any(|node| node.id == package.id)
        })
    }

    /// The names of all that a crate runs with, its own included.
    pub fn run_with(&self, id: &str) -> Vec<&str> {
        let mut reached = vec![id];
        let mut next = 0;
        while let Some(&id) = reached.get(next) {
            next += 1;
            let node = self.resolve.nodes.iter().find(|node| node.id == id);
            for got in &node.expect("a node for each package").deps {
                let runs = got.dep_kinds.iter().any(|kind| kind.kind.is_none());
                if runs && !reached.contains(&got.pkg.as_str()) {
                    reached.push(&got.pkg);
                }
            }
        }
        let named = |package: &&Package| reached.contains(&package.id.as_str());
        self.packages
            .iter()
            .filter(named)
            .map(|package| package.name.as_str())
            .collect()
    }
}
