//! Aliases of short names.

use super::scope::Location;
use crate::reference::is_short;
use crate::{Place, Repository};

/// The repository that a short name refers to.
#[derive(Debug, Clone)]
pub(crate) struct Alias {
    pub(crate) target: Repository,
    pub(crate) place: Place,
}

/// How to resolve a short name if several registries would be searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Refuses the name, because no user can be asked to choose.
    Enforcing,
    /// Tries all registries in order.
    Permissive,
    /// Same as `Permissive`; the modes differ only in prompts, which do not exist here.
    Disabled,
}

impl Mode {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "enforcing" => Some(Self::Enforcing),
            "permissive" => Some(Self::Permissive),
            "disabled" => Some(Self::Disabled),
            _ => None,
        }
    }
}

/// Returns whether a name can be an alias.
pub(crate) fn is_alias(name: &str) -> bool {
    // The host is arbitrary, because an alias has none.
    let whole = Location::parse(&format!("x.example/{name}"));
    is_short(name)
        && whole.is_ok_and(|it| it.selector().is_empty())
        && !name.is_empty()
        && !name.ends_with('/')
}
