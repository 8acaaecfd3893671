//! Rules of a runtime handler: additional settings and annotations of its pods and containers.

use std::collections::BTreeMap;

use orlop_cri_api::v1;

use super::base::BaseSpec;
use super::pattern::matches;

/// Annotations of pods that the engine acts on, by CRI-O's names: the size of shared memory.
pub(super) const SHM_SIZE: &str = "io.kubernetes.cri-o.ShmSize";
/// The umask, in octal digits.
pub(super) const UMASK: &str = "io.kubernetes.cri-o.umask";
/// `true` to not relabel volumes whose top directory has the pod's label already.
pub(super) const TRY_SKIP_RELABEL: &str = "io.kubernetes.cri-o.TrySkipVolumeSELinuxLabel";
/// `true` for a writable cgroup tree.
pub(super) const CGROUP_WRITABLE: &str = "io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw";

/// The rules of a runtime for its pods and containers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HandlerRules {
    /// The base of containers' specifications.
    pub base: Option<BaseSpec>,
    /// Annotations of all containers, overridden by those that are passed on.
    pub default_annotations: BTreeMap<String, String>,
    /// Pod annotations that the engine acts on; `*` matches any text.
    pub allowed_annotations: Vec<String>,
    /// Whether containers may create cgroups below their own.
    pub cgroup_writable: bool,
}

impl HandlerRules {
    /// Returns the value of an annotation that the engine acts on: the pod's own if the handler allows it, else
    /// the administrator's.
    pub(super) fn acted_on<'a>(
        &'a self,
        name: &str,
        pod: &'a v1::PodSandboxConfig,
        of_node: &'a BTreeMap<String, String>,
    ) -> Option<&'a str> {
        let is_allowed = || self.allowed_annotations.iter().any(|it| matches(it, name));
        let own = pod.annotations.get(name).filter(|_| is_allowed());
        let given = || {
            self.default_annotations
                .get(name)
                .or_else(|| of_node.get(name))
        };
        own.or_else(given).map(String::as_str)
    }
}

/// Parses the boolean value of an annotation.
pub(super) fn is_true(value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(format!("{other:?} is not a boolean; use true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_annotation_counts_where_it_is_allowed_and_the_nearest_default_else() {
        let map = |value: &str| BTreeMap::from([(UMASK.to_owned(), value.to_owned())]);
        let pod = v1::PodSandboxConfig {
            annotations: map("pod").into_iter().collect(),
            ..Default::default()
        };
        let mut rules = HandlerRules::default();
        let none = BTreeMap::new();
        assert_eq!(rules.acted_on(UMASK, &pod, &none), None);
        let node = map("node");
        assert_eq!(rules.acted_on(UMASK, &pod, &node), Some("node"));
        rules.default_annotations = map("handler");
        assert_eq!(rules.acted_on(UMASK, &pod, &node), Some("handler"));
        rules.allowed_annotations = vec!["io.kubernetes.cri-o.*".to_owned()];
        assert_eq!(rules.acted_on(UMASK, &pod, &node), Some("pod"));
    }
}
