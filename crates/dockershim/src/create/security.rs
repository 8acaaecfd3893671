//! Security settings of a container's process.

use orlop_cri_api::v1::security_profile::ProfileType;
use orlop_cri_api::v1::{
    LinuxContainerSecurityContext, SeLinuxOption, SecurityProfile, SupplementalGroupsPolicy,
};

use crate::docker::types::{HostConfig, Info};
use crate::error::{Error, Result};

const FIELD: &str = "config.linux.security_context";

/// Applies the security settings to the engine's configuration and returns the user.
pub(super) fn apply(
    security: &LinuxContainerSecurityContext,
    host: &mut HostConfig,
    info: &Info,
) -> Result<String> {
    host.privileged = security.privileged;
    host.readonly_rootfs = security.readonly_rootfs;
    host.group_add = security
        .supplemental_groups
        .iter()
        .map(ToString::to_string)
        .collect();
    if security.supplemental_groups_policy() == SupplementalGroupsPolicy::Strict {
        return Err(Error::Unimplemented(
            "supplementalGroupsPolicy Strict is not supported, because the Docker Engine always \
             adds the groups of the image's /etc/group"
                .to_owned(),
        )
        .into());
    }
    if let Some(capabilities) = &security.capabilities {
        if !capabilities.add_ambient_capabilities.is_empty() {
            return Err(Error::Unimplemented(
                "ambient capabilities are not supported by the API of the Docker Engine".to_owned(),
            )
            .into());
        }
        host.cap_add.clone_from(&capabilities.add_capabilities);
        host.cap_drop.clone_from(&capabilities.drop_capabilities);
    }
    if let Some(selinux) = &security.selinux_options {
        host.security_opt.extend(selinux_options(selinux));
    }
    host.security_opt.extend(apparmor(security, info)?);
    if security.no_new_privs {
        host.security_opt.push("no-new-privileges".into());
    }
    user(security)
}

/// Sets the masked and read-only paths of a container. The lists are complete: empty ones hide nothing.
pub(super) fn hide(security: &LinuxContainerSecurityContext, host: &mut HostConfig) {
    if !security.privileged {
        host.masked_paths = Some(security.masked_paths.clone());
        host.readonly_paths = Some(security.readonly_paths.clone());
    }
}

fn user(security: &LinuxContainerSecurityContext) -> Result<String> {
    let user = match (&security.run_as_user, security.run_as_username.as_str()) {
        (Some(_), name) if !name.is_empty() => {
            let problem = "cannot be combined with run_as_user";
            return Err(Error::invalid(format!("{FIELD}.run_as_username"), problem).into());
        }
        (Some(id), _) => id.value.to_string(),
        (None, name) => name.to_owned(),
    };
    match &security.run_as_group {
        None => Ok(user),
        Some(group) if !user.is_empty() => Ok(format!("{user}:{}", group.value)),
        Some(_) => {
            let problem = "requires run_as_user or run_as_username";
            Err(Error::invalid(format!("{FIELD}.run_as_group"), problem).into())
        }
    }
}

