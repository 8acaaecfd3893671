//! Finds an image by id or name.

use crate::store::{ImageRecord, State};
use crate::{Digest, Error, Reference, Result, Selector};

/// Finds the image for `text`: a full id with or without its algorithm, a name in any form that Docker accepts, or a
/// unique id prefix, in this order. `named` are the full names of a short name.
pub(crate) fn find<'s>(
    state: &'s State,
    text: &str,
    named: &[Reference],
) -> Result<Option<&'s ImageRecord>> {
    if let Ok(id) = text.parse::<Digest>().or_else(|_| Digest::from_hex(text)) {
        return Ok(state.images.get(&id));
    }
    let reference = text.parse::<Reference>();
    if let Some(found) = named.iter().find_map(|name| by_name(state, name)) {
        return Ok(Some(found));
    }
    let prefix = ["sha256:", "sha512:"];
    let digits = prefix
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))
        .unwrap_or(text);
    if !digits.is_empty()
        && digits
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    {
        let mut matching = state
            .images
            .values()
            .filter(|image| image.id.hex().starts_with(digits));
        if let Some(found) = matching.next() {
            return match matching.next() {
                None => Ok(Some(found)),
                Some(_) => Err(Error::Ambiguous(text.to_owned())),
            };
        }
        return Ok(None);
    }
    reference.map(|_| None)
}

fn by_name<'s>(state: &'s State, reference: &Reference) -> Option<&'s ImageRecord> {
    let name = reference.to_string();
    state
        .images
        .values()
        .find(|image| match reference.selector() {
            Selector::Tag(_) => image.tags.contains(&name),
            Selector::Digest(_) => image.digests.contains(&name),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Finds an image without a `registries.conf`.
    fn find<'s>(state: &'s State, text: &str) -> Result<Option<&'s ImageRecord>> {
        let named: Vec<Reference> = text.parse().into_iter().collect();
        super::find(state, text, &named)
    }

    fn state() -> (State, Digest, Digest) {
        let mut state = State::default();
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        for (id, name) in [
            (a, "docker.io/library/busybox:latest"),
            (b, "a.example/b:1"),
        ] {
            let repository = name.rsplit_once(':').unwrap().0;
            state.images.insert(
                id,
                ImageRecord {
                    id,
                    manifest: id,
                    layers: Vec::new(),
                    tags: BTreeSet::from([name.to_owned()]),
                    digests: BTreeSet::from([format!("{repository}@{id}")]),
                    created: 0,
                    handlers: BTreeSet::new(),
                    is_encrypted: false,
                },
            );
        }
        (state, a, b)
    }

    #[test]
    fn every_way_to_name_an_image_finds_it() {
        let (state, a, b) = state();
        let (a_hex, b_hex) = (a.hex(), b.hex());
        for (text, id) in [
            (a.to_string(), a),
            (a_hex.clone(), a),
            (a_hex[..12].to_owned(), a),
            (format!("sha256:{}", &b_hex[..5]), b),
            ("busybox".to_owned(), a),
            ("docker.io/busybox:latest".to_owned(), a),
            (format!("busybox@{a}"), a),
            (format!("busybox:nothing@{a}"), a),
            ("a.example/b:1".to_owned(), b),
        ] {
            assert_eq!(
                find(&state, &text).unwrap().map(|image| image.id),
                Some(id),
                "{text}"
            );
        }
    }

    #[test]
    fn nothing_else_is_found() {
        let (state, a, _) = state();
        let other = Digest::of(b"other").to_string();
        for text in [
            "a.example/b",
            "busybox:1",
            &format!("a.example/b@{a}"),
            &other,
            "0000",
        ] {
            assert_eq!(find(&state, text).unwrap(), None, "{text}");
        }
        assert!(matches!(
            find(&state, "Not A Name"),
            Err(Error::InvalidReference { .. })
        ));
    }
}
