//! Mounts of a container.

use std::path::Path;

use orlop_cri_api::v1::{ContainerConfig, MountPropagation};

use crate::docker::ApiVersion;
use crate::docker::types::{BindOptions, ImageOptions, Mount};
use crate::error::{Error, Result};

/// Mounts in the engine's format.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Mounts {
    pub(super) mounts: Vec<Mount>,
    /// Mounts that are relabelled for SELinux: only the older `binds` format can express that.
    pub(super) binds: Vec<String>,
}

/// Mount features of the engine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Abilities {
    pub(super) api: ApiVersion,
    /// Whether the runtime and the kernel support recursive read-only mounts.
    pub(super) recursive_read_only: bool,
}

/// Translates the mounts. Creates missing directories on the host.
pub(super) fn mounts(config: &ContainerConfig, abilities: Abilities) -> Result<Mounts> {
    // Mounts are relabelled only if the pod sets an SELinux label. Otherwise they would get the label of the first
    // container that mounts them.
    let relabel = config
        .linux
        .as_ref()
        .and_then(|linux| linux.security_context.as_ref())
        .is_some_and(|security| security.selinux_options.is_some());
    let mut all = Mounts::default();
    for (index, mount) in config.mounts.iter().enumerate() {
        let field = |name: &str| format!("config.mounts[{index}].{name}");
        if !mount.container_path.starts_with('/') {
            let problem = format!("{:?} is not an absolute path", mount.container_path);
            return Err(Error::invalid(field("container_path"), problem).into());
        }
        if !mount.mount_options.is_empty() {
            return Err(unable(
                "mount options",
                "does not support them for bind mounts",
            ));
        }
        if !mount.uid_mappings.is_empty() || !mount.gid_mappings.is_empty() {
            return Err(unable("id-mapped mounts", "does not support them"));
        }
        if let Some(image) = mount.image.as_ref().filter(|image| !image.image.is_empty()) {
            if !mount.readonly {
                let problem = "must be set for an image mount";
                return Err(Error::invalid(field("readonly"), problem).into());
            }
            all.mounts
                .push(image_mount(&image.image, mount, abilities)?);
            continue;
        }
        if !mount.host_path.starts_with('/') {
            let problem = format!("{:?} is not an absolute path", mount.host_path);
            return Err(Error::invalid(field("host_path"), problem).into());
        }
        if mount.recursive_read_only {
            if !mount.readonly || mount.propagation() != MountPropagation::PropagationPrivate {
                let problem = "requires readonly and private propagation";
                return Err(Error::invalid(field("recursive_read_only"), problem).into());
            }
            if !abilities.recursive_read_only {
                let problem = "recursive read-only mounts require Docker 25, runc 1.1 and Linux 5.12 or newer";
                return Err(Error::Precondition(problem.to_owned()).into());
            }
        }
        make_missing(&mount.host_path)?;
        if relabel && mount.selinux_relabel {
            all.binds.push(labelled(mount, &field("host_path"))?);
        } else {
            all.mounts.push(bind(mount, abilities));
        }
    }
    Ok(all)
}

fn unable(what: &str, why: &str) -> std::sync::Arc<Error> {
    Error::Unimplemented(format!("{what}: the Docker Engine's API {why}")).into()
}

fn bind(mount: &orlop_cri_api::v1::Mount, abilities: Abilities) -> Mount {
    let knows = abilities.api >= ApiVersion::RECURSIVE_READ_ONLY && mount.readonly;
    Mount {
        r#type: "bind".into(),
        source: mount.host_path.clone(),
        target: mount.container_path.clone(),
        read_only: mount.readonly,
        bind_options: Some(BindOptions {
            propagation: propagation(mount.propagation()).into(),
            // The engine's default is "recursive where possible", which differs from Kubernetes'.
            read_only_non_recursive: (knows && !mount.recursive_read_only).then_some(true),
            read_only_force_recursive: (knows && mount.recursive_read_only).then_some(true),
        }),
        image_options: None,
    }
}

fn labelled(mount: &orlop_cri_api::v1::Mount, field: &str) -> Result<String> {
    if mount.host_path.contains(':') || mount.container_path.contains(':') {
        let problem = "contains a colon, which the Docker Engine does not support in a mount with an SELinux \
            label";
        return Err(Error::invalid(field, problem).into());
    }
    let access = if mount.readonly { "ro" } else { "rw" };
    Ok(format!(
        "{}:{}:Z,{access},{}",
        mount.host_path,
        mount.container_path,
        propagation(mount.propagation()),
    ))
}

fn propagation(propagation: MountPropagation) -> &'static str {
    match propagation {
        MountPropagation::PropagationPrivate => "rprivate",
        MountPropagation::PropagationHostToContainer => "rslave",
        MountPropagation::PropagationBidirectional => "rshared",
    }
}

