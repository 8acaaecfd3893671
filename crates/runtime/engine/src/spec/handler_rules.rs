//! What a runtime's pods and containers get and may ask for besides the interface's fields.

use std::collections::BTreeMap;

use orlop_cri_api::v1;

use super::base::BaseSpec;
use super::pattern::matches;

/// Annotations of pods by which more is asked for, as CRI-O has them.
pub(super) const SHM_SIZE: &str = "io.kubernetes.cri-o.ShmSize";
/// The mask of new files' permissions, in octal digits.
pub(super) const UMASK: &str = "io.kubernetes.cri-o.umask";
/// `true` where volumes are not relabelled whose top has the pod's label already.
pub(super) const TRY_SKIP_RELABEL: &str = "io.kubernetes.cri-o.TrySkipVolumeSELinuxLabel";
/// `true` for a tree of control groups that can be written to.
pub(super) const CGROUP_WRITABLE: &str = "io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw";

/// The rules of a runtime, for whoever is run by it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HandlerRules {
    /// What specifications of containers begin with.
    pub base: Option<BaseSpec>,
    /// Annotations of all containers, beneath those that are passed on.
    pub default_annotations: BTreeMap<String, String>,
    /// Annotations of pods that are acted on here; `*` stands for any text.
    pub allowed_annotations: Vec<String>,
    /// Whether containers may make control groups below their own.
    pub cgroup_writable: bool,
}

impl HandlerRules {
    /// What an annotation says that is acted on here: the pod's own if it may have that, else the
    /// administrator's.
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

/// A yes or no, as annotations write it.
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
