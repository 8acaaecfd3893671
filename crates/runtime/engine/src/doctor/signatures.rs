//! Check of the signature policies.

use orlop_image_store::{Config, check_signature_stores};

use super::Finding;
use crate::error::chain;

const AREA: &str = "signatures";

pub(super) fn examine(images: &Config) -> Vec<Finding> {
    if images.policies.is_empty() {
        return vec![Finding::ok(
            AREA,
            "no signature policy is set; all images are allowed",
        )];
    }
    let (right, wrong) = images.policies.check();
    let mut findings = if wrong.is_empty() {
        let text = format!("all signature policies and their keys are valid (policies: {right})");
        vec![Finding::ok(AREA, text)]
    } else {
        let problem = |error| {
            Finding::problem(
                AREA,
                format!(
                    "images that this policy applies to cannot be used: {}",
                    chain(&error)
                ),
                "fix the file; no restart is needed",
            )
        };
        wrong.into_iter().map(problem).collect()
    };
    let doubts = images.policies.doubts().into_iter().map(|doubt| {
        let text = format!(
            "a rule of a signature policy has no effect: {}",
            chain(&doubt)
        );
        Finding::warning(
            AREA,
            text,
            "write the scope as a full image name, such as registry.example.com/repository",
        )
    });
    findings.extend(doubts);
    let stores = images.signature_stores.as_deref();
    if let Some(Err(error)) = stores.map(check_signature_stores) {
        findings.push(Finding::problem(
            AREA,
            format!(
                "images that require a signature cannot be pulled: {}",
                chain(&error)
            ),
            "fix or remove the file; no restart is needed",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::inspection::FindingLevel;

    use super::*;

    #[test]
    fn a_broken_policy_is_told_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policy.json");
        let mut images = Config::new(dir.path());
        images.signature_stores = Some(dir.path().to_owned());
        assert_eq!(examine(&images)[0].level(), FindingLevel::Ok);
        images.policies.node = Some(file.clone());
        let missing = &examine(&images)[0];
        assert_eq!(missing.level(), FindingLevel::Problem);
        std::fs::write(&file, r#"{"default":[{"type":"reject"}]}"#).unwrap();
        let [right] = &examine(&images)[..] else {
            panic!("one policy");
        };
        assert_eq!(right.level(), FindingLevel::Ok, "{right:?}");
        let odd = r#"{"default":[{"type":"reject"}],"transports":{"docker":{"busybox":[{"type":"reject"}]}}}"#;
        std::fs::write(&file, odd).unwrap();
        let [right, odd] = &examine(&images)[..] else {
            panic!("a policy and a scope");
        };
        assert_eq!(right.level(), FindingLevel::Ok, "{right:?}");
        assert_eq!(odd.level(), FindingLevel::Warning, "{odd:?}");
        assert!(
            odd.text.contains("docker[\"busybox\"]: no image"),
            "{odd:?}"
        );
        let key = r#"{"default":[{"type":"sigstoreSigned","keyPath":"/nowhere.pub"}]}"#;
        std::fs::write(&file, key).unwrap();
        let wrong = &examine(&images)[0];
        assert_eq!(wrong.level(), FindingLevel::Problem);
        let place = format!("{}: default[0]: the key /nowhere.pub", file.display());
        assert!(wrong.text.contains(&place), "{}", wrong.text);
        std::fs::write(&file, r#"{"default":[{"type":"reject"}]}"#).unwrap();
        let stores = dir.path().join("a.yaml");
        std::fs::write(&stores, "docker: 7\n").unwrap();
        let [_, wrong] = &examine(&images)[..] else {
            panic!("a policy and a file of stores");
        };
        assert_eq!(wrong.level(), FindingLevel::Problem);
        let place = format!("{}: line 1: must be a map", stores.display());
        assert!(wrong.text.contains(&place), "{}", wrong.text);
    }
}
