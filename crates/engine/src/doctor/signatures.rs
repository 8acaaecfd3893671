//! Whether the policies that say which images may be used can be understood.

use orlop_image::PolicyFiles;

use super::Finding;
use crate::error::chain;

const AREA: &str = "signatures";

pub(super) fn examine(files: &PolicyFiles) -> Vec<Finding> {
    if files.is_empty() {
        return vec![Finding::ok(AREA, "no policy is set, any image may be used")];
    }
    let (right, wrong) = files.check();
    if wrong.is_empty() {
        let text = format!("{right} policies are understood, and so are their keys");
        return vec![Finding::ok(AREA, text)];
    }
    let problem = |error| {
        Finding::problem(
            AREA,
            format!("images that it is about can't be used: {}", chain(&error)),
            "mend the file, no restart is needed",
        )
    };
    wrong.into_iter().map(problem).collect()
}

#[cfg(test)]
mod tests {
    use orlop_cri::inspection::FindingLevel;

    use super::*;

    #[test]
    fn a_broken_policy_is_told_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policy.json");
        let files = PolicyFiles {
            node: Some(file.clone()),
            namespaces: None,
        };
        assert_eq!(
            examine(&PolicyFiles::default())[0].level(),
            FindingLevel::Ok
        );
        let missing = &examine(&files)[0];
        assert_eq!(missing.level(), FindingLevel::Problem);
        std::fs::write(&file, r#"{"default":[{"type":"reject"}]}"#).unwrap();
        let [right] = &examine(&files)[..] else {
            panic!("one policy");
        };
        assert_eq!(right.level(), FindingLevel::Ok, "{right:?}");
        let key = r#"{"default":[{"type":"sigstoreSigned","keyPath":"/nowhere.pub"}]}"#;
        std::fs::write(&file, key).unwrap();
        let wrong = &examine(&files)[0];
        assert_eq!(wrong.level(), FindingLevel::Problem);
        let place = format!("{}: default[0]: the key /nowhere.pub", file.display());
        assert!(wrong.text.contains(&place), "{}", wrong.text);
    }
}
