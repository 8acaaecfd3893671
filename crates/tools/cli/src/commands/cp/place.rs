//! Source or target of a copy: in a container, local, or a stream.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

/// Source or target on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Name or ID of the container, and the path in it.
    Container(String, String),
    Here(PathBuf),
    /// An archive on standard input or output.
    Stream,
}

impl FromStr for Place {
    type Err = Infallible;

    /// A text that starts like a path is a path, even if it contains colons.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        if text == "-" {
            return Ok(Self::Stream);
        }
        let is_path = text.starts_with(['/', '.', '~']);
        Ok(match text.split_once(':') {
            Some((word, path)) if !is_path && !word.is_empty() => {
                Self::Container(word.to_owned(), path.to_owned())
            }
            _ => Self::Here(PathBuf::from(text)),
        })
    }
}

/// Splits a path in a container into directory and name. Without a name it means everything in the directory.
pub(super) fn split(path: &str) -> (String, Option<String>) {
    let whole = path.ends_with("/.") || path.ends_with("/..");
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() || whole {
        let directory = if trimmed.is_empty() { "/" } else { path };
        return (directory.to_owned(), None);
    }
    match trimmed.rsplit_once('/') {
        Some(("", name)) => ("/".to_owned(), Some(name.to_owned())),
        Some((directory, name)) => (directory.to_owned(), Some(name.to_owned())),
        None => ("/".to_owned(), Some(trimmed.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colons_name_containers_unless_it_is_a_path() {
        let place = |text: &str| text.parse::<Place>().unwrap();
        assert_eq!(
            place("web-0/main:/etc"),
            Place::Container("web-0/main".into(), "/etc".into())
        );
        assert_eq!(place("./a:b"), Place::Here("./a:b".into()));
        assert_eq!(place("/a:b"), Place::Here("/a:b".into()));
        assert_eq!(place("a"), Place::Here("a".into()));
        assert_eq!(place("-"), Place::Stream);
    }

    #[test]
    fn a_path_without_a_name_means_what_is_in_it() {
        let split = |path: &str| {
            let (directory, name) = super::split(path);
            (directory, name.unwrap_or_default())
        };
        assert_eq!(split("/etc/hosts"), ("/etc".into(), "hosts".into()));
        assert_eq!(split("/etc/"), ("/".into(), "etc".into()));
        assert_eq!(split("/etc/."), ("/etc/.".into(), String::new()));
        assert_eq!(split("/"), ("/".into(), String::new()));
    }
}
