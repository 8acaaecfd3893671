//! Location of each crate, and the other workspace crates that it may depend on.

use std::collections::{BTreeMap, BTreeSet};

use crate::cargo::{Graph, Kind, Package, Purpose};
use crate::files::{read, top};

/// Each crate, and the workspace crates that it may depend on.
const MAY_USE: &[(&str, &[&str])] = &[
    // Base crates, which all but the keeper may use.
    ("fs", &[]),
    ("listen", &["pool"]),
    ("erofs", &[]),
    ("process", &[]),
    ("text", &[]),
    ("template", &[]),
    ("pool", &[]),
    ("credentials", &["fs", "pool"]),
    // Crates that use neither CRI messages nor each other.
    (
        "image-store",
        &[
            "text",
            "encryption",
            "fs",
            "erofs",
            "lazy",
            "sigstore",
            "toc",
            "openpgp",
            "yaml",
            "pool",
            "credentials",
        ],
    ),
    ("openpgp", &[]),
    ("encryption", &["der"]),
    ("der", &[]),
    ("toc", &["text"]),
    ("sigstore", &["der", "text"]),
    ("network", &["text", "fs", "process", "pool", "template"]),
    ("cgroup", &["fs"]),
    ("streaming", &["text", "listen"]),
    ("yaml", &[]),
    ("nri", &["yaml", "fs", "listen", "pool", "ttrpc"]),
    ("rdt", &["yaml", "fs"]),
    ("oci-types", &[]),
    (
        "launch",
        &[
            "keeper-protocol",
            "cgroup",
            "fs",
            "text",
            "oci-types",
            "pool",
            "process",
        ],
    ),
    // An OCI runtime, which uses no other crates: its input is the command line.
    ("seccomp", &["oci-types"]),
    (
        "run",
        &["oci-types", "seccomp", "cgroup", "fs", "text", "process"],
    ),
    // For containerds that let orlop make their sandboxes.
    ("sandbox-api", &["fs", "pool", "ttrpc", "containerd-api"]),
    // The keeper shares its protocol with the daemon, and a small module to create processes.
    ("keeper-protocol", &[]),
    ("keeper", &["keeper-protocol", "process"]),
    // The server of lazy layers is similar.
    ("lazy", &["keeper-protocol", "fs"]),
    // The replacement for runc on the keeper's command lines is independent.
    ("ttrpc", &[]),
    ("containerd-api", &[]),
    (
        "shim",
        &["fs", "process", "ttrpc", "containerd-api", "cri-api"],
    ),
    // The replacement for a containerd runtime: another daemon that uses the keeper.
    (
        "containerd-shim",
        &[
            "keeper-protocol",
            "ttrpc",
            "containerd-api",
            "cri-api",
            "cgroup",
            "fs",
            "text",
            "process",
        ],
    ),
    // The CRI: messages, server side and client side.
    ("cri-api", &[]),
    // Shared code of the backends.
    (
        "cri-server",
        &[
            "text",
            "cri-api",
            "cgroup",
            "network",
            "streaming",
            "fs",
            "pool",
        ],
    ),
    (
        "engine",
        &[
            "image-store",
            "network",
            "cgroup",
            "launch",
            "oci-types",
            "nri",
            "streaming",
            "cri-server",
            "cri-api",
            "yaml",
            "fs",
            "text",
            "process",
            "pool",
            "rdt",
        ],
    ),
    (
        "dockershim",
        &[
            // It checks the images of the Docker Engine against the signature policies. It opens no store.
            "image-store",
            "network",
            "cgroup",
            "streaming",
            "cri-server",
            "cri-api",
            "fs",
            "text",
            "pool",
            "credentials",
        ],
    ),
    // The kubelet's decisions, and the code that executes them.
    ("kubelet-rules", &["cri-api", "text"]),
    (
        "kuberuntime",
        &[
            "kubelet-rules",
            "cgroup",
            "streaming",
            "cri-api",
            "yaml",
            "fs",
            "listen",
            "text",
            "pool",
            "credentials",
        ],
    ),
    // Sources of pods.
    (
        "agent",
        &[
            "kuberuntime",
            "kubelet-rules",
            "streaming",
            "cri-api",
            "yaml",
            "fs",
            "listen",
            "text",
            "pool",
        ],
    ),
    // Clients of any runtime, which depend on nothing specific to orlop.
    (
        "cli",
        &[
            "web",
            "cri-api",
            "streaming",
            "yaml",
            "fs",
            "listen",
            "text",
            "template",
        ],
    ),
    ("web", &["cri-api", "fs", "listen", "text", "pool"]),
    // Reads the files of other runtimes.
    ("migrate", &["fs", "text", "yaml"]),
    // The binary combines the backends.
    (
        "orlop",
        &[
            "engine",
            "dockershim",
            "kuberuntime",
            "agent",
            "cri-server",
            "sandbox-api",
            "migrate",
            "cli",
            "web",
            "cri-api",
            "streaming",
            "fs",
            "listen",
            "text",
            "pool",
        ],
    ),
    // A test plugin uses the other side of the interface.
    (
        "testkit",
        &["cri-api", "nri", "ttrpc", "containerd-api", "fs"],
    ),
    // Tools that start a node as tests do.
    ("conformance", &["testkit", "cri-api"]),
    // The rules themselves, which are checked before anything else is built.
    ("house-rules", &[]),
];

