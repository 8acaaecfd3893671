//! Resolves the names of stored images.

use super::files::RegistriesFile;
use crate::reference::is_short;
use crate::{Digest, Reference, Result};

/// Returns the full names that `text` may refer to in the store; empty if it is not a name, or cannot be pulled.
/// Blocks if a short name depends on the file.
pub(crate) fn names_here(file: &RegistriesFile, text: &str) -> Result<Vec<Reference>> {
    if is_id(text) {
        return Ok(Vec::new());
    }
    if !needs_file(file, text) {
        return Ok(text.parse().into_iter().collect());
    }
    Ok(file.read()?.names_here(text))
}

/// Returns the name that `text` means as a request for the image with these names and this id, or `None` for an id.
/// Ids look like names: `sha256:0123…` would be an image of docker.io. A short name means the first of its full names
/// that the image has, otherwise the first of all.
pub(crate) fn name_meant<'n>(
    text: &str,
    stands_for: Vec<Reference>,
    names: impl Iterator<Item = &'n str> + Clone,
    id: &Digest,
) -> Option<Reference> {
    let parsed: Reference = text.parse().ok()?;
    let is_name = |name: &&Reference| {
        let full = name.to_string();
        names.clone().any(|name| name == full)
    };
    if let Some(name) = stands_for.iter().find(is_name) {
        return Some(name.clone());
    }
    // A short name that cannot be resolved is treated as if there were no configuration.
    let name = stands_for.into_iter().next().unwrap_or(parsed);
    let algorithms = ["sha256:", "sha512:"];
    let mut stripped = algorithms.iter().filter_map(|it| text.strip_prefix(it));
    let digits = stripped.next().unwrap_or(text);
    (!id.hex().starts_with(digits)).then_some(name)
}

/// Returns whether a text is a complete id.
pub(crate) fn is_id(text: &str) -> bool {
    text.parse::<Digest>().is_ok() || Digest::from_hex(text).is_ok()
}

/// Returns whether the meaning of a name depends on the file.
pub(crate) fn needs_file(file: &RegistriesFile, text: &str) -> bool {
    file.path().is_some() && is_short(text)
}
