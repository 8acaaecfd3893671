//! The user ids that the node has for pods.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{IdRange, UserNamespaceError};
use crate::text_file::read_text;

/// The user whose subordinate ids pods use.
const USER: &str = "kubelet";

/// Size limit of user lists in bytes.
const LARGEST: u64 = 16 << 20;

/// Returns the ids for pods: the subordinate ids of the user `kubelet` if it exists and has any,
/// else all ids after the first range. Blocks.
pub(crate) fn ids_of_node(per_pod: u32) -> Result<IdRange, UserNamespaceError> {
    let etc = Path::new("/etc");
    if !has_user(&etc.join("passwd")) {
        return Ok(all(per_pod));
    }
    let fail = |why: String| UserNamespaceError::Node(format!("the IDs of user {USER}: {why}"));
    let (uids, gids) = match (ask(&[USER]), ask(&["-g", USER])) {
        (Ok(uids), Ok(gids)) => (spoken(&uids), spoken(&gids)),
        // Without `getsubids`, read the files that it reads.
        (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            match (written(&etc.join("subuid")), written(&etc.join("subgid"))) {
                (Ok(None), Ok(None)) => return Ok(all(per_pod)),
                (uids, gids) => (one(uids), one(gids)),
            }
        }
        (Err(error), _) | (_, Err(error)) => return Err(fail(error.to_string())),
    };
    let (uids, gids) = (uids.map_err(fail)?, gids.map_err(fail)?);
    if uids != gids {
        let why = "the user IDs and the group IDs differ; make them the same";
        return Err(fail(why.to_owned()));
    }
    Ok(uids)
}

/// Returns all ids after the first range, which belongs to the node.
fn all(per_pod: u32) -> IdRange {
    // The remaining ids of 2^32, rounded down to whole ranges.
    let length = u64::from(u32::MAX) + 1 - u64::from(per_pod);
    let whole = length - length.checked_rem(u64::from(per_pod)).unwrap_or(0);
    IdRange {
        first: per_pod,
        length: u32::try_from(whole).unwrap_or(u32::MAX),
    }
}

fn has_user(passwd: &Path) -> bool {
    let text = read_text(passwd, LARGEST).unwrap_or_default();
    text.lines()
        .any(|line| line.split(':').next() == Some(USER))
}

fn ask(args: &[&str]) -> io::Result<String> {
    let output = Command::new("getsubids")
        .args(args)
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(io::Error::other(format!("getsubids: {said}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Parses the output of `getsubids`: `0: kubelet 65536 7208960`.
fn spoken(text: &str) -> Result<IdRange, String> {
    let lines: Vec<_> = text.lines().collect();
    let [line] = &lines[..] else {
        return Err(format!(
            "getsubids printed {} ranges instead of one",
            lines.len()
        ));
    };
    let fields: Vec<_> = line.split_whitespace().collect();
    let [_, _, first, length] = fields[..] else {
        return Err(format!("getsubids printed an invalid line: {line:?}"));
    };
    range(first, length)
}

/// Parses a file such as `/etc/subuid`: `kubelet:65536:7208960`; `None` if the user is missing.
fn written(path: &Path) -> Result<Option<IdRange>, String> {
    let text = match read_text(path, LARGEST) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", path.display()));
        }
        text => text.unwrap_or_default(),
    };
    let mut found = None;
    for line in text.lines() {
        let fields: Vec<_> = line.split(':').collect();
        if fields.first() != Some(&USER) {
            continue;
        }
        let [_, first, length] = fields[..] else {
            return Err(format!("{}: invalid line {line:?}", path.display()));
        };
        if found.replace(range(first, length)?).is_some() {
            return Err(format!(
                "{} has several ranges for the user",
                path.display()
            ));
        }
    }
    Ok(found)
}

fn one(found: Result<Option<IdRange>, String>) -> Result<IdRange, String> {
    found?.ok_or_else(|| {
        "only one of /etc/subuid and /etc/subgid has a range for the user".to_owned()
    })
}

fn range(first: &str, length: &str) -> Result<IdRange, String> {
    let number = |text: &str| {
        text.trim()
            .parse::<u32>()
            .map_err(|_| format!("{text:?} is not a number of IDs"))
    };
    let (first, length) = (number(first)?, number(length)?);
    // The range may include the largest id.
    if u64::from(first) + u64::from(length) > u64::from(u32::MAX) + 1 {
        return Err(format!(
            "the range of {length} IDs from {first} exceeds the largest ID"
        ));
    }
    Ok(IdRange { first, length })
}

#[cfg(test)]
mod tests {
    use orlop_testkit::said_of_hostile_files;

    use super::*;

    #[test]
    fn without_a_user_all_ids_but_the_nodes_own_are_the_pods() {
        for (per_pod, count) in [(65536, 65535), (131_072, 32767), (196_608, 21844)] {
            let ids = all(per_pod);
            assert_eq!(ids.first, per_pod);
            assert_eq!(ids.length / per_pod, count);
            assert_eq!(ids.length % per_pod, 0);
        }
    }

    #[test]
    fn what_the_node_says_of_the_user_is_read() {
        let ids = |first, length| Ok(IdRange { first, length });
        for (text, expected) in [
            ("0: kubelet 65536 7208960\n", ids(65536, 7_208_960)),
            ("0: kubelet 65536 4294901760\n", ids(65536, 4_294_901_760)),
            ("", Err("0 ranges")),
            ("0: kubelet 1 2\n1: kubelet 3 4\n", Err("2 ranges")),
            ("0: kubelet 1\n", Err("invalid line")),
            ("0: kubelet x 4\n", Err("\"x\"")),
            (
                "0: kubelet 65537 4294901760\n",
                Err("exceeds the largest ID"),
            ),
        ] {
            match (spoken(text), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(why), Err(word)) => assert!(why.contains(word), "{why}"),
                (found, _) => panic!("{text:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn files_say_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("subuid");
        assert_eq!(written(&file), Ok(None), "without a file");
        for (text, expected) in [
            ("ann:100000:65536\n", Ok(None)),
            (
                "ann:1:2\nkubelet:65536:131072\n",
                Ok(Some(IdRange {
                    first: 65536,
                    length: 131_072,
                })),
            ),
            ("kubelet:1:2\nkubelet:3:4\n", Err(())),
            ("kubelet:1\n", Err(())),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(written(&file).map_err(|_| ()), expected, "{text}");
        }
    }

    #[test]
    fn a_list_of_ids_without_end_is_told_by_its_name_and_limit() {
        let [large, pipe] =
            said_of_hostile_files("subuid", |path| written(path).expect_err("an error"));
        assert!(
            large.contains("DIR/subuid: larger than the limit of 16777216"),
            "{large}"
        );
        assert!(pipe.contains("DIR/subuid: not a regular file"), "{pipe}");
    }
}