/// Crate that only tests may use, and the only workspace crate that tests may use in addition.
const FOR_TESTS: &str = "testkit";

/// Further crates for tests only.
const TESTS_ALSO_USE: &[(&str, &str)] = &[
    // The keeper is tested through its client on a node.
    ("keeper", "launch"),
    // For checks of files that the tests created.
    ("keeper", "fs"),
    // The runtime gets input created by the daemon's code.
    ("run", "launch"),
];

/// Dependencies that the keeper must not have: a hundred keepers run on a node.
const TOO_HEAVY: &[&str] = &["tokio", "hyper", "tonic", "serde", "tracing", "clap"];

#[test]
fn every_crate_uses_only_what_its_place_allows() {
    let graph = Graph::read(&[]);
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut wrong = BTreeSet::new();
    for package in graph.house() {
        let name = short(&package.name);
        let Some(may_use) = allowed.get(name) else {
            wrong.insert(format!(
                "{name} has no place yet: add it to MAY_USE and ARCHITECTURE.md"
            ));
            continue;
        };
        for (used, kind) in house_dependencies(package) {
            let fine = match kind {
                Some(Purpose::Dev) => {
                    used == FOR_TESTS
                        || may_use.contains(&used)
                        || TESTS_ALSO_USE.contains(&(name, used))
                }
                _ => may_use.contains(&used),
            };
            if !fine {
                wrong.insert(format!("{name} must not use {used} ({kind:?})"));
            }
        }
    }
    assert_eq!(wrong, BTreeSet::new());
}

#[test]
fn every_place_has_its_crate() {
    let graph = Graph::read(&[]);
    let there: BTreeSet<&str> = graph.house().map(|package| short(&package.name)).collect();
    let places: BTreeSet<&str> = MAY_USE.iter().map(|(name, _)| *name).collect();
    assert_eq!(there, places);
}

#[test]
fn a_crate_is_found_by_its_name() {
    let graph = Graph::read(&[]);
    let mut wrong = BTreeSet::new();
    for package in graph.house() {
        let directory = package.directory();
        let below = directory.strip_prefix(top().join("crates"));
        let below = below.expect("all crates are in crates/").to_str();
        let below = below.expect("UTF-8");
        let last = below.rsplit('/').next().unwrap_or(below);
        let name = short(&package.name);
        if name != last && name != below.replace('/', "-") {
            wrong.insert(format!("{} is in {below}", package.name));
        }
    }
    assert_eq!(wrong, BTreeSet::new());
}

