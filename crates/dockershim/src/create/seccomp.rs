//! The seccomp profile of a container. The engine wants its content, not its path.

use std::io;
use std::path::Path;

use orlop_cri_api::v1::LinuxContainerSecurityContext;

use super::security::Profile;
use crate::error::{Error, Result};

/// The maximum size of a profile.
const LARGEST: u64 = 1 << 20;

/// Returns the engine's seccomp option; `None` for its default profile. Reads a file.
pub(super) fn option(
    security: &LinuxContainerSecurityContext,
    default_when_unset: bool,
) -> Result<Option<String>> {
    const UNCONFINED: &str = "seccomp=unconfined";
    if security.privileged {
        return Ok(Some(UNCONFINED.into()));
    }
    let profile = if let Some(profile) = &security.seccomp {
        Profile::of(profile)
    } else {
        #[allow(deprecated, reason = "old clients have nothing else")]
        let old = &security.seccomp_profile_path;
        match old.as_str() {
            "" if default_when_unset => Profile::Default,
            "" => Profile::Unconfined,
            old => Profile::of_old(old, "seccomp_profile_path")?,
        }
    };
    match profile {
        Profile::Default => Ok(None),
        Profile::Unconfined => Ok(Some(UNCONFINED.into())),
        Profile::Local(path) => Ok(Some(format!("seccomp={}", read(path)?))),
    }
}

fn read(path: &str) -> Result<String> {
    const FIELD: &str = "config.linux.security_context.seccomp.localhost_ref";
    if !Path::new(path).is_absolute() {
        return Err(Error::invalid(FIELD, format!("{path:?} is not an absolute path")).into());
    }
    let text = match orlop_fs::read_file(path, LARGEST) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            return Err(Error::invalid(FIELD, format!("{path} is {error}")).into());
        }
        read => read.map_err(Error::io(format!("reading the seccomp profile {path}")))?,
    };
    let profile: serde_json::Value = serde_json::from_slice(&text).map_err(|error| {
        Error::invalid(FIELD, format!("{path} is not a seccomp profile: {error}"))
    })?;
    Ok(profile.to_string())
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::v1::SecurityProfile;
    use orlop_cri_api::v1::security_profile::ProfileType;

    use super::*;

    fn with(kind: ProfileType, path: &str) -> LinuxContainerSecurityContext {
        LinuxContainerSecurityContext {
            seccomp: Some(SecurityProfile {
                profile_type: kind.into(),
                localhost_ref: path.into(),
            }),
            ..Default::default()
        }
    }

    #[test]
    fn a_profile_is_sent_whole_and_compact() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.json");
        std::fs::write(&path, "{ \"defaultAction\":\n \"SCMP_ACT_ALLOW\" }").unwrap();
        let local = with(ProfileType::Localhost, path.to_str().unwrap());
        assert_eq!(
            option(&local, false).unwrap().unwrap(),
            r#"seccomp={"defaultAction":"SCMP_ACT_ALLOW"}"#
        );
        let privileged = LinuxContainerSecurityContext {
            privileged: true,
            ..local
        };
        assert_eq!(
            option(&privileged, false).unwrap().unwrap(),
            "seccomp=unconfined"
        );
        std::fs::write(&path, "{").unwrap();
        assert!(option(&with(ProfileType::Localhost, path.to_str().unwrap()), false).is_err());
        assert!(option(&with(ProfileType::Localhost, "p.json"), false).is_err());
    }

    #[test]
    fn saying_nothing_is_unconfined_unless_configured_otherwise() {
        let nothing = LinuxContainerSecurityContext::default();
        assert_eq!(
            option(&nothing, false).unwrap().unwrap(),
            "seccomp=unconfined"
        );
        assert_eq!(option(&nothing, true).unwrap(), None);
        assert_eq!(
            option(&with(ProfileType::RuntimeDefault, ""), false).unwrap(),
            None
        );
    }
}
