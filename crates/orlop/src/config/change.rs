//! Changes of the configuration at a reload.

use std::collections::BTreeMap;

use super::schema::{Config, RUNTIMES, is_live};
use super::section::{Applies, Key, Section, dotted};
use super::validate::validate;

/// The keys whose values differ between two configurations.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Keys that took effect.
    pub(crate) applied: Vec<String>,
    /// Keys that take effect after a restart.
    pub(crate) pending: Vec<String>,
}

/// Compares the active configuration with a new one.
pub(crate) fn changes(old: &Config, new: &Config) -> Changes {
    let backend = old.daemon.backend;
    let same = backend == new.daemon.backend;
    let is_live = |table: &str| same && is_live(table, backend);
    let (old, new) = (flatten(old, is_live), flatten(new, is_live));
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

/// Returns the configuration to activate without a restart. Fails if the keys that apply now conflict with the current
/// values of the keys that need a restart.
pub(crate) fn reloaded(old: &Config, new: &Config) -> Result<Config, String> {
    let mut rules = new.clone();
    rules.keep(old);
    let problems: Vec<String> = validate(&rules)
        .into_iter()
        .map(|(key, problem)| format!("{key}: {problem}"))
        .collect();
    if problems.is_empty() {
        return Ok(rules);
    }
    let waiting = changes(old, new).pending.join(", ");
    Err(format!(
        "a restart is required, because changes of {waiting} apply only after a restart and the \
         rest of the new configuration conflicts with the current values: {}",
        problems.join("; ")
    ))
}

fn flatten(config: &Config, is_live: impl Fn(&str) -> bool) -> BTreeMap<String, Key> {
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
        add(table, section, is_live(table));
    }
    for (name, runtime) in &config.runtimes {
        add(&dotted(RUNTIMES, name), runtime, is_live(RUNTIMES));
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::values::Backend;

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
        assert!(reloaded(&old, &new).unwrap().runtimes.is_empty());
        for config in [&mut old, &mut new] {
            config.daemon.backend = Backend::Docker;
        }
        assert!(changes(&old, &new).pending.contains(&kind));
        assert_eq!(reloaded(&old, &new).unwrap(), old);
    }

    #[test]
    fn what_rules_until_a_restart_is_as_good_as_what_is_in_a_file() {
        let mut old = Config::default();
        old.streaming.address = "0.0.0.0".parse().unwrap();
        old.streaming.tls_cert = Some("/c.pem".parse().unwrap());
        old.streaming.tls_key = Some("/k.pem".parse().unwrap());
        assert_eq!(validate(&old), []);
        let new = Config::default();
        assert_eq!(validate(&new), []);
        // The address must wait: without TLS the endpoint would be unprotected.
        let error = reloaded(&old, &new).unwrap_err();
        assert!(
            error.contains("changes of streaming.address apply only after a restart"),
            "{error}"
        );
        assert!(error.contains("open to other machines"), "{error}");
    }

    #[test]
    fn another_backend_is_another_daemon() {
        let mut old = Config::default();
        old.images.credentials_dir = Some("/credentials".parse().unwrap());
        let mut new = Config::default();
        new.daemon.backend = Backend::Docker;
        new.log.level = "debug".parse().unwrap();
        assert_eq!(reloaded(&old, &new).unwrap(), old);
        let changes = changes(&old, &new);
        assert_eq!(changes.applied, [""; 0]);
        assert_eq!(
            changes.pending,
            ["backend", "images.credentials_dir", "log.level"]
        );
    }

    #[test]
    fn what_waits_for_a_restart_rules_on_and_is_told_each_time() {
        let old = Config::default();
        let mut new = old.clone();
        new.daemon.root = "/other".parse().unwrap();
        new.containers.restore_images = true;
        let rules = reloaded(&old, &new).unwrap();
        assert_eq!(rules.daemon.root, old.daemon.root);
        assert!(rules.containers.restore_images);
        let again = changes(&rules, &new);
        assert_eq!(
            (again.applied.len(), again.pending),
            (0, vec!["root".to_owned()])
        );
    }
}
