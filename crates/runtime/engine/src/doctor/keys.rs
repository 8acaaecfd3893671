//! Check that the keys for encrypted images are readable.

use orlop_image_store::KeyFiles;

use super::Finding;
use crate::error::chain;

const AREA: &str = "encryption";

pub(super) fn examine(files: &KeyFiles) -> Vec<Finding> {
    if files.is_empty() {
        return Vec::new();
    }
    let (count, wrong) = files.check();
    if wrong.is_empty() {
        let text = format!("all keys for encrypted images are valid (keys: {count})");
        return vec![Finding::ok(AREA, text)];
    }
    let problem = |error| {
        Finding::problem(
            AREA,
            format!("encrypted images cannot be used: {}", chain(&error)),
            "fix the file; no restart is needed",
        )
    };
    wrong.into_iter().map(problem).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use orlop_cri_api::inspection::FindingLevel;

    use super::*;

    #[test]
    fn a_key_that_cannot_be_used_is_told_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let files = KeyFiles {
            dir: Some(dir.path().to_owned()),
            providers: None,
        };
        assert!(examine(&KeyFiles::default()).is_empty());
        assert_eq!(examine(&files)[0].level(), FindingLevel::Ok);
        let key = dir.path().join("team/key.pem");
        std::fs::create_dir(dir.path().join("team")).unwrap();
        std::fs::write(&key, "").unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
        let wrong = &examine(&files)[0];
        assert_eq!(wrong.level(), FindingLevel::Problem);
        assert!(
            wrong.text.contains(&key.display().to_string()),
            "{}",
            wrong.text
        );
    }
}
