//! Tests on trees that only look like `resctrl`. The kernel's part is missing, so the tests create and remove the files
//! of groups.

use super::*;
use crate::mount::tests::pretended;

struct Node {
    dir: tempfile::TempDir,
    mount: Mount,
    state: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        let mut tree = vec![
            ("schemata".to_owned(), "L3:0=fffff\n"),
            ("tasks".to_owned(), "1\n"),
        ];
        for (file, text) in [
            ("cbm_mask", "fffff\n"),
            ("min_cbm_bits", "1\n"),
            ("num_closids", "4\n"),
        ] {
            tree.push((format!("info/L3/{file}"), text));
        }
        tree.push(("info/last_cmd_status".to_owned(), "mask f is odd\n"));
        let (dir, mount) = pretended(&tree);
        let state = tempfile::tempdir().unwrap();
        Self { dir, mount, state }
    }

    /// Does the kernel's part when a group is created.
    fn group(&self, name: &str, tasks: &str) {
        let dir = self.dir.path().join(name);
        let _ = fs::create_dir(&dir);
        for (file, text) in [("tasks", tasks), ("cpus_list", "\n")] {
            fs::write(dir.join(file), text).unwrap();
        }
    }

    fn settle(&self, text: Option<&str>) -> Result<Settled> {
        self.settle_beside(text, &[])
    }

    fn settle_beside(&self, text: Option<&str>, others: &[String]) -> Result<Settled> {
        let wanted = text.map(|text| Partitions::parse(Path::new("rdt.yaml"), text).unwrap());
        let record = self.state.path().join("rdt");
        let remove = |dir: &Path| {
            for file in ["schemata", "tasks", "cpus_list"] {
                let _ = fs::remove_file(dir.join(file));
            }
            fs::remove_dir(dir)
        };
        settle_by(remove, Some(&self.mount), &record, wanted.as_ref(), others)
    }

    fn schemata(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name).join("schemata")).unwrap()
    }

    fn has(&self, name: &str) -> bool {
        self.dir.path().join(name).is_dir()
    }

    fn record(&self) -> String {
        fs::read_to_string(self.state.path().join("rdt")).unwrap_or_default()
    }
}

const TWO: &str = "\
partitions:
  p:
    l3Allocation: 50%
    classes:
      a:
      b: {l3Allocation: 50%}
      DEFAULT:
";

