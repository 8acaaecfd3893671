//! Tests of valid and invalid files.

use super::*;

const FILE: &str = "\
options:
  l2: {optional: true}
partitions:
  shared:
    l3Allocation: '40%'
    mbAllocation: ['50%', 2000MBps]
    classes:
      burstable:
      besteffort:
        l3Allocation: {all: '50%', '2-3': {unified: '30%', code: '20%', data: '10%'}}
        kubernetes: {denyPodAnnotation: true}
      DEFAULT: {l3Allocation: 0xff }
  exclusive:
    l3Allocation: 60%
    classes:
      guaranteed: {kubernetes: {denyContainerAnnotation: yes}}
";

fn parse(text: &str) -> Result<Partitions> {
    Partitions::parse(Path::new("/etc/rdt.yaml"), text)
}

#[test]
fn a_file_of_the_peers_is_understood() {
    let text = FILE.replace("0xff ", "'0xff'");
    let found = parse(&text).unwrap();
    assert!(found.optional.l2 && !found.optional.l3);
    let names: Vec<&str> = found.classes().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["guaranteed", "burstable", "besteffort", "DEFAULT"]);
    let besteffort = found.class("besteffort").unwrap();
    assert!(besteffort.deny_pods && !besteffort.deny_containers);
    assert!(found.class("guaranteed").unwrap().deny_containers);
    assert!(found.class("DEFAULT").unwrap().is_root());
    assert_eq!(found.class("other"), None);
    assert_eq!(parse("partitions: {}\n").unwrap().classes().count(), 0);
}

#[test]
fn what_is_wrong_is_told_with_file_line_and_value() {
    // Without quotes it is a number, and ambiguous as a mask.
    let error = parse(FILE).unwrap_err().to_string();
    assert!(error.starts_with("/etc/rdt.yaml:12: "), "{error}");
    assert!(error.contains("the number 255"), "{error}");
    for (text, line, word) in [
        ("partition: {}\n", 1, "\"partition\""),
        ("options:\n  l4: {}\n", 2, "\"l4\""),
        ("options:\n  l3: {optional: maybe}\n", 2, "true or false"),
        ("partitions:\n- a\n", 2, "expected a map"),
        ("partitions:\n  p:\n    l3Schema: 50%\n", 3, "\"l3Schema\""),
        ("partitions:\n  p:\n    l3Allocation: 150%\n", 3, "\"150%\""),
        (
            "partitions:\n  p:\n    classes:\n      ../x: {}\n",
            4,
            "\"../x\"",
        ),
        (
            "partitions:\n  p:\n    classes:\n      info: {}\n",
            4,
            "reserved by the kernel",
        ),
        (
            "partitions:\n  p: {classes: {a: {}}}\n  o:\n    classes:\n      a: {}\n",
            5,
            "already defined in line 2",
        ),
        (
            "partitions:\n  p:\n    classes:\n      a:\n        mbAllocation: [5%]\n",
            5,
            "sets mbAllocation, but its partition \"p\" does not",
        ),
        (
            "partitions: {p: {classes: {a: {kubernetes: {deny: true}}}}}\n",
            1,
            "\"deny\"",
        ),
        (
            "partitions: {}\n---\npartitions: {}\n",
            3,
            "a second document",
        ),
        ("partitions: [\n", 1, "unclosed"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("/etc/rdt.yaml:{line}: ")),
            "{text}: {error}"
        );
        assert!(error.contains(word), "{text}: {error}");
    }
    let empty = parse("# nothing\n").unwrap_err().to_string();
    assert!(empty.contains("the file is empty"), "{empty}");
}
