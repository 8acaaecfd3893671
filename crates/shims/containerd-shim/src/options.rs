//! Shim options in containerd's configuration. They are runc's options, so that a handler can switch between the shims
//! by its type alone. containerd passes the options to a shim of unknown name as the text of its configuration, or as
//! a file name.

use std::path::PathBuf;

use orlop_containerd_api::{Any, runc, runtimeoptions};
use orlop_fs::SMALL_FILE;
use orlop_ttrpc::{Status, decode};
use serde::Deserialize;

use crate::error::invalid;

/// Settings of a handler, under their names in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Options {
    pub(crate) no_pivot_root: bool,
    pub(crate) no_new_keyring: bool,
    /// The cgroup for this program, in all hierarchies.
    pub(crate) shim_cgroup: String,
    /// The owner of a container's streams.
    pub(crate) io_uid: u32,
    pub(crate) io_gid: u32,
    /// The OCI runtime.
    pub(crate) binary_name: String,
    /// The directory of the runtime's state.
    pub(crate) root: PathBuf,
    pub(crate) systemd_cgroup: bool,
    pub(crate) criu_image_path: PathBuf,
    pub(crate) criu_work_path: PathBuf,
    /// The size limit of a pod's shared memory. runc has no such option.
    pub(crate) shm_size: String,
    /// The pod annotations that are honoured. runc has no such option.
    pub(crate) allowed_annotations: Vec<String>,
}

impl Options {
    /// Parses the options; an unknown type gives the defaults.
    pub(crate) fn of(any: Option<&Any>) -> Result<Self, Status> {
        let Some(any) = any else {
            return Ok(Self::default());
        };
        if any.is::<runc::Options>() {
            return decode(&any.value).map(Self::of_runc);
        }
        if any.is::<runtimeoptions::Options>() {
            let options: runtimeoptions::Options = decode(&any.value)?;
            return Self::parse_text(&options.config_path, &options.config_body);
        }
        Ok(Self::default())
    }

    fn parse_text(path: &str, body: &[u8]) -> Result<Self, Status> {
        let problem =
            |why: String| invalid(format!("options of the runtime handler ({path}): {why}"));
        let body = match path {
            "" => String::from_utf8_lossy(body).into_owned(),
            path => {
                orlop_fs::read_text(path, SMALL_FILE).map_err(|error| problem(error.to_string()))?
            }
        };
        toml::from_str(&body).map_err(|error| problem(error.to_string()))
    }

    fn of_runc(options: runc::Options) -> Self {
        Self {
            no_pivot_root: options.no_pivot_root,
            no_new_keyring: options.no_new_keyring,
            shim_cgroup: options.shim_cgroup,
            io_uid: options.io_uid,
            io_gid: options.io_gid,
            binary_name: options.binary_name,
            root: options.root.into(),
            systemd_cgroup: options.systemd_cgroup,
            criu_image_path: options.criu_image_path.into(),
            criu_work_path: options.criu_work_path.into(),
            ..Self::default()
        }
    }
}

/// Options of a checkpoint: `containerd.runc.v1.CheckpointOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckpointOptions {
    /// Whether the container ends after the checkpoint.
    pub(crate) exit: bool,
    /// Flags for the runtime.
    pub(crate) flags: Vec<String>,
    pub(crate) image_path: PathBuf,
    pub(crate) work_path: PathBuf,
}

impl CheckpointOptions {
    pub(crate) fn of(any: Option<&Any>) -> Result<Self, Status> {
        let options: runc::CheckpointOptions = decode(any.map_or(&[], |any| &any.value))?;
        let mut flags = Vec::new();
        for (is_set, flag) in [
            (options.open_tcp, "--tcp-established"),
            (options.external_unix_sockets, "--ext-unix-sk"),
            (options.terminal, "--shell-job"),
            (options.file_locks, "--file-locks"),
        ] {
            if is_set {
                flags.push(flag.to_owned());
            }
        }
        let namespaces = options.empty_namespaces.iter();
        flags.extend(namespaces.map(|namespace| format!("--empty-ns={namespace}")));
        for (value, flag) in [
            (&options.cgroups_mode, "--manage-cgroups-mode"),
            (&options.parent_path, "--parent-path"),
        ] {
            if !value.is_empty() {
                flags.push(format!("{flag}={value}"));
            }
        }
        Ok(Self {
            exit: options.exit,
            flags,
            image_path: options.image_path.into(),
            work_path: options.work_path.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use orlop_containerd_api::{Any, Message, runc, runtimeoptions};

    use super::{CheckpointOptions, Options};

    #[test]
    fn options_are_those_of_runcs_shim() {
        let written = runc::Options {
            no_pivot_root: true,
            shim_cgroup: "/shims".into(),
            io_uid: 1000,
            binary_name: "/usr/bin/crun".into(),
            root: "/run/root".into(),
            systemd_cgroup: true,
            ..runc::Options::default()
        };
        let any = |kind: &str| Any {
            type_url: kind.to_owned(),
            value: written.encode_to_vec(),
        };
        let options = Options::of(Some(&any("types.containerd.io/containerd.runc.v1.Options")));
        let options = options.unwrap();
        let expected = Options {
            no_pivot_root: true,
            shim_cgroup: "/shims".into(),
            io_uid: 1000,
            binary_name: "/usr/bin/crun".into(),
            root: "/run/root".into(),
            systemd_cgroup: true,
            ..Options::default()
        };
        assert_eq!(options, expected);
        let other = Options::of(Some(&any("some.other.Options"))).unwrap();
        assert_eq!(other, Options::default());
        assert_eq!(Options::of(None).unwrap(), Options::default());
    }

    #[test]
    fn a_shim_that_containerd_does_not_know_gets_them_as_text() {
        let of = |path: &str, body: &str| {
            Options::of(Some(&Any::pack(&runtimeoptions::Options {
                config_path: path.to_owned(),
                config_body: body.into(),
                ..runtimeoptions::Options::default()
            })))
        };
        let body = "BinaryName = \"/usr/bin/crun\"\nSystemdCgroup = true\nIoUid = 7\nOther = []\n";
        let options = of("", body).unwrap();
        assert_eq!(&*options.binary_name, "/usr/bin/crun");
        assert!(options.systemd_cgroup);
        assert_eq!((options.io_uid, options.io_gid), (7, 0));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("options.toml");
        std::fs::write(&file, "Root = \"/run/r\"\n").unwrap();
        let options = of(&file.to_string_lossy(), "").unwrap();
        assert_eq!(options.root.to_str(), Some("/run/r"));
        for (path, body) in [("", "BinaryName = 1"), ("/no/such/file", "")] {
            assert!(of(path, body).is_err());
        }
    }

    #[test]
    fn flags_of_a_checkpoint_are_the_runtimes() {
        let any = Any::pack(&runc::CheckpointOptions {
            exit: true,
            open_tcp: true,
            empty_namespaces: vec!["network".into()],
            image_path: "/i".into(),
            ..runc::CheckpointOptions::default()
        });
        let options = CheckpointOptions::of(Some(&any)).unwrap();
        assert!(options.exit);
        assert_eq!(options.flags, ["--tcp-established", "--empty-ns=network"]);
        assert_eq!(options.image_path.to_str(), Some("/i"));
    }
}
