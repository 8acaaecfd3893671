//! Location of the node's own registry credentials.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::path::AbsolutePath;
use super::text::text_value;

/// Value for the paths that podman uses.
const PODMAN: &str = "podman";

/// A credentials file, or the paths that podman searches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CredentialsAt {
    File(AbsolutePath),
    Podman,
}

impl CredentialsAt {
    /// Returns the files in lookup order. A missing file contains no credentials.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::File(path) => vec![path.to_path_buf()],
            Self::Podman => places(|name| std::env::var_os(name)),
        }
    }
}

/// The paths of containers-auth.json(5), then those of Docker.
fn places(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let path = |name: &str| {
        let path = variable(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    if let Some(file) = path("REGISTRY_AUTH_FILE") {
        return vec![file];
    }
    let auth = "containers/auth.json";
    let mut files: Vec<PathBuf> = path("XDG_RUNTIME_DIR")
        .map(|dir| dir.join(auth))
        .into_iter()
        .collect();
    files.push("/run/containers/0/auth.json".into());
    let home = path("HOME").unwrap_or_else(|| Path::new("/root").to_owned());
    let config = path("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
    files.push(config.join(auth));
    let docker = path("DOCKER_CONFIG").unwrap_or_else(|| home.join(".docker"));
    files.push(docker.join("config.json"));
    files.push(home.join(".dockercfg"));
    files
}

impl FromStr for CredentialsAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            PODMAN => Ok(Self::Podman),
            path => path.parse().map(Self::File),
        }
    }
}

impl fmt::Display for CredentialsAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.fmt(f),
            Self::Podman => f.write_str(PODMAN),
        }
    }
}

text_value!(CredentialsAt, "path or \"podman\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn podman_s_places_depend_on_the_environment() {
        let of = |set: &[(&str, &str)]| {
            let set: Vec<(String, OsString)> = set
                .iter()
                .map(|(name, value)| ((*name).to_owned(), OsString::from(value)))
                .collect();
            let files = places(|name| {
                let found = set.iter().find(|(known, _)| known == name);
                found.map(|(_, value)| value.clone())
            });
            files
                .iter()
                .map(|file| file.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(&[]),
            [
                "/run/containers/0/auth.json",
                "/root/.config/containers/auth.json",
                "/root/.docker/config.json",
                "/root/.dockercfg"
            ]
        );
        assert_eq!(
            of(&[
                ("XDG_RUNTIME_DIR", "/run/user/0"),
                ("HOME", "/h"),
                ("XDG_CONFIG_HOME", "/c"),
                ("DOCKER_CONFIG", "relative"),
            ]),
            [
                "/run/user/0/containers/auth.json",
                "/run/containers/0/auth.json",
                "/c/containers/auth.json",
                "/h/.docker/config.json",
                "/h/.dockercfg"
            ]
        );
        assert_eq!(of(&[("REGISTRY_AUTH_FILE", "/a"), ("HOME", "/h")]), ["/a"]);
    }

    #[test]
    fn a_file_is_named_by_its_path_alone() {
        assert_eq!("podman".parse(), Ok(CredentialsAt::Podman));
        let file: CredentialsAt = "/etc/auth.json".parse().unwrap();
        assert_eq!(file.files(), [Path::new("/etc/auth.json")]);
        assert_eq!(file.to_string(), "/etc/auth.json");
        assert!("docker".parse::<CredentialsAt>().is_err());
    }
}
