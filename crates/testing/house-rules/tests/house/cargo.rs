//! Output of cargo about the workspace and its dependencies.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Graph of packages.
#[derive(Deserialize)]
pub struct Graph {
    packages: Vec<Package>,
    resolve: Resolve,
    workspace_members: Vec<String>,
}

/// A crate of the workspace or an external one.
#[derive(Deserialize)]
pub struct Package {
    pub id: String,
    pub name: String,
    pub version: String,
    manifest_path: PathBuf,
    pub license: Option<String>,
    /// Origin of the crate; `None` for crates of the workspace.
    pub source: Option<String>,
    pub dependencies: Vec<Dependency>,
}

impl Package {
    /// Returns the directory of its manifest.
    pub fn directory(&self) -> &Path {
        let parent = self.manifest_path.parent();
        parent.expect("a manifest is in a directory")
    }
}

/// A dependency of a package.
#[derive(Deserialize)]
pub struct Dependency {
    pub name: String,
    pub kind: Kind,
    pub path: Option<String>,
}

/// Kind of a dependency: null is a normal one.
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

/// A resolved package with its dependencies.
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

/// Returns the output of `cargo metadata`.
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

/// Returns the names of all packages compiled with these options, including tests. `cargo metadata` also lists packages
/// that only a weak feature (`ring?/alloc`) mentions.
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

    /// Returns the crates of the workspace.
    pub fn house(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Returns the external crates.
    pub fn foreign(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| {
            package.source.is_some() && self.resolve.nodes.iter().any(|node| node.id == package.id)
        })
    }

    /// Returns the names of all normal dependencies of a crate, including itself.
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
