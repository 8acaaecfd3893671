//! Names of entries, as paths from the root.

use crate::Problem;
use crate::limits::{Limits, NAME_MAX, PATH_MAX};

/// Prefix of special names (OCI image layer specification, "Whiteouts").
const WHITEOUT: &[u8] = b".wh.";
const WHITEOUT_META: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// The components of a path; empty for the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path<'a>(pub(super) Vec<&'a [u8]>);

/// The meaning of a path's last component.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asks<'a> {
    /// The root itself.
    Root,
    /// An entry with this name in this directory.
    There(&'a [&'a [u8]], &'a [u8]),
    /// A whiteout of this name.
    Gone(&'a [&'a [u8]], &'a [u8]),
    /// A directory that hides all contents of lower layers.
    Opaque(&'a [&'a [u8]]),
    /// A special name of an old storage driver, which is ignored.
    Nothing,
}

impl<'a> Path<'a> {
    /// Parses a name. A leading `/` is ignored.
    pub(crate) fn parse(name: &'a [u8], limits: &Limits) -> Result<Self, Problem> {
        if name.len() > PATH_MAX {
            return Err(Problem::NameTooLong);
        }
        if name.contains(&0) {
            return Err(Problem::Nul);
        }
        let parts = name.split(|byte| *byte == b'/');
        let parts: Vec<_> = parts
            .filter(|part| !part.is_empty() && part != b".")
            .collect();
        if parts.iter().any(|part| *part == b"..") {
            return Err(Problem::Upwards);
        }
        if parts.iter().any(|part| part.len() > NAME_MAX) {
            return Err(Problem::NameTooLong);
        }
        if parts.len() > usize::from(limits.depth) + 1 {
            return Err(Problem::TooDeep);
        }
        Ok(Self(parts))
    }

    /// Reports whether the path is this name in the root directory.
    pub(crate) fn is_top(&self, name: &str) -> bool {
        self.0 == [name.as_bytes()]
    }

    pub(super) fn asks(&self) -> Result<Asks<'_>, Problem> {
        let Some((last, directories)) = self.0.split_last() else {
            return Ok(Asks::Root);
        };
        let meta = |name: &&[u8]| name.starts_with(WHITEOUT_META);
        if directories.iter().any(meta) {
            return Ok(Asks::Nothing);
        }
        if *last == OPAQUE {
            return Ok(Asks::Opaque(directories));
        }
        if meta(last) {
            return Ok(Asks::Nothing);
        }
        match last.strip_prefix(WHITEOUT) {
            None => Ok(Asks::There(directories, last)),
            Some(b"" | b"." | b"..") => Err(Problem::Whiteout),
            Some(hidden) => Ok(Asks::Gone(directories, hidden)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> Result<Path<'_>, Problem> {
        let limits = Limits {
            depth: 3,
            ..Limits::default()
        };
        Path::parse(name.as_bytes(), &limits)
    }

    #[test]
    fn the_same_name_is_written_in_many_ways() {
        for name in ["a/b", "/a/b", "./a/b", "a//b/", "a/./b"] {
            assert_eq!(parse(name).unwrap().0, [b"a", b"b"], "{name}");
        }
        for name in ["", "/", ".", "./"] {
            assert!(parse(name).unwrap().0.is_empty(), "{name}");
        }
        assert!(parse("./x").unwrap().is_top("x"));
        assert!(!parse("./x/x").unwrap().is_top("x"));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["..", "a/../b", "/..", "../a", "a/.."] {
            assert_eq!(parse(name), Err(Problem::Upwards), "{name}");
        }
        assert_eq!(parse("a\0b"), Err(Problem::Nul));
        assert_eq!(parse("a/b/c/d/e"), Err(Problem::TooDeep));
        assert!(parse("a/b/c/d").is_ok());
        assert_eq!(parse(&"n".repeat(256)), Err(Problem::NameTooLong));
        assert!(parse(&"n".repeat(255)).is_ok());
        assert_eq!(parse(&"/".repeat(4096)), Err(Problem::NameTooLong));
        // Dots that are a part of a name are harmless.
        assert!(parse("..a/b..").is_ok());
    }

    #[test]
    fn names_may_be_instructions() {
        let asks = |name: &'static str| format!("{:?}", parse(name).unwrap().asks());
        let shown = |asks: Asks<'_>| format!("{:?}", Ok::<_, Problem>(asks));
        let directory = [&b"d"[..]];
        assert_eq!(asks("d/.wh.x"), shown(Asks::Gone(&directory, b"x")));
        assert_eq!(asks("d/x"), shown(Asks::There(&directory, b"x")));
        assert_eq!(asks("d/.wh..wh..opq"), shown(Asks::Opaque(&directory)));
        for name in ["d/.wh..wh.plnk", ".wh..wh.plnk/1.2", ".wh..wh.aufs"] {
            assert_eq!(asks(name), shown(Asks::Nothing));
        }
        for name in ["d/.wh.", "d/.wh..", "d/.wh..."] {
            assert_eq!(parse(name).unwrap().asks(), Err(Problem::Whiteout));
        }
    }
}
