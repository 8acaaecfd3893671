//! What containerd is configured to tell a shim of a runtime: the options of runc's, so that a handler can be
//! changed from one to the other by its type alone. To a shim whose name it does not know, containerd tells
//! them as the text of its configuration, or the name of a file.

use std::path::PathBuf;

use orlop_disk::SMALL_FILE;
use orlop_ttrpc::{Any, Status, text, whole_fields};
use serde::Deserialize;

use crate::files::invalid;

/// The type of runc's.
const RUNC: &str = "containerd.runc.v1.Options";
/// The type for shims whose options containerd does not know: a file's path, and a text.
const TEXT: &str = "runtimeoptions.v1.Options";

/// Settings of a handler, in its configuration by these names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Options {
    pub(crate) no_pivot_root: bool,
    pub(crate) no_new_keyring: bool,
    /// Where this program is to be, in all hierarchies.
    pub(crate) shim_cgroup: String,
    /// Whose a container's streams are.
    pub(crate) io_uid: u32,
    pub(crate) io_gid: u32,
    /// The OCI runtime.
    pub(crate) binary_name: String,
    /// Where that keeps its state.
    pub(crate) root: PathBuf,
    pub(crate) systemd_cgroup: bool,
    pub(crate) criu_image_path: PathBuf,
    pub(crate) criu_work_path: PathBuf,
    /// What a pod's shared memory may take. It is not among runc's.
    pub(crate) shm_size: String,
    /// Annotations of pods that are acted on. Neither are these.
    pub(crate) allowed_annotations: Vec<String>,
}

impl Options {
    /// Those that are told; none where they are of some other type.
    pub(crate) fn of(any: Option<&Any<'_>>) -> Result<Self, Status> {
        let Some(any) = any else {
            return Ok(Self::default());
        };
        match any.kind.rsplit('/').next() {
            Some(RUNC) => Ok(Self::parse(any.value)),
            Some(TEXT) => Self::parse_text(&text(any.value, 2), text(any.value, 3)),
            _ => Ok(Self::default()),
        }
    }

    fn parse_text(path: &str, body: String) -> Result<Self, Status> {
        let problem =
            |why: String| invalid(format!("options of the runtime handler ({path}): {why}"));
        let body = match path {
            "" => body,
            path => orlop_disk::read_text(path, SMALL_FILE)
                .map_err(|error| problem(error.to_string()))?,
        };
        toml::from_str(&body).map_err(|error| problem(error.to_string()))
    }

    fn parse(message: &[u8]) -> Self {
        let mut options = Self::default();
        for field in whole_fields(message) {
            let number = field.as_number();
            match field.number {
                1 => options.no_pivot_root = number != 0,
                2 => options.no_new_keyring = number != 0,
                3 => options.shim_cgroup = field.as_text(),
                4 => options.io_uid = number as u32,
                5 => options.io_gid = number as u32,
                6 => options.binary_name = field.as_text(),
                7 => options.root = field.as_text().into(),
                9 => options.systemd_cgroup = number != 0,
                10 => options.criu_image_path = field.as_text().into(),
                11 => options.criu_work_path = field.as_text().into(),
                _ => {}
            }
        }
        options
    }
}

/// The same for a checkpoint: `containerd.runc.v1.CheckpointOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckpointOptions {
    /// Whether the container ends with it.
    pub(crate) exit: bool,
    /// Flags of the runtime's.
    pub(crate) flags: Vec<String>,
    pub(crate) image_path: PathBuf,
    pub(crate) work_path: PathBuf,
}

impl CheckpointOptions {
    pub(crate) fn of(any: Option<&Any<'_>>) -> Self {
        let mut options = Self::default();
        let message = any.map_or(&[][..], |any| any.value);
        for field in whole_fields(message) {
            let mut flag = |name: &str| options.flags.push(name.to_owned());
            match (field.number, field.as_number() != 0) {
                (1, exit) => options.exit = exit,
                (2, true) => flag("--tcp-established"),
                (3, true) => flag("--ext-unix-sk"),
                (4, true) => flag("--shell-job"),
                (5, true) => flag("--file-locks"),
                (6, _) => flag(&format!("--empty-ns={}", field.as_text())),
                (7, _) => flag(&format!("--manage-cgroups-mode={}", field.as_text())),
                (8, _) => options.image_path = field.as_text().into(),
                (9, _) => options.work_path = field.as_text().into(),
                (10, _) => flag(&format!("--parent-path={}", field.as_text())),
                _ => {}
            }
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use orlop_ttrpc::{Any, Writer};

    use super::{CheckpointOptions, Options};

    #[test]
    fn options_are_those_of_runcs_shim() {
        let written = Writer::default()
            .number(1, 1)
            .text(3, "/shims")
            .number(4, 1000)
            .text(6, "/usr/bin/crun")
            .text(7, "/run/root")
            .number(9, 1)
            .done();
        let any = |kind: &str| Any {
            kind: kind.to_owned(),
            value: &written,
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
            let told = Writer::default().text(2, path).text(3, body).done();
            Options::of(Some(&Any {
                kind: "runtimeoptions.v1.Options".to_owned(),
                value: &told,
            }))
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
        let written = Writer::default()
            .number(1, 1)
            .number(2, 1)
            .text(6, "network")
            .text(8, "/i")
            .done();
        let any = Any {
            kind: "containerd.runc.v1.CheckpointOptions".to_owned(),
            value: &written,
        };
        let options = CheckpointOptions::of(Some(&any));
        assert!(options.exit);
        assert_eq!(options.flags, ["--tcp-established", "--empty-ns=network"]);
        assert_eq!(options.image_path.to_str(), Some("/i"));
    }
}
