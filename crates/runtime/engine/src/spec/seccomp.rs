//! The seccomp filter of a container.

use std::io;
use std::path::Path;

use orlop_cri_api::v1;
use orlop_oci_types::{Features, Profile, Seccomp};

use super::security_profile::{Wanted, wanted};
use super::{Error, seccomp_default};

const FIELD: &str = "config.linux.security_context.seccomp";

/// Size limit of a profile in bytes.
const MAX_PROFILE: u64 = 1 << 20;

/// Returns the requested profile: none for an unconfined or privileged container.
pub(super) fn asked(
    security: &v1::LinuxContainerSecurityContext,
    features: &Features,
    default_when_unset: bool,
) -> Result<Wanted, Error> {
    if security.privileged {
        return Ok(Wanted::Unconfined);
    }
    #[allow(deprecated, reason = "kubelets before 1.26 send only this field")]
    let older = security.seccomp_profile_path.as_str();
    let mut profile = wanted(security.seccomp.as_ref(), older, FIELD)?;
    if profile == Wanted::Unset && default_when_unset {
        profile = Wanted::Default;
    }
    if let Wanted::Localhost(path) = &profile
        && !path.starts_with('/')
    {
        let problem = format!("the profile {path} is not an absolute path");
        return Err(Error::invalid(FIELD, problem));
    }
    let linux = features.linux.as_ref();
    let seccomp = linux.and_then(|linux| linux.seccomp.as_ref());
    let filters = matches!(profile, Wanted::Default | Wanted::Localhost(_));
    if filters && seccomp.and_then(|seccomp| seccomp.enabled) == Some(false) {
        return Err(Error::unmet(
            FIELD,
            "the runtime handler does not support seccomp",
        ));
    }
    Ok(profile)
}

/// Returns the filter of a profile.
pub(super) fn filter(
    profile: &Wanted,
    bounding: &[String],
    deny_socketcall: bool,
) -> Result<Option<Profile>, Error> {
    let document = match profile {
        Wanted::Unset | Wanted::Unconfined => return Ok(None),
        Wanted::Default => seccomp_default::document(bounding, deny_socketcall),
        Wanted::Localhost(path) => Profile::new(&from_file(Path::new(path))?),
    };
    let document = document.map_err(|error| Error::invalid(FIELD, error.to_string()))?;
    Ok(Some(document))
}

/// Reads a profile of the node, in the JSON format of the OCI specification.
fn from_file(path: &Path) -> Result<Seccomp, Error> {
    let reading = || format!("reading the profile {}", path.display());
    let text = match orlop_fs::read_file(path, MAX_PROFILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let problem = format!("profile {} does not exist", path.display());
            return Err(Error::not_found(FIELD, problem));
        }
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            let problem = format!("the profile {} is {error}", path.display());
            return Err(Error::invalid(FIELD, problem));
        }
        read => read.map_err(|error| Error::io(FIELD, reading(), error))?,
    };
    serde_json::from_slice(&text).map_err(|error| {
        let problem = format!("the profile {} cannot be read: {error}", path.display());
        Error::invalid(FIELD, problem)
    })
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::v1::security_profile::ProfileType;
    use orlop_oci_types::{LinuxFeatures, SeccompAction, SeccompFeatures};

    use super::*;

    fn security(kind: Option<ProfileType>, reference: &str) -> v1::LinuxContainerSecurityContext {
        v1::LinuxContainerSecurityContext {
            seccomp: kind.map(|kind| v1::SecurityProfile {
                profile_type: kind.into(),
                localhost_ref: reference.into(),
            }),
            ..Default::default()
        }
    }

    fn of(
        security: &v1::LinuxContainerSecurityContext,
        features: &Features,
        default_when_unset: bool,
    ) -> Result<Option<Seccomp>, Error> {
        let document = filter(&asked(security, features, default_when_unset)?, &[], false)?;
        Ok(document.map(|document| document.understood().unwrap()))
    }

    fn made(kind: Option<ProfileType>, reference: &str) -> Result<Option<Seccomp>, Error> {
        of(&security(kind, reference), &Features::default(), false)
    }

    #[test]
    fn no_profile_is_unconfined_unless_the_node_says_otherwise() {
        assert_eq!(made(None, "").unwrap(), None);
        let strict = of(&security(None, ""), &Features::default(), true).unwrap();
        assert_eq!(strict.unwrap().default_action, SeccompAction::Errno);
        assert!(
            made(Some(ProfileType::RuntimeDefault), "")
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn privileged_containers_are_not_filtered() {
        let privileged = v1::LinuxContainerSecurityContext {
            privileged: true,
            ..security(Some(ProfileType::RuntimeDefault), "")
        };
        assert_eq!(of(&privileged, &Features::default(), true).unwrap(), None);
    }

    #[test]
    fn a_profile_of_the_node_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.json");
        std::fs::write(&path, r#"{"defaultAction":"SCMP_ACT_LOG"}"#).unwrap();
        let filter = made(Some(ProfileType::Localhost), path.to_str().unwrap())
            .unwrap()
            .unwrap();
        assert_eq!(filter.default_action, SeccompAction::Log);

        std::fs::write(&path, "{").unwrap();
        let error = made(Some(ProfileType::Localhost), path.to_str().unwrap()).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        assert!(error.to_string().contains("p.json"), "{error}");
    }

    #[test]
    fn a_missing_or_relative_profile_is_an_error() {
        let error = made(Some(ProfileType::Localhost), "/nonexistent/p.json").unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
        let error = made(Some(ProfileType::Localhost), "p.json").unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    }

    #[test]
    fn a_handler_that_cannot_filter_says_so() {
        let features = Features {
            linux: Some(LinuxFeatures {
                seccomp: Some(SeccompFeatures {
                    enabled: Some(false),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let security = security(Some(ProfileType::RuntimeDefault), "");
        let error = of(&security, &features, false);
        assert!(matches!(error, Err(Error::FailedPrecondition { .. })));
    }
}
