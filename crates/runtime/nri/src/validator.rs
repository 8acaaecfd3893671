//! The node's rules that no plugin may violate: forbidden adjustments and required plugins.

use std::collections::BTreeSet;

use crate::v1alpha1::security_profile::ProfileType;
use crate::v1alpha1::{
    Field, FieldOwners, PodSandbox, SecurityProfile, ValidateContainerAdjustmentRequest,
};

/// Pod annotation that lists the required plugins as YAML; for one container, append `/container.NAME`.
pub const REQUIRED_PLUGINS: &str = "required-plugins.noderesource.dev";

/// Name of the validator in the list of plugins.
pub(crate) const NAME: &str = "default-validator";

/// The rules. By default, all adjustments are allowed, and only the annotation requires plugins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validator {
    /// Forbid OCI hooks.
    pub reject_oci_hooks: bool,
    /// Forbid another seccomp policy for containers with the default one.
    pub reject_runtime_default_seccomp: bool,
    /// Forbid a seccomp policy for unconfined containers.
    pub reject_unconfined_seccomp: bool,
    /// Forbid another seccomp policy for containers with a custom one.
    pub reject_custom_seccomp: bool,
    /// Forbid changes of namespaces.
    pub reject_namespaces: bool,
    /// Forbid changes of kernel parameters.
    pub reject_sysctls: bool,
    /// Plugins without which no container is created, by name, or by index and name.
    pub required_plugins: Vec<String>,
    /// Pod annotation that allows required plugins to be missing; empty for none.
    pub tolerate_missing_annotation: String,
}

impl Validator {
    /// Checks an adjustment; returns the reason if it is rejected.
    pub fn check(&self, request: &ValidateContainerAdjustmentRequest) -> Result<(), String> {
        let container = request.container.clone().unwrap_or_default();
        let none = FieldOwners::default();
        let owners = request.owners.as_ref();
        let owners = owners
            .and_then(|owners| owners.owners.get(&container.id))
            .unwrap_or(&none);
        let simple = |field: Field| owners.simple.get(&(field as i32));
        let entries = |field: Field| {
            let entries = owners.compound.get(&(field as i32));
            entries.map(|entries| &entries.owners)
        };
        if self.reject_oci_hooks
            && let Some(plugins) = simple(Field::OciHooks)
        {
            return Err(format!(
                "{plugins} added OCI hooks, which this node forbids"
            ));
        }
        if let Some(plugin) = simple(Field::SeccompPolicy) {
            let profile = container.linux.as_ref();
            let profile = profile.and_then(|linux| linux.seccomp_profile.as_ref());
            let kind = profile.map_or(ProfileType::Unconfined, SecurityProfile::profile_type);
            let (rejected, what) = match kind {
                ProfileType::RuntimeDefault => (self.reject_runtime_default_seccomp, "default"),
                ProfileType::Unconfined => (self.reject_unconfined_seccomp, "unconfined"),
                ProfileType::Localhost => (self.reject_custom_seccomp, "custom"),
            };
            if rejected {
                return Err(format!(
                    "{plugin} changed the {what} seccomp policy, which this node forbids"
                ));
            }
        }
        for (rejected, field, what) in [
            (self.reject_namespaces, Field::Namespace, "namespaces"),
            (self.reject_sysctls, Field::Sysctl, "kernel parameters"),
        ] {
            if let Some(entries) = entries(field).filter(|all| rejected && !all.is_empty()) {
                let list: Vec<_> = entries
                    .iter()
                    .map(|(entry, plugin)| format!("{plugin} ({entry})"))
                    .collect();
                return Err(format!(
                    "{} changed {what}, which this node forbids",
                    list.join(", ")
                ));
            }
        }
        let pod = request.pod.clone().unwrap_or_default();
        self.check_required(request, &pod, &container.name)
    }

    fn check_required(
        &self,
        request: &ValidateContainerAdjustmentRequest,
        pod: &PodSandbox,
        container: &str,
    ) -> Result<(), String> {
        let tolerated = &self.tolerate_missing_annotation;
        if !tolerated.is_empty()
            && let Some(value) = annotation(pod, tolerated, container)
        {
            match value {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => return Ok(()),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => {}
                _ => {
                    return Err(format!(
                        "the annotation {tolerated} is {value:?}; use true or false"
                    ));
                }
            }
        }
        let mut required = self.required_plugins.clone();
        if let Some(value) = annotation(pod, REQUIRED_PLUGINS, container) {
            let list: Vec<String> = orlop_yaml::from_str(value).map_err(|_| {
                format!(
                    "the annotation {REQUIRED_PLUGINS} is {value:?}, which is not a list of names"
                )
            })?;
            required.extend(list);
        }
        let present: BTreeSet<String> = request
            .plugins
            .iter()
            .flat_map(|one| [one.name.clone(), format!("{}-{}", one.index, one.name)])
            .collect();
        required.retain(|name| !present.contains(name));
        if required.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the required plugins {required:?} are not connected"
        ))
    }
}