fn image_mount(
    image: &str,
    mount: &orlop_cri_api::v1::Mount,
    abilities: Abilities,
) -> Result<Mount> {
    if abilities.api < ApiVersion::IMAGE_MOUNTS {
        return Err(Error::Unimplemented(format!(
            "image volumes: the Docker Engine mounts images since API version {} (Docker 28), but \
             this engine uses {}",
            ApiVersion::IMAGE_MOUNTS,
            abilities.api,
        ))
        .into());
    }
    Ok(Mount {
        r#type: "image".into(),
        source: image.to_owned(),
        target: mount.container_path.clone(),
        read_only: true,
        bind_options: None,
        image_options: Some(ImageOptions {
            subpath: mount.image_sub_path.clone(),
        }),
    })
}

/// Creates a missing mount source: the engine refuses it, and Kubernetes expects a directory there.
fn make_missing(host_path: &str) -> Result<()> {
    let path = Path::new(host_path);
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let doing = format!("creating the directory {host_path} for a mount");
            Ok(std::fs::create_dir_all(path).map_err(Error::io(doing))?)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::v1::{
        ImageSpec, LinuxContainerConfig, LinuxContainerSecurityContext, Mount as CriMount,
        SeLinuxOption,
    };

    use super::*;

    const OLD: Abilities = Abilities {
        api: ApiVersion::OLDEST,
        recursive_read_only: false,
    };
    const NEW: Abilities = Abilities {
        api: ApiVersion::NEWEST,
        recursive_read_only: true,
    };

    fn with(mount: CriMount) -> ContainerConfig {
        ContainerConfig {
            mounts: vec![mount],
            ..Default::default()
        }
    }

    fn read_only(host: &Path) -> CriMount {
        CriMount {
            host_path: host.display().to_string(),
            container_path: "/in".into(),
            readonly: true,
            ..Default::default()
        }
    }

    #[test]
    fn a_missing_directory_is_made_and_bound() {
        let dir = tempfile::tempdir().unwrap();
        let host = dir.path().join("a/b");
        let made = mounts(&with(read_only(&host)), OLD).unwrap();
        assert!(host.is_dir());
        let options = made.mounts[0].bind_options.clone().unwrap();
        assert_eq!(options.propagation, "rprivate");
        assert_eq!(
            options.read_only_non_recursive, None,
            "unknown to old engines"
        );
        let made = mounts(&with(read_only(&host)), NEW).unwrap();
        let options = made.mounts[0].bind_options.clone().unwrap();
        assert_eq!(options.read_only_non_recursive, Some(true));
    }

    #[test]
    fn recursive_read_only_is_done_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let recursive = CriMount {
            recursive_read_only: true,
            ..read_only(dir.path())
        };
        let made = mounts(&with(recursive.clone()), NEW).unwrap();
        let options = made.mounts[0].bind_options.clone().unwrap();
        assert_eq!(options.read_only_force_recursive, Some(true));
        assert!(mounts(&with(recursive.clone()), OLD).is_err());
        let writable = CriMount {
            readonly: false,
            ..recursive
        };
        assert!(matches!(
            *mounts(&with(writable), NEW).unwrap_err(),
            Error::Invalid { .. }
        ));
    }

    #[test]
    fn images_are_mounted_by_engines_that_can() {
        let volume = CriMount {
            container_path: "/in".into(),
            image: Some(ImageSpec {
                image: "busybox".into(),
                ..Default::default()
            }),
            image_sub_path: "bin".into(),
            readonly: true,
            ..Default::default()
        };
        let made = mounts(&with(volume.clone()), NEW).unwrap();
        assert_eq!(made.mounts[0].r#type, "image");
        assert_eq!(
            made.mounts[0].image_options.as_ref().unwrap().subpath,
            "bin"
        );
        let refused = mounts(&with(volume.clone()), OLD).unwrap_err();
        assert!(matches!(*refused, Error::Unimplemented(_)), "{refused}");
        let writable = CriMount {
            readonly: false,
            ..volume
        };
        let refused = mounts(&with(writable), NEW).unwrap_err();
        assert!(refused.to_string().contains("readonly"), "{refused}");
    }

    #[test]
    fn labels_are_put_on_only_where_the_pod_has_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = with(CriMount {
            selinux_relabel: true,
            ..read_only(dir.path())
        });
        assert!(mounts(&config, OLD).unwrap().binds.is_empty());
        config.linux = Some(LinuxContainerConfig {
            security_context: Some(LinuxContainerSecurityContext {
                selinux_options: Some(SeLinuxOption::default()),
                ..Default::default()
            }),
            ..Default::default()
        });
        let binds = mounts(&config, OLD).unwrap().binds;
        assert_eq!(
            binds,
            [format!("{}:/in:Z,ro,rprivate", dir.path().display())]
        );
    }
}
