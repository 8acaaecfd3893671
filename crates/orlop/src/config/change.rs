//! What a reload changes.

use std::collections::BTreeMap;

use super::load::dotted;
use super::schema::{Config, RUNTIMES, is_live};
use super::section::{Applies, Key, Section};
use super::values::Backend;

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
    let backend = old.daemon.backend;
    let (old, new) = (flatten(old, backend), flatten(new, backend));
    let mut changes = Changes::default();
    for (name, key) in &new {
        if old
            .get(name)
            .is_some_and(|before| before.value == key.value)
        {
            continue;
        }
        changes.note(name, key);
    }
    for (name, key) in old.iter().filter(|(name, _)| !new.contains_key(*name)) {
        changes.note(name, key);
    }
    changes
}

impl Changes {
    fn note(&mut self, name: &str, key: &Key) {
        match key.applies {
            Applies::live => self.applied.push(name.to_owned()),
            Applies::restart => self.pending.push(name.to_owned()),
        }
    }
}

/// What rules once the new configuration has taken the place of the old one without a restart.
pub(crate) fn reloaded(old: &Config, new: &Config) -> Config {
    let mut rules = new.clone();
    rules.keep(old);
    rules
}

fn flatten(config: &Config, backend: Backend) -> BTreeMap<String, Key> {
    let mut keys = BTreeMap::new();
    let mut add = |table: &str, section: &dyn Section, is_live: bool| {
        keys.extend(section.keys().into_iter().map(|mut key| {
            if !is_live {
                key.applies = Applies::restart;
            }
            (dotted(table, key.name), key)
        }));
    };
    for (table, section) in config.sections() {
        add(table, section, is_live(table, backend));
    }
    for (name, runtime) in &config.runtimes {
        add(&dotted(RUNTIMES, name), runtime, is_live(RUNTIMES, backend));
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
    fn a_runtime_that_is_gone_is_gone_at_once_and_with_docker_at_the_next_start() {
        let mut new = Config::default();
        let mut old = new.clone();
        old.runtimes
            .insert("runc".to_owned(), super::super::schema::Runtime::default());
        let kind = "runtimes.runc.kind".to_owned();
        assert!(changes(&old, &new).applied.contains(&kind));
        assert!(reloaded(&old, &new).runtimes.is_empty());
        for config in [&mut old, &mut new] {
            config.daemon.backend = Backend::Docker;
        }
        assert!(changes(&old, &new).pending.contains(&kind));
        assert_eq!(reloaded(&old, &new), old);
    }

    #[test]
    fn what_waits_for_a_restart_rules_on_and_is_told_each_time() {
        let old = Config::default();
        let mut new = old.clone();
        new.daemon.root = "/other".parse().unwrap();
        new.containers.restore_images = true;
        let rules = reloaded(&old, &new);
        assert_eq!(rules.daemon.root, old.daemon.root);
        assert!(rules.containers.restore_images);
        let again = changes(&rules, &new);
        assert_eq!(
            (again.applied.len(), again.pending),
            (0, vec!["root".to_owned()])
        );
    }
}
