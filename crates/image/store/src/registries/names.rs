//! Resolves the name of a local image.

use super::files::RegistriesFile;
use crate::reference::is_short;
use crate::{Digest, Reference, Result};

/// The full names that an image may have here by which `text` asks for it; none if it is no name, or one that can't be
/// pulled. Blocks where a short name depends on the file.
pub(crate) fn names_here(file: &RegistriesFile, text: &str) -> Result<Vec<Reference>> {
    if is_id(text) {
        return Ok(Vec::new());
    }
    if !needs_file(file, text) {
        return Ok(text.parse().into_iter().collect());
    }
    Ok(file.read()?.names_here(text))
}

/// Which name a request means that asks for an image by `text`, where the image has these names and this id. That may be
/// an id, and ids look like names: `sha256:0123…` would be one of docker.io. A short name is the full one that the image
/// has of those that it stands for, else the first of them.
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
    // What can't be told is judged as if nothing were said of short names.
    let name = stands_for.into_iter().next().unwrap_or(parsed);
    let algorithms = ["sha256:", "sha512:"];
    let mut stripped = algorithms.iter().filter_map(|it| text.strip_prefix(it));
    let digits = stripped.next().unwrap_or(text);
    (!id.hex().starts_with(digits)).then_some(name)
}

/// Whether a text is a whole id.
pub(crate) fn is_id(text: &str) -> bool {
    text.parse::<Digest>().is_ok() || Digest::from_hex(text).is_ok()
}

/// Whether a file says what a name stands for.
pub(crate) fn needs_file(file: &RegistriesFile, text: &str) -> bool {
    file.path().is_some() && is_short(text)
}
