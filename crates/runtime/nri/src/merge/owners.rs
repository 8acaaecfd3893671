//! Which plugin has set what.

use crate::error::{Error, Result};
use crate::marks::{mark, removed};
use crate::v1alpha1::{Field, FieldOwners, OwningPlugins};

/// The plugins that have set something, by container and field.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Owners(OwningPlugins);

impl Owners {
    /// A field is `plugin`'s now, unless it is another's.
    pub(super) fn claim(&mut self, container: &str, field: Field, plugin: &str) -> Result<()> {
        let simple = &mut self.of(container).simple;
        check(simple.get(&(field as i32)), plugin, || name(field, ""))?;
        simple.insert(field as i32, plugin.to_owned());
        Ok(())
    }

    /// An entry of a list or map is `plugin`'s now, likewise.
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

    /// One more plugin has added to a field that several may add to.
    pub(super) fn share(&mut self, container: &str, field: Field, plugin: &str) {
        let owners = self.of(container).simple.entry(field as i32).or_default();
        if !owners.is_empty() {
            owners.push(',');
        }
        owners.push_str(plugin);
    }

    /// Whatever `plugin` has removed it may set anew.
    pub(super) fn clear(&mut self, container: &str, field: Field, plugin: &str) {
        let simple = &mut self.of(container).simple;
        simple.insert(field as i32, mark(plugin));
    }

    /// Likewise for an entry of a list or map.
    pub(super) fn clear_entry(&mut self, container: &str, field: Field, entry: &str, plugin: &str) {
        let compound = &mut self.of(container).compound;
        let owners = &mut compound.entry(field as i32).or_default().owners;
        owners.insert(entry.to_owned(), mark(plugin));
    }

    /// As validators see them.
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
