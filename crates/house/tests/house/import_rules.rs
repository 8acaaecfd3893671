//! The architecture's arrows: which crate of the house may build on which.

use std::collections::{BTreeMap, BTreeSet};

use crate::cargo::{Graph, Kind, Package, Purpose};
use crate::files::read;

/// Each crate and the crates of the house that it may depend on.
const MAY_USE: &[(&str, &[&str])] = &[
    // The ground floor, which all but the keeper may build on.
    ("disk", &[]),
    ("door", &["pool"]),
    ("erofs", &[]),
    ("duration", &[]),
    ("process", &[]),
    ("quantity", &[]),
    ("text", &[]),
    ("template", &[]),
    ("pool", &[]),
    ("credentials", &["disk", "pool"]),
    // What knows no CRI message and not each other.
    (
        "image",
        &[
            "text",
            "decrypt",
            "disk",
            "duration",
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
    ("decrypt", &["der"]),
    ("der", &[]),
    ("toc", &["text"]),
    ("sigstore", &["der", "text"]),
    (
        "network",
        &["text", "disk", "process", "quantity", "pool", "template"],
    ),
    ("cgroup", &["disk"]),
    ("stream", &["text", "door"]),
    ("yaml", &[]),
    ("nri", &["yaml", "disk", "door", "pool", "ttrpc"]),
    ("rdt", &["yaml", "disk"]),
    ("oci", &[]),
    (
        "launch",
        &[
            "wire", "cgroup", "disk", "duration", "oci", "pool", "process",
        ],
    ),
    // An OCI runtime, which knows nobody here: what it is told is on its command line.
    ("seccomp", &["oci"]),
    (
        "run",
        &["oci", "seccomp", "cgroup", "disk", "duration", "process"],
    ),
    // Of the containerds that have us make their sandboxes.
    ("sandbox-api", &["disk", "pool", "ttrpc", "containerd-api"]),
    // The keeper shares the words that it exchanges with the daemon, and a page of how to make a process.
    ("wire", &[]),
    ("keeper", &["wire", "process"]),
    // So does the server of layers of which parts are not here.
    ("lazy", &["wire", "disk"]),
    // What stands for runc on a keeper's command lines knows nobody here.
    ("ttrpc", &[]),
    ("containerd-api", &[]),
    (
        "shim",
        &["disk", "process", "ttrpc", "containerd-api", "cri"],
    ),
    // What stands for a runtime of containerd's: another daemon of the keeper's.
    (
        "containerd",
        &[
            "wire",
            "ttrpc",
            "containerd-api",
            "cri",
            "cgroup",
            "disk",
            "text",
            "process",
            "quantity",
        ],
    ),
    // The contract and the two sides of it.
    ("cri", &[]),
    // What its backends share.
    (
        "service",
        &["text", "cri", "cgroup", "network", "stream", "disk", "pool"],
    ),
    (
        "engine",
        &[
            "image", "network", "cgroup", "launch", "oci", "nri", "stream", "service", "cri",
            "yaml", "disk", "duration", "text", "process", "quantity", "pool", "rdt",
        ],
    ),
    (
        "dockershim",
        &[
            // For what signature policies say of the engine's images: it opens no store of them.
            "image",
            "network",
            "cgroup",
            "stream",
            "service",
            "cri",
            "disk",
            "text",
            "pool",
            "credentials",
        ],
    ),
    // The kubelet's side: what it decides, and who carries that out.
    ("kubelet-rules", &["cri", "text", "quantity"]),
    (
        "kuberuntime",
        &[
            "kubelet-rules",
            "cgroup",
            "stream",
            "cri",
            "yaml",
            "disk",
            "door",
            "duration",
            "pool",
            "credentials",
        ],
    ),
    // Who says which pods there are.
    (
        "agent",
        &[
            "kuberuntime",
            "kubelet-rules",
            "stream",
            "cri",
            "yaml",
            "disk",
            "door",
            "duration",
            "text",
            "pool",
        ],
    ),
    // Clients of any runtime, who see no more of ours than of others.
    (
        "cli",
        &[
            "web", "cri", "stream", "yaml", "disk", "door", "duration", "template",
        ],
    ),
    ("web", &["cri", "disk", "door", "text", "pool"]),
    // What others left, read from their files.
    ("migrate", &["disk", "text", "yaml"]),
    // The binary ties backends together.
    (
        "orlop",
        &[
            "engine",
            "dockershim",
            "kuberuntime",
            "agent",
            "service",
            "sandbox-api",
            "migrate",
            "cli",
            "web",
            "cri",
            "stream",
            "disk",
            "door",
            "duration",
            "text",
            "pool",
        ],
    ),
    // A plugin of a test speaks the interface from its other end.
    (
        "testkit",
        &["cri", "nri", "ttrpc", "containerd-api", "disk"],
    ),
    // Tools that start a node as tests do.
    ("conformance", &["testkit", "cri"]),
    // The rules themselves, which are checked before anything else is built.
    ("house", &[]),
];

/// Nothing but tests may use it, and tests may use nothing else of the house.
const FOR_TESTS: &str = "testkit";

/// What tests alone may use beside that.
const TESTS_ALSO_USE: &[(&str, &str)] = &[
    // The keeper is tried through the client that drives it on a node.
    ("keeper", "launch"),
    // What their tests made.
    ("keeper", "disk"),
    // The runtime is given what the daemon has made.
    ("run", "launch"),
];

/// What the keeper must not drag in: a hundred of them run on a node.
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

/// The dependencies of a package that are crates of the workspace.
fn house_dependencies(package: &Package) -> impl Iterator<Item = (&str, Kind)> {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.path.is_some())
        .map(|dependency| (short(&dependency.name), dependency.kind))
}

/// A crate's name without the project's.
fn short(name: &str) -> &str {
    name.strip_prefix("orlop-").unwrap_or(name)
}