fn selinux_options(options: &SeLinuxOption) -> Vec<String> {
    [
        ("user", &options.user),
        ("role", &options.role),
        ("type", &options.r#type),
        ("level", &options.level),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(part, value)| format!("label={part}:{value}"))
    .collect()
}

fn apparmor(security: &LinuxContainerSecurityContext, info: &Info) -> Result<Option<String>> {
    let profile = if let Some(profile) = &security.apparmor {
        Profile::of(profile)
    } else {
        #[allow(deprecated, reason = "old clients have nothing else")]
        let old = &security.apparmor_profile;
        Profile::of_old(old, "apparmor_profile")?
    };
    match profile {
        Profile::Default => Ok(None),
        Profile::Unconfined => Ok(Some("apparmor=unconfined".into())),
        // The engine would silently run the container without the profile.
        Profile::Local(name) if !has(info, "apparmor") => {
            let problem = format!(
                "the container requests the AppArmor profile {name:?}, but the Docker Engine does \
                 not support AppArmor on this node"
            );
            Err(Error::Precondition(problem).into())
        }
        Profile::Local(name) => Ok(Some(format!("apparmor={name}"))),
    }
}

/// Whether the engine has a security option.
pub(super) fn has(info: &Info, option: &str) -> bool {
    info.security_options.iter().any(|known| {
        known
            .split(',')
            .any(|part| part == option || part.strip_prefix("name=") == Some(option))
    })
}

/// A seccomp or AppArmor profile.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Profile<'a> {
    Default,
    Unconfined,
    Local(&'a str),
}

impl<'a> Profile<'a> {
    pub(super) fn of(profile: &'a SecurityProfile) -> Self {
        match profile.profile_type() {
            ProfileType::RuntimeDefault => Self::Default,
            ProfileType::Unconfined => Self::Unconfined,
            ProfileType::Localhost => Self::Local(
                profile
                    .localhost_ref
                    .strip_prefix("localhost/")
                    .unwrap_or(&profile.localhost_ref),
            ),
        }
    }

    /// Parses the string format of old clients. The caller decides what an unset profile means.
    pub(super) fn of_old(text: &'a str, field: &str) -> Result<Self> {
        match text {
            "" | "runtime/default" | "docker/default" => Ok(Self::Default),
            "unconfined" => Ok(Self::Unconfined),
            other => match other.strip_prefix("localhost/") {
                Some(name) => Ok(Self::Local(name)),
                None => Err(Error::invalid(
                    format!("{FIELD}.{field}"),
                    format!("{other:?} is not runtime/default, unconfined or localhost/NAME"),
                )
                .into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::v1::{Capability, Int64Value};

    use super::*;

    fn info(options: &[&str]) -> Info {
        Info {
            security_options: options.iter().map(ToString::to_string).collect(),
            ..Info::default()
        }
    }

    #[test]
    fn users_and_groups_go_together() {
        let number = |value| Some(Int64Value { value });
        let of = |run_as_user, name: &str, run_as_group| {
            user(&LinuxContainerSecurityContext {
                run_as_user,
                run_as_username: name.into(),
                run_as_group,
                ..Default::default()
            })
        };
        assert_eq!(of(number(5), "", None).unwrap(), "5");
        assert_eq!(of(None, "www", number(6)).unwrap(), "www:6");
        assert_eq!(of(None, "", None).unwrap(), "");
        assert!(of(None, "", number(6)).is_err());
        assert!(of(number(5), "www", None).is_err());
    }

    #[test]
    fn a_profile_that_would_be_ignored_is_refused() {
        let security = LinuxContainerSecurityContext {
            apparmor: Some(SecurityProfile {
                profile_type: ProfileType::Localhost.into(),
                localhost_ref: "mine".into(),
            }),
            ..Default::default()
        };
        assert!(apparmor(&security, &info(&["name=seccomp,profile=default"])).is_err());
        let found = apparmor(&security, &info(&["name=apparmor"])).unwrap();
        assert_eq!(found.as_deref(), Some("apparmor=mine"));
    }

    #[test]
    fn what_the_engine_cannot_do_is_refused() {
        let strict = LinuxContainerSecurityContext {
            supplemental_groups_policy: SupplementalGroupsPolicy::Strict.into(),
            ..Default::default()
        };
        let ambient = LinuxContainerSecurityContext {
            capabilities: Some(Capability {
                add_ambient_capabilities: vec!["NET_ADMIN".into()],
                ..Default::default()
            }),
            ..Default::default()
        };
        for security in [strict, ambient] {
            let refused = apply(&security, &mut HostConfig::default(), &info(&[])).unwrap_err();
            assert!(matches!(*refused, Error::Unimplemented(_)), "{refused}");
        }
    }

    #[test]
    fn labels_are_given_in_parts() {
        let options = SeLinuxOption {
            r#type: "container_t".into(),
            level: "s0:c1,c2".into(),
            ..Default::default()
        };
        assert_eq!(
            selinux_options(&options),
            ["label=type:container_t", "label=level:s0:c1,c2"]
        );
    }
}
