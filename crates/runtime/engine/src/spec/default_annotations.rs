//! Annotations that an administrator sets for all pods or those of a runtime.

use std::collections::BTreeMap;

use super::handler_rules::{CGROUP_WRITABLE, SHM_SIZE, TRY_SKIP_RELABEL, UMASK, is_true};
use super::{shm, umask};

/// Returns what is wrong with default annotations that the engine acts on. They are checked when the
/// configuration is read, because every pod gets them.
pub fn problem_of_defaults(annotations: &BTreeMap<String, String>) -> Option<String> {
    let problem = |name: &str, problem: Option<String>| {
        problem.map(|problem| format!("annotation {name}: {problem}"))
    };
    annotations
        .iter()
        .find_map(|(name, value)| match name.as_str() {
            SHM_SIZE => problem(name, shm::parse(value).err()),
            UMASK => problem(name, umask::parse(value).err()),
            CGROUP_WRITABLE | TRY_SKIP_RELABEL => problem(name, is_true(value).err()),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_that_no_pod_could_have_are_told() {
        for (name, good, bad) in [
            (SHM_SIZE, "1Gi", "1Gib"),
            (UMASK, "0027", "0o27"),
            (CGROUP_WRITABLE, "true", "yes"),
            (TRY_SKIP_RELABEL, "false", ""),
        ] {
            let of = |value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
            assert_eq!(problem_of_defaults(&of(good)), None);
            let told = problem_of_defaults(&of(bad)).expect("a problem");
            assert!(told.contains(name), "{told}");
        }
        let others = BTreeMap::from([("example.org/x".to_owned(), "1Gib".to_owned())]);
        assert_eq!(problem_of_defaults(&others), None);
    }
}