#[test]
fn the_picture_of_the_folders_is_what_the_manifests_say() {
    let graph = Graph::read(&[]);
    let folders: BTreeMap<&str, String> = graph
        .house()
        .map(|package| (package.name.as_str(), folder(package)))
        .collect();
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in graph.house() {
        let here = folders[package.name.as_str()].as_str();
        let all = house_dependencies(package);
        let others = all.filter(|(_, kind)| *kind != Some(Purpose::Dev));
        let others = others.map(|(name, _)| folders[format!("orlop-{name}").as_str()].as_str());
        uses.entry(here)
            .or_default()
            .extend(others.filter(|other| *other != here));
    }
    assert_eq!(
        uses.remove("base"),
        Some(BTreeSet::new()),
        "`base` uses no other folder"
    );
    uses.remove("testing");
    for others in uses.values_mut() {
        others.remove("base");
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = uses
        .keys()
        .map(|one| (*one, reached_from(&uses, one)))
        .collect();
    let circles: Vec<_> = reached
        .iter()
        .filter(|(one, others)| others.contains(*one))
        .collect();
    assert!(
        circles.is_empty(),
        "folders that need each other: {circles:?}"
    );
    let mut arrows = BTreeSet::new();
    for (from, others) in &uses {
        for to in others {
            if !others.iter().any(|between| reached[between].contains(to)) {
                arrows.insert(format!("{from} --> {to}"));
            }
        }
    }
    let page = read("ARCHITECTURE.md");
    let (_, picture) = page.split_once("flowchart TD\n").expect("the picture");
    let lines = picture.lines().take_while(|line| *line != "```");
    let drawn: BTreeSet<String> = lines.map(|line| line.trim().to_owned()).collect();
    assert_eq!(drawn, arrows);
}

/// Returns the folder in `crates/` that contains a package.
fn folder(package: &Package) -> String {
    let below = package.directory().strip_prefix(top().join("crates"));
    let mut parts = below.expect("all crates are in crates/").iter();
    parts
        .next()
        .expect("a folder")
        .to_string_lossy()
        .into_owned()
}

/// Returns all folders that one uses, directly or indirectly.
fn reached_from<'n>(uses: &BTreeMap<&'n str, BTreeSet<&'n str>>, from: &str) -> BTreeSet<&'n str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = uses[from].iter().copied().collect();
    while let Some(one) = next.pop() {
        if reached.insert(one) {
            next.extend(&uses[one]);
        }
    }
    reached
}

#[test]
fn the_architecture_page_names_every_crate() {
    let page = read("ARCHITECTURE.md");
    let words: BTreeSet<&str> = page
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .collect();
    let missing: Vec<_> = MAY_USE
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !words.contains(name))
        .collect();
    assert!(
        missing.is_empty(),
        "ARCHITECTURE.md does not name {missing:?}"
    );
}

#[test]
fn what_outlives_the_daemon_stays_light() {
    let graph = Graph::read(&[]);
    for one in ["keeper", "lazy"] {
        let mut house = graph.house();
        let package = house.find(|package| short(&package.name) == one);
        let names = graph.run_with(&package.expect("a crate of the workspace").id);
        assert!(
            names.contains(&"rustix"),
            "the walk found no dependencies at all: {names:?}"
        );
        let heavy = TOO_HEAVY.iter().filter(|name| names.contains(name));
        let heavy: Vec<_> = heavy.collect();
        assert!(heavy.is_empty(), "{one} drags in {heavy:?}");
    }
}

/// Returns the dependencies of a package that are crates of the workspace.
fn house_dependencies(package: &Package) -> impl Iterator<Item = (&str, Kind)> {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.path.is_some())
        .map(|dependency| (short(&dependency.name), dependency.kind))
}

/// Returns a crate's name without the project's prefix.
fn short(name: &str) -> &str {
    name.strip_prefix("orlop-").unwrap_or(name)
}