fn names(expected: &[&str]) -> Vec<String> {
    expected.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn groups_are_made_changed_and_left_alone() {
    let node = Node::new();
    let done = node.settle(Some(TWO)).unwrap();
    assert_eq!(done.made, names(&["a", "b"]));
    assert_eq!(done.changed, names(&[""]));
    assert_eq!(node.schemata("a"), "L3:0=3ff\n");
    assert_eq!(node.schemata("b"), "L3:0=1f\n");
    assert_eq!(node.schemata(""), "L3:0=3ff\n");
    assert_eq!(node.record(), ".\na\nb\n");
    // The kernel writes them in another format.
    fs::write(node.dir.path().join("a/schemata"), "    L3:0=003ff\n").unwrap();
    assert_eq!(node.settle(Some(TWO)).unwrap(), Settled::default());
    let other = TWO.replace("{l3Allocation: 50%}", "{l3Allocation: 10%}");
    let done = node.settle(Some(&other)).unwrap();
    assert_eq!((done.made.len(), done.changed), (0, names(&["b"])));
    assert_eq!(node.schemata("b"), "L3:0=1\n");
}

#[test]
fn former_groups_go_when_they_are_empty_and_those_of_others_stay() {
    let node = Node::new();
    node.settle(Some(TWO)).unwrap();
    node.group("a", "4711\n");
    node.group("b", "");
    node.group("others", "");
    let only = "partitions: {p: {classes: {c: }}}\n";
    // Three of the four and the root's are in use; one is removed.
    let done = node.settle(Some(only)).unwrap();
    assert_eq!((done.removed, done.kept), (names(&["b"]), names(&["a"])));
    assert_eq!(done.made, names(&["c"]));
    assert!(node.has("a") && node.has("others") && !node.has("b"));
    assert_eq!(node.record(), "a\nc\n");
    node.group("a", "");
    node.group("c", "");
    fs::write(node.dir.path().join("c/cpus_list"), "2-3\n").unwrap();
    let done = node.settle(None).unwrap();
    assert_eq!((done.removed, done.kept), (names(&["a"]), names(&["c"])));
    assert_eq!(node.record(), "c\n");
    // After a reboot no group is left.
    let record = node.state.path().join("rdt");
    assert_eq!(
        settle(None, &record, None, &[]).unwrap(),
        Settled::default()
    );
    assert_eq!(node.record(), "");
}

#[test]
fn what_fails_leaves_everything_as_it_was() {
    let node = Node::new();
    node.settle(Some(TWO)).unwrap();
    node.group("a", "");
    node.group("b", "");
    // The kernel refuses the last write.
    node.group("z", "");
    fs::create_dir(node.dir.path().join("z/schemata")).unwrap();
    let text = "\
partitions:
  p:
    l3Allocation: 20%
    classes:
      a:
      n:
      z:
";
    let error = node.settle(Some(text)).unwrap_err().to_string();
    assert!(
        error.starts_with("rdt.yaml:7: writing \"L3:0=f\""),
        "{error}"
    );
    assert!(error.contains("kernel message: mask f is odd"), "{error}");
    assert_eq!(node.schemata("a"), "L3:0=3ff\n");
    assert!(!node.has("n"));
    assert_eq!(node.schemata("b"), "L3:0=1f\n");
    assert_eq!(node.record(), ".\na\nb\n");
}

#[test]
fn the_root_gets_everything_back() {
    let node = Node::new();
    fs::create_dir(node.dir.path().join("info/MB")).unwrap();
    for (file, text) in [("num_closids", "4\n"), ("min_bandwidth", "10\n")] {
        fs::write(node.dir.path().join("info/MB").join(file), text).unwrap();
    }
    let whole = "L3:0=fffff\nMB:0=100\n";
    fs::write(node.dir.path().join("schemata"), whole).unwrap();
    let half = TWO.replace(
        "50%\n    classes",
        "50%\n    mbAllocation: [50%]\n    classes",
    );
    for without in [Some(TWO.replace("      DEFAULT:\n", "")), None] {
        node.settle(Some(&half)).unwrap();
        assert_eq!(node.schemata(""), "L3:0=3ff\nMB:0=50\n");
        assert!(node.record().starts_with(".\n"));
        for name in ["a", "b"] {
            node.group(name, "");
        }
        let done = node.settle(without.as_deref()).unwrap();
        assert_eq!(done.changed.last(), Some(&String::new()));
        assert_eq!(node.schemata(""), whole);
        assert!(!node.record().contains('.'), "{}", node.record());
    }
    // A value set by another program is kept.
    fs::write(node.dir.path().join("schemata"), "L3:0=ff\nMB:0=20\n").unwrap();
    node.settle(None).unwrap();
    assert_eq!(node.schemata(""), "L3:0=ff\nMB:0=20\n");
    // Exclusive ways of a group are not available to it.
    node.settle(Some(TWO)).unwrap();
    for name in ["a", "b"] {
        node.group(name, "");
    }
    let usage = "0=SSSSSSSSSSSSSSEESSSS\n";
    fs::write(node.dir.path().join("info/L3/bit_usage"), usage).unwrap();
    node.settle(None).unwrap();
    assert_eq!(node.schemata(""), "L3:0=fffc0\nMB:0=100\n");
}

#[test]
fn groups_that_others_made_stay() {
    let node = Node::new();
    node.group("a", "");
    let done = node.settle(Some(TWO)).unwrap();
    assert_eq!(done.made, names(&["b"]));
    assert_eq!(node.schemata("a"), "L3:0=3ff\n");
    assert_eq!(node.record(), ".\nb\n");
    node.group("b", "");
    assert_eq!(node.settle(None).unwrap().removed, names(&["b"]));
    assert!(node.has("a"));
    // A created group becomes the administrator's when it is listed as such.
    node.settle(Some(TWO)).unwrap();
    node.group("b", "");
    let done = node.settle_beside(None, &names(&["b"])).unwrap();
    assert_eq!((done.removed, done.kept), (names(&[]), names(&[])));
    assert!(node.has("b"));
    assert_eq!(node.record(), "");
    // A recorded group is removed even if the daemon was killed after it created the group.
    fs::write(node.state.path().join("rdt"), "c\n").unwrap();
    node.group("c", "");
    assert_eq!(node.settle(None).unwrap().removed, names(&["c"]));
}

#[test]
fn a_machine_without_resctrl_is_told() {
    let state = tempfile::tempdir().unwrap();
    let record = state.path().join("rdt");
    let wanted = Partitions::parse(Path::new("rdt.yaml"), TWO).unwrap();
    let error = settle(None, &record, Some(&wanted), &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("mount -t resctrl"), "{error}");
    assert_eq!(
        settle(None, &record, None, &[]).unwrap(),
        Settled::default()
    );
}
