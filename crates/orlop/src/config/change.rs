//! What a reload changes.

use std::collections::BTreeMap;

use super::load::dotted;
use super::schema::{Config, RUNTIMES};
use super::section::{Applies, Key, Section};

/// The keys whose values differ between two configurations.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Those that took effect.
    pub(crate) applied: Vec<String>,
    /// Those that take effect when the daemon is started again.
    pub(crate) pending: Vec<String>,
}

/// Compares the configuration that rules with the one to come.
pub(crate) fn changes(old: &Config, new: &Config) -> Changes {
    let (old, new) = (flatten(old), flatten(new));
    let mut changes = Changes::default();
    for (name, key) in &new {
        if old
            .get(name)
            .is_some_and(|before| before.value == key.value)
        {
            continue;
        }
        match key.applies {
            Applies::live => changes.applied.push(name.clone()),
            Applies::restart => changes.pending.push(name.clone()),
        }
    }
    changes
        .pending
        .extend(old.keys().filter(|name| !new.contains_key(*name)).cloned());
    changes
}

fn flatten(config: &Config) -> BTreeMap<String, Key> {
    let mut keys = BTreeMap::new();
    let mut add = |table: &str, section: &dyn Section| {
        keys.extend(
            section
                .keys()
                .into_iter()
                .map(|key| (dotted(table, key.name), key)),
        );
    };
    for (table, section) in config.sections() {
        add(table, section);
    }
    for (name, runtime) in &config.runtimes {
        add(&dotted(RUNTIMES, name), runtime);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_level_applies_and_a_changed_root_waits() {
        let old = Config::default();
        let mut new = old.clone();
        new.log.level = "debug".parse().unwrap();
        new.daemon.root = "/other".parse().unwrap();
        let changes = changes(&old, &new);
        assert_eq!(changes.applied, ["log.level"]);
        assert_eq!(changes.pending, ["root"]);
    }

    #[test]
    fn a_runtime_that_is_gone_waits_for_a_restart() {
        let new = Config::default();
        let mut old = new.clone();
        old.runtimes
            .insert("runc".to_owned(), super::super::schema::Runtime::default());
        assert!(
            changes(&old, &new)
                .pending
                .contains(&"runtimes.runc.kind".to_owned())
        );
    }
}
