//! Cgroup paths, checked and relative to the root of every hierarchy, and systemd's names for them.

use std::fmt;
use std::path::{Path, PathBuf};

/// The method of making cgroups on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Driver {
    /// Directories, made directly.
    Cgroupfs,
    /// Slices and scopes, made by systemd.
    Systemd,
}

/// A path below the root of every cgroup hierarchy: absolute, without `.`, `..` or empty parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CgroupPath(String);

/// Errors of invalid cgroup paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path would lead out of the hierarchy.
    #[error("cgroup path {0:?} must not contain \"..\"")]
    Escapes(String),
    /// A component cannot be the name of a directory.
    #[error("cgroup path {0:?} has a part that is too long or contains a NUL or a line break")]
    BadPart(String),
    /// The text is not the name of a slice.
    #[error("{0:?} is not a systemd slice; use a name such as \"kubepods-burstable.slice\"")]
    NotASlice(String),
}

impl CgroupPath {
    /// Returns the root of the hierarchies.
    pub fn root() -> Self {
        Self("/".to_owned())
    }

    /// Reads a path, with or without the leading slash.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let mut path = String::with_capacity(text.len() + 1);
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => return Err(PathError::Escapes(text.to_owned())),
                _ if part.len() > 255 || part.contains(['\0', '\n']) => {
                    return Err(PathError::BadPart(text.to_owned()));
                }
                _ => {
                    path.push('/');
                    path.push_str(part);
                }
            }
        }
        if path.is_empty() {
            path.push('/');
        }
        Ok(Self(path))
    }

    /// Returns the directory systemd gives a slice: `a-b.slice` is in `a.slice`.
    ///
    /// Of a path of slices only the last component is used, which contains the whole path.
    pub fn of_slice(text: &str) -> Result<Self, PathError> {
        let error = || PathError::NotASlice(text.to_owned());
        let name = text
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or_default();
        let stem = name.strip_suffix(".slice").ok_or_else(error)?;
        if stem == "-" {
            return Ok(Self::root());
        }
        if stem.is_empty() || stem.split('-').any(str::is_empty) || name.contains(['\0', '\n']) {
            return Err(error());
        }
        let mut path = String::new();
        for (end, _) in stem.match_indices('-').chain([(stem.len(), "")]) {
            path.push('/');
            path.push_str(&stem[..end]);
            path.push_str(".slice");
        }
        Self::parse(&path)
    }

    /// Returns the child cgroup with this name; `name` is a single component.
    pub fn child(&self, name: &str) -> Result<Self, PathError> {
        if name.is_empty() || name.contains('/') {
            return Err(PathError::BadPart(name.to_owned()));
        }
        Self::parse(&format!("{}/{name}", self.0))
    }

    /// Returns the parent cgroup, unless this is the root.
    pub fn parent(&self) -> Option<Self> {
        let (above, name) = self.0.rsplit_once('/')?;
        if name.is_empty() {
            return None;
        }
        Some(if above.is_empty() {
            Self::root()
        } else {
            Self(above.to_owned())
        })
    }

    /// Returns whether this is the root of the hierarchies.
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// Returns the path as text, with a leading slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the last component, empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the directory in the hierarchy mounted at `mount`.
    pub fn below(&self, mount: &Path) -> PathBuf {
        mount.join(self.0.trim_start_matches('/'))
    }
}

impl fmt::Display for CgroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_and_kept_below_the_root() {
        for (text, clean) in [
            ("", "/"),
            ("/", "/"),
            ("kubepods//pod1/", "/kubepods/pod1"),
            ("/a/./b", "/a/b"),
        ] {
            assert_eq!(CgroupPath::parse(text).unwrap().as_str(), clean);
        }
        assert!(matches!(
            CgroupPath::parse("/a/../../b"),
            Err(PathError::Escapes(_))
        ));
        assert!(matches!(
            CgroupPath::parse("/a\n"),
            Err(PathError::BadPart(_))
        ));
    }

    #[test]
    fn slices_lie_in_the_slices_their_names_begin_with() {
        for (slice, path) in [
            ("kubepods.slice", "/kubepods.slice"),
            (
                "kubepods-burstable-pod12_3.slice",
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_3.slice",
            ),
            (
                "/kubepods.slice/kubepods-besteffort.slice",
                "/kubepods.slice/kubepods-besteffort.slice",
            ),
            ("-.slice", "/"),
        ] {
            assert_eq!(
                CgroupPath::of_slice(slice).unwrap().as_str(),
                path,
                "{slice}"
            );
        }
        for bad in [
            "kubepods",
            "a--b.slice",
            ".slice",
            "-a.slice",
            "a-.slice",
            "",
        ] {
            assert!(CgroupPath::of_slice(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_child_is_one_part_and_its_parent_leads_back() {
        let pod = CgroupPath::parse("/kubepods/pod1").unwrap();
        assert_eq!(pod.child("c").unwrap().parent(), Some(pod.clone()));
        assert_eq!(pod.name(), "pod1");
        assert!(pod.child("a/b").is_err());
        assert!(pod.child("..").is_err());
        assert_eq!(CgroupPath::root().parent(), None);
    }
}