/// Returns an annotation for one container, or for the whole pod.
fn annotation<'p>(pod: &'p PodSandbox, name: &str, container: &str) -> Option<&'p str> {
    [
        format!("{name}/container.{container}"),
        format!("{name}/pod"),
        name.to_owned(),
    ]
    .iter()
    .find_map(|name| pod.annotations.get(name))
    .map(String::as_str)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::v1alpha1::{
        CompoundFieldOwners, Container, LinuxContainer, OwningPlugins, PluginInstance,
    };

    fn request(simple: &[Field], compound: &[(Field, &str)]) -> ValidateContainerAdjustmentRequest {
        let mut owners = FieldOwners::default();
        for field in simple {
            owners.simple.insert(*field as i32, "05-p".into());
        }
        for (field, entry) in compound {
            let entries: &mut CompoundFieldOwners =
                owners.compound.entry(*field as i32).or_default();
            entries.owners.insert((*entry).into(), "05-p".into());
        }
        ValidateContainerAdjustmentRequest {
            pod: Some(PodSandbox::default()),
            container: Some(Container {
                id: "c".into(),
                name: "web".into(),
                ..Container::default()
            }),
            owners: Some(OwningPlugins {
                owners: [("c".to_owned(), owners)].into(),
            }),
            plugins: vec![PluginInstance {
                name: "p".into(),
                index: "05".into(),
            }],
            ..ValidateContainerAdjustmentRequest::default()
        }
    }

    #[test]
    fn what_a_node_forbids_is_refused_with_the_plugins_name() {
        let strict = Validator {
            reject_oci_hooks: true,
            reject_namespaces: true,
            reject_sysctls: true,
            ..Validator::default()
        };
        for bad in [
            request(&[Field::OciHooks], &[]),
            request(&[], &[(Field::Namespace, "network")]),
            request(&[], &[(Field::Sysctl, "net.core.somaxconn")]),
        ] {
            assert!(strict.check(&bad).unwrap_err().contains("05-p"));
            assert_eq!(Validator::default().check(&bad), Ok(()));
        }
        assert_eq!(strict.check(&request(&[Field::Args], &[])), Ok(()));
    }

    #[test]
    fn seccomp_is_judged_by_what_the_container_asked_for() {
        let custom = Validator {
            reject_custom_seccomp: true,
            ..Validator::default()
        };
        let unconfined = Validator {
            reject_unconfined_seccomp: true,
            ..Validator::default()
        };
        let mut changed = request(&[Field::SeccompPolicy], &[]);
        assert_eq!(custom.check(&changed), Ok(()));
        assert!(unconfined.check(&changed).is_err());
        let profile = SecurityProfile {
            profile_type: ProfileType::Localhost.into(),
            localhost_ref: "x".into(),
        };
        changed.container.as_mut().unwrap().linux = Some(LinuxContainer {
            seccomp_profile: Some(profile),
            ..LinuxContainer::default()
        });
        assert!(custom.check(&changed).is_err());
        assert_eq!(unconfined.check(&changed), Ok(()));
    }

    #[test]
    fn required_plugins_must_be_there_unless_a_pod_says_otherwise() {
        let mut asked = request(&[], &[]);
        let require = |name: &str| Validator {
            required_plugins: vec![name.into()],
            tolerate_missing_annotation: "tolerate".into(),
            ..Validator::default()
        };
        assert_eq!(require("p").check(&asked), Ok(()));
        assert_eq!(require("05-p").check(&asked), Ok(()));
        assert!(require("06-p").check(&asked).unwrap_err().contains("06-p"));
        let annotate = |asked: &mut ValidateContainerAdjustmentRequest, name: &str, value: &str| {
            let pod = asked.pod.as_mut().unwrap();
            pod.annotations.insert(name.into(), value.into());
        };
        annotate(&mut asked, "tolerate", "true");
        assert_eq!(require("q").check(&asked), Ok(()));
        annotate(&mut asked, "tolerate/container.web", "false");
        assert!(require("q").check(&asked).is_err());
        annotate(&mut asked, "tolerate/container.web", "perhaps");
        assert!(require("q").check(&asked).unwrap_err().contains("perhaps"));

        let mut annotated = request(&[], &[]);
        annotate(&mut annotated, REQUIRED_PLUGINS, "[ p, \"r\" ]");
        let refused = Validator::default().check(&annotated).unwrap_err();
        assert!(
            refused.contains("\"r\"") && !refused.contains("\"p\""),
            "{refused}"
        );
        annotate(&mut annotated, REQUIRED_PLUGINS, "{");
        assert!(Validator::default().check(&annotated).is_err());
    }
}
