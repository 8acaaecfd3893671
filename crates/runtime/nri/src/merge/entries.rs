//! Merges lists and maps whose entries are added and removed individually.

use std::collections::BTreeMap;

use super::Owners;
use crate::error::Result;
use crate::marks::{mark, removed};
use crate::v1alpha1::{Field, KeyValue, LinuxDevice, Mount};

/// The plugin, container and field of a change.
#[derive(Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) container: &'a str,
    pub(super) field: Field,
    pub(super) plugin: &'a str,
}

/// A list entry that has a name.
pub(super) trait Entry: Clone {
    fn name(&self) -> &str;
}

impl Entry for Mount {
    fn name(&self) -> &str {
        &self.destination
    }
}

impl Entry for LinuxDevice {
    fn name(&self) -> &str {
        &self.path
    }
}

impl Entry for KeyValue {
    fn name(&self) -> &str {
        &self.key
    }
}

/// Merges a plugin's entries into the adjustment so far, and into the container that later plugins see.
pub(super) fn list<T: Entry>(
    wish: Wish<'_>,
    owners: &mut Owners,
    wanted: Vec<T>,
    wished: &mut Vec<T>,
    seen: &mut Vec<T>,
) -> Result<()> {
    let (gone, added): (Vec<T>, Vec<T>) = wanted
        .into_iter()
        .partition(|entry| removed(entry.name()).is_some());
    let is_gone = |name: &str| gone.iter().any(|one| removed(one.name()) == Some(name));
    let is_added = |name: &str| added.iter().any(|one| one.name() == name);
    wished.retain(|entry| {
        let gone = is_gone(entry.name());
        if gone {
            owners.clear_entry(wish.container, wish.field, entry.name(), wish.plugin);
        }
        !gone
    });
    seen.retain(|entry| !is_gone(entry.name()) && !is_added(entry.name()));
    for entry in &gone {
        if !removed(entry.name()).is_some_and(is_added) {
            wished.push(entry.clone());
        }
    }
    for entry in &added {
        owners.claim_entry(wish.container, wish.field, entry.name(), wish.plugin)?;
    }
    seen.extend(added.iter().cloned());
    wished.extend(added);
    Ok(())
}

/// Merges a plugin's map entries in the same way.
pub(super) fn map<V: Clone + Default>(
    wish: Wish<'_>,
    owners: &mut Owners,
    wanted: BTreeMap<String, V>,
    wished: &mut BTreeMap<String, V>,
    seen: &mut BTreeMap<String, V>,
) -> Result<()> {
    for name in wanted.keys().filter_map(|name| removed(name)) {
        // Otherwise the entry is the container's own, and no plugin owns it.
        if wished.remove(name).is_some() {
            owners.clear_entry(wish.container, wish.field, name, wish.plugin);
        }
        seen.remove(name);
        wished.insert(mark(name), V::default());
    }
    for (name, value) in wanted {
        if removed(&name).is_none() {
            owners.claim_entry(wish.container, wish.field, &name, wish.plugin)?;
            seen.insert(name.clone(), value.clone());
            wished.insert(name, value);
        }
    }
    Ok(())
}
