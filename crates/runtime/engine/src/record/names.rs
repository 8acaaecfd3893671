//! Identities of pods and containers: requests with the same identity mean the same object.

use orlop_cri_api::v1::{ContainerConfig, ContainerMetadata, PodSandboxConfig};

use crate::error::{Error, Result};
use crate::record::ids::PodId;

/// Length limit of names; no orchestrator uses longer ones.
const MAX_NAME: usize = 1024;

/// A pod sandbox's identity, as the client gives it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodName {
    name: String,
    namespace: String,
    uid: String,
    attempt: u32,
}

impl PodName {
    /// Reads the identity from a configuration.
    pub fn of(config: &PodSandboxConfig) -> Result<Self> {
        let metadata = config
            .metadata
            .as_ref()
            .ok_or_else(|| Error::invalid("config.metadata", "is missing; a pod needs a name"))?;
        // containerd and CRI-O accept pods without namespace and uid, as in crictl's examples.
        for (field, text, required) in [
            ("config.metadata.name", &metadata.name, true),
            ("config.metadata.namespace", &metadata.namespace, false),
            ("config.metadata.uid", &metadata.uid, false),
        ] {
            check(field, text, required)?;
        }
        Ok(Self {
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            attempt: metadata.attempt,
        })
    }
}

impl std::fmt::Display for PodName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            name,
            namespace,
            uid,
            attempt,
        } = self;
        write!(f, "{namespace}/{name} (uid {uid:?}, attempt {attempt})")
    }
}

/// A container's identity: its pod, its name there, and the attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContainerName {
    pod: PodId,
    name: String,
    attempt: u32,
}

impl ContainerName {
    /// Reads the identity from a configuration.
    pub fn of(pod: &PodId, config: &ContainerConfig) -> Result<Self> {
        let metadata = Self::check(config)?;
        Ok(Self {
            pod: pod.clone(),
            name: metadata.name.clone(),
            attempt: metadata.attempt,
        })
    }

    /// Refuses a configuration without an identity, for any pod.
    pub fn check(config: &ContainerConfig) -> Result<&ContainerMetadata> {
        let metadata = config.metadata.as_ref().ok_or_else(|| {
            Error::invalid("config.metadata", "is missing; a container needs a name")
        })?;
        check("config.metadata.name", &metadata.name, true)?;
        Ok(metadata)
    }
}

impl std::fmt::Display for ContainerName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pod, name, attempt } = self;
        write!(f, "{name} (attempt {attempt}) in pod sandbox {pod}")
    }
}

fn check(field: &str, text: &str, required: bool) -> Result<()> {
    if required && text.is_empty() {
        return Err(Error::invalid(field, "is empty").into());
    }
    if text.len() > MAX_NAME {
        let problem = format!("has {} bytes; at most {MAX_NAME} are allowed", text.len());
        return Err(Error::invalid(field, problem).into());
    }
    if text.contains(|c: char| c.is_control()) {
        return Err(Error::invalid(field, format!("{text:?} contains a control character")).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::v1::PodSandboxMetadata;

    use super::*;

    #[test]
    fn a_pod_needs_a_name_and_the_message_says_where() {
        let error = PodName::of(&PodSandboxConfig::default()).unwrap_err();
        assert!(
            error.to_string().starts_with("config.metadata: "),
            "{error}"
        );
        let config = PodSandboxConfig {
            metadata: Some(PodSandboxMetadata::default()),
            ..Default::default()
        };
        let error = PodName::of(&config).unwrap_err();
        assert!(
            error.to_string().starts_with("config.metadata.name: "),
            "{error}"
        );
    }

    #[test]
    fn the_attempt_is_part_of_the_identity() {
        let config = |attempt| PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: "web".into(),
                uid: "1".into(),
                namespace: "default".into(),
                attempt,
            }),
            ..Default::default()
        };
        assert_ne!(
            PodName::of(&config(0)).unwrap(),
            PodName::of(&config(1)).unwrap()
        );
        assert_eq!(
            PodName::of(&config(1)).unwrap(),
            PodName::of(&config(1)).unwrap()
        );
    }
}
