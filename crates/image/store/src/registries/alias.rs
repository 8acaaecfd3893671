//! Aliases of short names.

use super::scope::Location;
use crate::reference::is_short;
use crate::{Place, Repository};

/// What a short name stands for.
#[derive(Debug, Clone)]
pub(crate) struct Alias {
    pub(crate) target: Repository,
    pub(crate) place: Place,
}

/// What happens to a short name for which several registries are to be searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is refused: nobody is there to be asked which one is meant.
    Enforcing,
    /// All are tried, in order.
    Permissive,
    /// The same: what differs is that nobody would be asked.
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

/// Whether a name can be an alias.
pub(crate) fn is_alias(name: &str) -> bool {
    // The host does not matter: it is what the name lacks.
    let whole = Location::parse(&format!("x.example/{name}"));
    is_short(name)
        && whole.is_ok_and(|it| it.selector().is_empty())
        && !name.is_empty()
        && !name.ends_with('/')
}
