//! A Unix group, by name or number.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use super::scalar::quoted;
use super::value::Value;
use crate::config::section::BadValue;

/// A Unix group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Group {
    /// By number.
    Id(u32),
    /// By its name in `/etc/group`.
    Name(String),
}

impl Group {
    /// Returns the group ID. A named group must exist.
    pub(crate) fn resolve(&self) -> Result<u32, String> {
        let name = match self {
            Self::Id(id) => return Ok(*id),
            Self::Name(name) => name,
        };
        let groups = orlop_fs::read_text("/etc/group", orlop_fs::SMALL_FILE)
            .map_err(|error| format!("cannot read /etc/group: {error}"))?;
        find(&groups, name).ok_or_else(|| format!("the group {name:?} is not in /etc/group"))
    }
}

/// Finds the ID of a group in text of the format group(5).
fn find(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

impl FromStr for Group {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text
            .parse()
            .map_or_else(|_| Self::Name(text.to_owned()), Self::Id))
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl Value for Group {
    fn kind() -> String {
        "group name or number".to_owned()
    }

    fn from_toml(value: &toml::Spanned<toml::de::DeValue<'_>>) -> Result<Self, BadValue> {
        match value.get_ref() {
            toml::de::DeValue::String(text) => {
                let Ok(group) = text.parse();
                Ok(group)
            }
            _ => u32::from_toml(value).map(Self::Id),
        }
    }

    fn to_toml(&self) -> String {
        match self {
            Self::Id(id) => id.to_string(),
            Self::Name(name) => quoted(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_as_group_5_says() {
        let groups = "root:x:0:\nbroken\nadm:x:4:syslog,me\n";
        assert_eq!(find(groups, "adm"), Some(4));
        assert_eq!(find(groups, "broken"), None);
        assert_eq!(find(groups, "syslog"), None);
    }
}
