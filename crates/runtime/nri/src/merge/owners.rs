//! Records which plugin has set which field.

use crate::error::{Error, Result};
use crate::marks::{mark, removed};
use crate::v1alpha1::{Field, FieldOwners, OwningPlugins};

/// The plugins that have set fields, by container and field.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Owners(OwningPlugins);

impl Owners {
    /// Makes `plugin` the owner of a field; an error if another plugin owns it.
    pub(super) fn claim(&mut self, container: &str, field: Field, plugin: &str) -> Result<()> {
        let simple = &mut self.of(container).simple;
        check(simple.get(&(field as i32)), plugin, || name(field, ""))?;
        simple.insert(field as i32, plugin.to_owned());
        Ok(())
    }

    /// Makes `plugin` the owner of an entry of a list or map; an error if another plugin owns it.
    pub(super) fn claim_entry(
        &mut self,
        container: &str,
        field: Field,
        entry: &str,
        plugin: &str,
    ) -> Result<()> {
        let compound = &mut self.of(container).compound;
        let owners = &mut compound.entry(field as i32).or_default().owners;
        check(owners.get(entry), plugin, || name(field, entry))?;
        owners.insert(entry.to_owned(), plugin.to_owned());
        Ok(())
    }

    /// Adds `plugin` to the owners of a field that several plugins may extend.
    pub(super) fn share(&mut self, container: &str, field: Field, plugin: &str) {
        let owners = self.of(container).simple.entry(field as i32).or_default();
        if !owners.is_empty() {
            owners.push(',');
        }
        owners.push_str(plugin);
    }

    /// Records that `plugin` has removed a field, so that it may set the field again.
    pub(super) fn clear(&mut self, container: &str, field: Field, plugin: &str) {
        let simple = &mut self.of(container).simple;
        simple.insert(field as i32, mark(plugin));
    }

    /// Records that `plugin` has removed an entry of a list or map, so that it may set the entry again.
    pub(super) fn clear_entry(&mut self, container: &str, field: Field, entry: &str, plugin: &str) {
        let compound = &mut self.of(container).compound;
        let owners = &mut compound.entry(field as i32).or_default().owners;
        owners.insert(entry.to_owned(), mark(plugin));
    }

    /// Returns the owners as the message for validators.
    pub(crate) fn message(&self) -> &OwningPlugins {
        &self.0
    }

    fn of(&mut self, container: &str) -> &mut FieldOwners {
        self.0.owners.entry(container.to_owned()).or_default()
    }
}

fn check(owner: Option<&String>, plugin: &str, what: impl FnOnce() -> String) -> Result<()> {
    let other = match owner.map(|owner| (removed(owner), owner)) {
        None => return Ok(()),
        Some((Some(remover), _)) if remover == plugin => return Ok(()),
        Some((Some(remover), _)) => remover,
        Some((None, owner)) => owner,
    };
    Err(Error::Conflict {
        plugin: plugin.to_owned(),
        other: other.to_owned(),
        what: what(),
    })
}

fn name(field: Field, entry: &str) -> String {
    match entry {
        "" => field.as_str_name().to_owned(),
        entry => format!("{} {entry}", field.as_str_name()),
    }
}
