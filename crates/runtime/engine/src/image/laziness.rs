//! Whether a pod accepts lazily pulled images.

use orlop_cri_api::v1::PodSandboxConfig;

use crate::error::{Error, Result};

/// The annotation that disables lazy images for a pod.
const LAZY: &str = "images.orlop/lazy";

/// Whether a pod's containers can be created before their images are complete. `field` is the request field
/// that contains the pod.
pub fn may_be_lazy(field: &str, config: &PodSandboxConfig) -> Result<bool> {
    match config.annotations.get(LAZY).map(String::as_str) {
        None | Some("auto") => Ok(true),
        Some("never") => Ok(false),
        Some(other) => {
            let problem =
                format!("annotation {LAZY}: {other:?} is not valid; use \"auto\" or \"never\"");
            Err(Error::invalid(format!("{field}.annotations"), problem).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_says_never_or_nothing() {
        let of = |value: Option<&str>| {
            let mut pod = PodSandboxConfig::default();
            let annotation = value.map(|value| (LAZY.to_owned(), value.to_owned()));
            pod.annotations.extend(annotation);
            may_be_lazy("config", &pod)
        };
        assert!(of(None).unwrap());
        assert!(of(Some("auto")).unwrap());
        assert!(!of(Some("never")).unwrap());
        for wrong in ["", "Never", "false"] {
            let error = of(Some(wrong)).unwrap_err().to_string();
            assert!(error.contains("config.annotations"), "{error}");
            assert!(error.contains("images.orlop/lazy"), "{error}");
        }
    }
}
