//! The time zone of containers: a zone file of the node, mounted as `/etc/localtime`.

use std::path::PathBuf;

/// Path of the zone file in a container.
pub(super) const DESTINATION: &str = "/etc/localtime";

/// Directory of zone files on the node.
const ZONES: &str = "/usr/share/zoneinfo";

/// Size limit of a zone file, which is a few kilobytes long.
const MAX_SIZE: u64 = 1 << 20;

/// The first bytes of a zone file (RFC 9636).
const MAGIC: &[u8] = b"TZif";

/// The file of a time zone: the node's own for `local`, or by name, such as `Europe/Paris`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timezone(PathBuf);

impl Timezone {
    /// Finds the file of a zone; the error says why there is none.
    pub fn find(name: &str) -> Result<Self, String> {
        let path = if name.eq_ignore_ascii_case("local") {
            PathBuf::from(DESTINATION)
        } else if is_name(name) {
            PathBuf::from(ZONES).join(name)
        } else {
            return Err(format!(
                "{name:?} is not a time zone; use `local` or a name such as Europe/Paris"
            ));
        };
        let told = |problem: &dyn std::fmt::Display| {
            format!(
                "time zone {name:?}: {}: {problem}; install tzdata or use another time zone",
                path.display()
            )
        };
        let found = std::fs::canonicalize(&path).map_err(|error| told(&error))?;
        let content = orlop_fs::read_file(&found, MAX_SIZE).map_err(|error| told(&error))?;
        if !content.starts_with(MAGIC) {
            return Err(told(&"is not a time zone file"));
        }
        Ok(Self(found))
    }

    pub(super) fn path(&self) -> &std::path::Path {
        &self.0
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+');
        !part.is_empty() && part.chars().all(plain)
    };
    name.len() <= 128 && name.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_named_and_lies_where_zones_are() {
        for wrong in ["", "/etc/passwd", "../../etc/passwd", "Europe/", "a b"] {
            let problem = Timezone::find(wrong).unwrap_err();
            assert!(problem.contains("not a time zone"), "{wrong}: {problem}");
        }
        let problem = Timezone::find("Nowhere/Atall").unwrap_err();
        assert!(problem.contains("tzdata"), "{problem}");
        // This file is among the zones, but it is text.
        if std::path::Path::new(ZONES).join("tzdata.zi").exists() {
            assert!(Timezone::find("tzdata").is_err());
        }
    }
}
