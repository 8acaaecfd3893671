//! The credentials of a pull, in addition to those of the node.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::credentials::Credentials;
use crate::namespace::is_plain;
use crate::{Digest, Error, Reference, Result};

/// Maximum length of a namespace (RFC 1123). A longer one could be mistaken for a namespace with a digest.
const MAX_NAMESPACE: usize = 63;

/// The credentials of one pull. Pulls with different credentials are never joined.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Keyring {
    /// The credentials in the request.
    pub(crate) given: Option<Credentials>,
    /// Credential files of the pod's namespace, in the format of Docker's `config.json`.
    pub(crate) files: Vec<PathBuf>,
}

/// Directory with the credentials of pod namespaces, if there is one: `NAMESPACE.json`, and `NAMESPACE-DIGEST.json`
/// for one repository. The digest is the SHA-256 of the repository's full name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceCredentials {
    /// The directory.
    pub dir: Option<PathBuf>,
}

impl NamespaceCredentials {
    /// Returns the existing files for the pods of a namespace and an image, the most specific first. Blocks.
    pub(crate) fn files(&self, namespace: &str, image: &Reference) -> Result<Vec<PathBuf>> {
        let Some(dir) = self.dir.as_ref().filter(|_| !namespace.is_empty()) else {
            return Ok(Vec::new());
        };
        check(dir, namespace)?;
        let digest = Digest::of(image.repository().to_string().as_bytes());
        let names = [
            format!("{namespace}-{}.json", digest.hex()),
            format!("{namespace}.json"),
        ];
        let files = names.iter().map(|name| dir.join(name));
        // A dangling link counts as existing, so that it causes an error.
        Ok(files
            .filter(|file| std::fs::symlink_metadata(file).is_ok())
            .collect())
    }

    /// Returns all files of the directory. Blocks.
    pub fn all_files(&self) -> Result<Vec<PathBuf>> {
        let Some(dir) = &self.dir else {
            return Ok(Vec::new());
        };
        let wrong = |error: std::io::Error| Error::Configuration {
            path: dir.display().to_string(),
            reason: error.to_string(),
        };
        let mut files = Vec::new();
        let entries = match std::fs::read_dir(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(files),
            entries => entries.map_err(wrong)?,
        };
        for entry in entries {
            let path = entry.map_err(wrong)?.path();
            if path.extension().is_some_and(|it| it == "json") {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

/// Checks that a namespace is a valid file name, which cannot lead outside the directory.
fn check(dir: &Path, namespace: &str) -> Result<()> {
    if is_plain(namespace) && namespace.len() <= MAX_NAMESPACE {
        return Ok(());
    }
    let shown: String = namespace.chars().take(MAX_NAMESPACE).collect();
    Err(Error::Configuration {
        path: dir.display().to_string(),
        reason: format!("{shown:?} is not a valid namespace name"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_its_own_files_alone() {
        let dir = tempfile::tempdir().unwrap();
        // The digest of quay.io/crio/fedora-crio-ci.
        let hex = "7aa25047c59c6c2e20b839f5b9820e3702dade4a97154d4df1f5cd1a9b44cfde";
        let of_image = format!("team-{hex}.json");
        for name in ["team.json", &of_image, "other.json", "team-b.json"] {
            std::fs::write(dir.path().join(name), "{}").unwrap();
        }
        let all = NamespaceCredentials {
            dir: Some(dir.path().to_owned()),
        };
        let files = |namespace: &str, image: &str| {
            let files = all.files(namespace, &image.parse().unwrap())?;
            let names = files.iter().filter_map(|file| file.file_name());
            Ok::<_, Error>(
                names
                    .map(|name| name.to_string_lossy().into_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let image = "quay.io/crio/fedora-crio-ci:latest";
        assert_eq!(files("team", image).unwrap(), [&*of_image, "team.json"]);
        assert_eq!(files("team", "quay.io/x").unwrap(), ["team.json"]);
        assert_eq!(files("third", image).unwrap(), [""; 0]);
        assert_eq!(files("", image).unwrap(), [""; 0]);
        let sly = of_image.trim_end_matches(".json");
        for namespace in ["../team", "a/b", ".team", sly] {
            files(namespace, image).unwrap_err();
        }
        assert_eq!(all.all_files().unwrap().len(), 4);
    }
}
