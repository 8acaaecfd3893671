//! Order of the entries in a layer with prioritized files.

use std::collections::HashMap;

use crate::image::entries::{Entry, path};

/// Returns the prioritized entries, and the rest.
///
/// # Panics
///
/// If a path is not in the archive.
pub(super) fn ordered<'a>(
    entries: &'a [Entry],
    wanted: &[String],
) -> (Vec<&'a Entry>, Vec<&'a Entry>) {
    let numbers = entries.iter().enumerate();
    let known: HashMap<_, _> = numbers.map(|(at, entry)| (entry.path(), at)).collect();
    let mut taken = vec![false; entries.len()];
    let mut first = Vec::new();
    for name in wanted {
        let at = known.get(path(name.as_bytes())).copied();
        let at = at.unwrap_or_else(|| panic!("{name} is not in the archive"));
        take(at, entries, &known, &mut taken, &mut first);
    }
    let rest = entries.iter().zip(&taken);
    let rest = rest.filter(|(_, taken)| !**taken).map(|(entry, _)| entry);
    (first, rest.collect())
}

/// Takes an entry after the entries that it depends on.
fn take<'a>(
    at: usize,
    entries: &'a [Entry],
    known: &HashMap<&[u8], usize>,
    taken: &mut [bool],
    first: &mut Vec<&'a Entry>,
) {
    if std::mem::replace(&mut taken[at], true) {
        return;
    }
    let entry = &entries[at];
    let parent = entry.path().iter().rposition(|byte| *byte == b'/');
    let parent = parent.map_or(&b""[..], |end| &entry.path()[..end]);
    let linked = (entry.kind == "hardlink").then(|| path(&entry.target));
    for before in [Some(parent), linked].into_iter().flatten() {
        if let Some(before) = known.get(before) {
            take(*before, entries, known, taken, first);
        }
    }
    first.push(entry);
}
