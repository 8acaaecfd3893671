//! The AppArmor profile of a container.

use std::path::PathBuf;

use orlop_cri_api::v1;

use super::Error;
use super::security_profile::{Wanted, wanted};

const FIELD: &str = "config.linux.security_context.apparmor";

/// AppArmor on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppArmor {
    /// The kernel's list of loaded profiles.
    pub profiles: PathBuf,
    /// The profile loaded as the runtime's default, if loading succeeded.
    pub default_profile: Option<String>,
}

impl AppArmor {
    /// The kernel's list of loaded profiles.
    pub const PROFILES: &'static str = "/sys/kernel/security/apparmor/profiles";
}

/// Returns the profile's name, empty for none.
pub(super) fn profile(
    security: &v1::LinuxContainerSecurityContext,
    apparmor: Option<&AppArmor>,
    warnings: &mut Vec<String>,
) -> Result<String, Error> {
    #[allow(deprecated, reason = "kubelets before 1.30 send only this field")]
    let older = security.apparmor_profile.as_str();
    let asked = wanted(security.apparmor.as_ref(), older, FIELD)?;
    let Some(apparmor) = apparmor else {
        return match asked {
            Wanted::Unset | Wanted::Unconfined => Ok(String::new()),
            Wanted::Default | Wanted::Localhost(_) => Err(Error::unmet(
                FIELD,
                "AppArmor is not available on this node",
            )),
        };
    };
    match (asked, &apparmor.default_profile) {
        (Wanted::Unconfined, _) => Ok(String::new()),
        (Wanted::Unset | Wanted::Default, _) if security.privileged => Ok(String::new()),
        (Wanted::Unset | Wanted::Default, Some(name)) => Ok(name.clone()),
        (Wanted::Unset, None) => {
            warnings.push(format!(
                "{FIELD}: the default profile is not loaded; the container runs without a profile"
            ));
            Ok(String::new())
        }
        (Wanted::Default, None) => {
            let problem =
                "the default profile is not loaded; check that apparmor_parser is installed";
            Err(Error::unmet(FIELD, problem))
        }
        (Wanted::Localhost(name), _) => loaded(name, apparmor),
    }
}

fn loaded(name: String, apparmor: &AppArmor) -> Result<String, Error> {
    let list = orlop_fs::read_kernel_text(&apparmor.profiles).map_err(|error| {
        Error::io(
            FIELD,
            format!("reading {}", apparmor.profiles.display()),
            error,
        )
    })?;
    // Lines are `name (mode)`.
    let known = list
        .lines()
        .any(|line| line.rsplit_once(" (").is_some_and(|(own, _)| own == name));
    if known {
        Ok(name)
    } else {
        Err(Error::not_found(
            FIELD,
            format!("the profile {name:?} is not loaded on this node"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use orlop_cri_api::v1::security_profile::ProfileType;

    use super::*;

    fn security(kind: Option<ProfileType>, name: &str) -> v1::LinuxContainerSecurityContext {
        v1::LinuxContainerSecurityContext {
            apparmor: kind.map(|kind| v1::SecurityProfile {
                profile_type: kind.into(),
                localhost_ref: name.into(),
            }),
            ..Default::default()
        }
    }

    fn node(default_profile: Option<&str>) -> (tempfile::TempDir, AppArmor) {
        let dir = tempfile::tempdir().unwrap();
        let profiles = dir.path().join("profiles");
        fs::write(
            &profiles,
            "orlop-default (enforce)\nmy profile (complain)\n",
        )
        .unwrap();
        let apparmor = AppArmor {
            profiles,
            default_profile: default_profile.map(str::to_owned),
        };
        (dir, apparmor)
    }

    #[test]
    fn without_apparmor_only_a_request_for_it_fails() {
        let on = |kind| profile(&security(kind, ""), None, &mut Vec::new());
        assert_eq!(on(None).unwrap(), "");
        assert_eq!(on(Some(ProfileType::Unconfined)).unwrap(), "");
        assert!(matches!(
            on(Some(ProfileType::RuntimeDefault)),
            Err(Error::FailedPrecondition { .. })
        ));
    }

    #[test]
    fn the_default_profile_applies_unless_privileged_or_unconfined() {
        let (_dir, node) = node(Some("orlop-default"));
        let mut none = Vec::new();
        assert_eq!(
            profile(&security(None, ""), Some(&node), &mut none).unwrap(),
            "orlop-default"
        );
        let unconfined = security(Some(ProfileType::Unconfined), "");
        assert_eq!(profile(&unconfined, Some(&node), &mut none).unwrap(), "");
        let privileged = v1::LinuxContainerSecurityContext {
            privileged: true,
            ..security(None, "")
        };
        assert_eq!(profile(&privileged, Some(&node), &mut none).unwrap(), "");
        assert!(none.is_empty());
    }

    #[test]
    fn a_profile_of_the_node_must_be_loaded() {
        let (_dir, node) = node(None);
        let asked = |name| {
            profile(
                &security(Some(ProfileType::Localhost), name),
                Some(&node),
                &mut Vec::new(),
            )
        };
        assert_eq!(asked("my profile").unwrap(), "my profile");
        assert!(matches!(asked("my"), Err(Error::NotFound { .. })));
    }

    #[test]
    fn a_default_that_could_not_be_loaded_matters_only_when_asked_for() {
        let (_dir, node) = node(None);
        let mut warnings = Vec::new();
        assert_eq!(
            profile(&security(None, ""), Some(&node), &mut warnings).unwrap(),
            ""
        );
        assert_eq!(warnings.len(), 1);
        let asked = security(Some(ProfileType::RuntimeDefault), "");
        assert!(profile(&asked, Some(&node), &mut warnings).is_err());
    }
}
