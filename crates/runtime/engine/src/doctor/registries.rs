//! Check of the registry configuration and credential files.

use orlop_cri_api::inspection::FindingLevel;
use orlop_image_store::{Config, check_credentials, check_registry_hosts};

use super::Finding;
use crate::error::chain;

const AREA: &str = "registries";
const REMEDY: &str = "fix or remove the file";

pub(super) fn examine(images: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut good = 0;
    for (registry, problem) in check_registry_hosts(&images.registry_dirs) {
        match problem {
            None => good += 1,
            Some(error) => findings.push(Finding::problem(
                AREA,
                format!("pulls from {registry} fail: {}", chain(&error)),
                REMEDY,
            )),
        }
    }
    if findings.is_empty() {
        let text = format!("all host configurations of registries are valid (registries: {good})");
        findings.push(Finding::ok(AREA, text));
    }
    findings.extend(names(images));
    findings.extend(credentials(images));
    findings
}

/// Returns the problems in the files as text. Blocks on small files.
pub fn problems(images: &Config) -> Vec<String> {
    let found = examine(images).into_iter();
    let found = found.filter(|finding| finding.level() == FindingLevel::Problem);
    found.map(|finding| finding.text).collect()
}

/// Checks the file with registries and aliases.
fn names(images: &Config) -> Option<Finding> {
    let path = images.registries.path()?.display();
    Some(match images.registries.check() {
        Ok((registries, aliases)) => {
            let text = format!("{path} is valid (registries: {registries}, aliases: {aliases})");
            Finding::ok(AREA, text)
        }
        Err(error) => {
            let text = format!("all pulls fail: {}", chain(&error));
            Finding::problem(AREA, text, "fix the file; no restart is needed")
        }
    })
}

/// Checks the credential files. A missing file is valid and has no credentials.
fn credentials(images: &Config) -> Vec<Finding> {
    let namespaces = &images.namespace_credentials;
    let mut wrong = check_credentials(&images.credential_files);
    match namespaces.all_files() {
        Ok(files) => wrong.extend(check_credentials(&files)),
        Err(error) => wrong.push(error),
    }
    let wrong = wrong.iter().map(|error| {
        let text = format!("pulls that need these credentials fail: {}", chain(error));
        Finding::problem(AREA, text, REMEDY)
    });
    wrong.collect()
}

#[cfg(test)]
mod tests {
    use orlop_image_store::{NamespaceCredentials, RegistriesFile};

    use super::*;

    #[test]
    fn each_broken_file_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut images = Config::new(dir.path());
        assert_eq!(problems(&images), [""; 0]);
        let conf = dir.path().join("registries.conf");
        images.registries = RegistriesFile::at(&conf);
        let auth = dir.path().join("auth.json");
        images.credential_files = vec![auth.clone()];
        let namespaces = dir.path().join("namespaces");
        std::fs::create_dir(&namespaces).unwrap();
        images.namespace_credentials = NamespaceCredentials {
            dir: Some(namespaces.clone()),
        };
        std::fs::write(&conf, "").unwrap();
        assert_eq!(problems(&images), [""; 0]);
        std::fs::write(&conf, "\n[[registry]]\nblokced = true\n").unwrap();
        std::fs::write(&auth, "hush").unwrap();
        std::fs::write(namespaces.join("team.json"), "hush").unwrap();
        let told = problems(&images);
        assert_eq!(told.len(), 3, "{told:?}");
        for (text, part) in told
            .iter()
            .zip(["registries.conf:3", "auth.json", "team.json"])
        {
            assert!(text.contains(part) && !text.contains("hush"), "{text}");
        }
    }
}
