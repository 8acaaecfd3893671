//! SELinux labels of processes and files, and relabelling of volumes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use orlop_cri_api::v1;
use orlop_fs::each_below;
use rustix::fs::{FileType, Mode, OFlags, XattrFlags, fstat, open, setxattr};
use rustix::io::Errno;

use super::Error;
use super::handler_rules::{HandlerRules, TRY_SKIP_RELABEL};
use super::selinux_node::problem_of;

const FIELD: &str = "config.linux.security_context.selinux_options";

/// The contexts of containers for parts that a request leaves open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelinuxDefaults {
    /// Context of processes, as `system_u:system_r:container_t:s0`.
    pub process: String,
    /// Context of files, as `system_u:object_r:container_file_t:s0`.
    pub file: String,
    /// Context of files that all containers may read, as `system_u:object_r:container_ro_file_t:s0`; `None` if
    /// the policy has no such context.
    pub layers: Option<String>,
}

/// The labels of a pod or container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// The label of its processes.
    pub process: String,
    /// The label of its files.
    pub file: String,
}

impl Labels {
    /// Returns the labels that a request asks for. Missing parts come from the defaults, the level from
    /// `level`, which the caller allots to one pod at a time (as `s0:c12,c34`).
    pub fn new(
        options: Option<&v1::SeLinuxOption>,
        defaults: &SelinuxDefaults,
        level: &str,
    ) -> Result<Self, Error> {
        let none = v1::SeLinuxOption::default();
        let options = options.unwrap_or(&none);
        for (part, name) in [
            (&options.user, "user"),
            (&options.role, "role"),
            (&options.r#type, "type"),
        ] {
            check_part(part, name, false)?;
        }
        check_part(&options.level, "level", true)?;

        let level = if options.level.is_empty() {
            level
        } else {
            &options.level
        };
        let [user, role, kind, default_level] = split(&defaults.process)?;
        let or = |asked: &str, default: &str| -> String {
            if asked.is_empty() {
                default.to_owned()
            } else {
                asked.to_owned()
            }
        };
        let level = or(level, default_level);
        let process = format!(
            "{}:{}:{}:{level}",
            or(&options.user, user),
            or(&options.role, role),
            or(&options.r#type, kind),
        );
        // Files keep their own role and type: the request's apply to processes.
        let [user, role, kind, _] = split(&defaults.file)?;
        let file = format!("{}:{role}:{kind}:{level}", or(&options.user, user));
        Ok(Self { process, file })
    }

    /// Refuses labels that the node's policy does not know, before anything uses them. It asks the kernel, so
    /// run it on a blocking thread.
    pub fn check_known(&self) -> Result<(), Error> {
        let problem = [&self.process, &self.file]
            .into_iter()
            .find_map(|label| problem_of(label));
        problem.map_or(Ok(()), |problem| Err(Error::unmet(FIELD, problem)))
    }
}

/// Size limit of labels that are compared.
const LONGEST_LABEL: usize = 4096;

/// The part of a volume that is labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relabel {
    /// The whole volume.
    All,
    /// Nothing if the top directory has the label already: the rest is assumed to have it, too.
    UnlessTopHasIt,
}

impl Relabel {
    /// Returns the choice of a pod, if its runtime handler allows it.
    pub(super) fn of(
        rules: &HandlerRules,
        pod: &v1::PodSandboxConfig,
        of_node: &BTreeMap<String, String>,
    ) -> Self {
        match rules.acted_on(TRY_SKIP_RELABEL, pod, of_node) {
            Some("true") => Self::UnlessTopHasIt,
            _ => Self::All,
        }
    }
}

/// Sets the label of the container's files on a volume and all files below it.
///
/// System directories are refused, by whatever path or link they are named: relabelling `/etc` for one
/// container breaks the node. Processes with write access may swap files meanwhile, so labels are set on
/// opened files, never by name.
pub(super) fn relabel(path: &Path, label: &str, field: &str, how: Relabel) -> Result<(), Error> {
    let is_labelled = |file: BorrowedFd<'_>| {
        let mut found = [0; LONGEST_LABEL];
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::getxattr(path, "security.selinux", &mut found).is_ok_and(|length| {
            let found = found.get(..length).unwrap_or_default();
            found.strip_suffix(&[0]).unwrap_or(found) == label.as_bytes()
        })
    };
    let mut value = label.as_bytes().to_vec();
    value.push(0);
    let skip: &dyn Fn(BorrowedFd<'_>) -> bool = match how {
        Relabel::All => &|_| false,
        Relabel::UnlessTopHasIt => &is_labelled,
    };
    relabel_with(path, field, skip, &mut |file| {
        // A descriptor opened with O_PATH can only be written through this path.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        setxattr(path, "security.selinux", &value, XattrFlags::empty())
    })
}

fn relabel_with(
    path: &Path,
    field: &str,
    skip: &dyn Fn(BorrowedFd<'_>) -> bool,
    label: &mut dyn FnMut(BorrowedFd<'_>) -> Result<(), Errno>,
) -> Result<(), Error> {
    let failed = |error: io::Error| {
        let doing = format!("relabelling {} recursively", path.display());
        Error::io(field, doing, error)
    };
    let top = match open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        top => top.map_err(|error| failed(error.into()))?,
    };
    let real = fs::read_link(format!("/proc/self/fd/{}", top.as_raw_fd())).map_err(failed)?;
    let is_kept = |kept: &&str| {
        let kept = Path::new(kept);
        // On most nodes some of them are links to others.
        path == kept || real == kept || fs::canonicalize(kept).is_ok_and(|kept| kept == real)
    };
    if OF_THE_NODE.iter().any(is_kept) {
        let problem = format!(
            "{} is a directory of the node and must not be relabelled",
            real.display()
        );
        return Err(Error::invalid(field, problem));
    }
    if skip(top.as_fd()) {
        return Ok(());
    }
    match label_all(&top, label) {
        // A filesystem without per-file labels has one for the whole mount.
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(failed(error.into())),
    }
}

fn label_all(
    top: &OwnedFd,
    label: &mut dyn FnMut(BorrowedFd<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    label(top.as_fd())?;
    if FileType::from_raw_mode(fstat(top)?.st_mode) != FileType::Directory {
        return Ok(());
    }
    each_below(top, label)
}

/// System directories, which are never volumes.
const OF_THE_NODE: [&str; 17] = [
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/etc/passwd",
    "/etc/pki",
    "/etc/shadow",
    "/home",
    "/lib",
    "/lib64",
    "/media",
    "/proc",
    "/root",
    "/sbin",
    "/sys",
    "/usr",
];

/// Splits `user:role:type:level`; the level itself may contain colons.
fn split(context: &str) -> Result<[&str; 4], Error> {
    let mut parts = context.splitn(4, ':');
    let mut next = || parts.next().filter(|part| !part.is_empty());
    if let (Some(user), Some(role), Some(kind), level) = (next(), next(), next(), next()) {
        return Ok([user, role, kind, level.unwrap_or("s0")]);
    }
    let problem = format!("the node's default SELinux context {context:?} is not valid");
    Err(Error::unmet(FIELD, problem))
}

fn check_part(part: &str, name: &str, colons: bool) -> Result<(), Error> {
    let fine = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') || (colons && ":,".contains(c))
    };
    if part.chars().all(fine) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("{FIELD}.{name}"),
        format!("{part:?} is not valid in an SELinux context"),
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn defaults() -> SelinuxDefaults {
        SelinuxDefaults {
            process: "system_u:system_r:container_t:s0".into(),
            file: "system_u:object_r:container_file_t:s0".into(),
            layers: None,
        }
    }

    #[test]
    fn what_is_left_open_comes_from_node_and_pod() {
        let labels = Labels::new(None, &defaults(), "s0:c1,c2").unwrap();
        assert_eq!(labels.process, "system_u:system_r:container_t:s0:c1,c2");
        assert_eq!(labels.file, "system_u:object_r:container_file_t:s0:c1,c2");
    }

    #[test]
    fn a_requests_parts_replace_the_defaults() {
        let options = v1::SeLinuxOption {
            user: "u".into(),
            role: "r".into(),
            r#type: "spc_t".into(),
            level: "s0:c4".into(),
        };
        let labels = Labels::new(Some(&options), &defaults(), "s0:c1,c2").unwrap();
        assert_eq!(labels.process, "u:r:spc_t:s0:c4");
        assert_eq!(labels.file, "u:object_r:container_file_t:s0:c4");
    }

    #[test]
    fn parts_cannot_smuggle_in_others() {
        let options = v1::SeLinuxOption {
            user: "u:r:t".into(),
            ..Default::default()
        };
        let error = Labels::new(Some(&options), &defaults(), "")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("config.linux.security_context.selinux_options.user"),
            "{error}"
        );
    }

    #[test]
    fn the_nodes_own_directories_are_not_relabelled() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/etc", &link).unwrap();
        let mut never = |_: BorrowedFd<'_>| panic!("labels something");
        for path in [Path::new("/etc"), Path::new("/usr/../etc/."), &link] {
            let refused = relabel_with(path, "config.mounts[0]", &|_| false, &mut never);
            let refused = refused.unwrap_err().to_string();
            assert!(
                refused.contains("/etc is a directory of the node"),
                "{refused}"
            );
        }
        for path in ["/bin", "/usr/../bin", "/lib", "/"] {
            relabel_with(Path::new(path), "config.mounts[0]", &|_| false, &mut never).unwrap_err();
        }
    }

    /// Labels with an attribute that any file system supports; links cannot have it.
    fn mark(file: BorrowedFd<'_>) -> Result<(), Errno> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        match setxattr(path, "user.label", b"l", XattrFlags::empty()) {
            Err(Errno::PERM) => Ok(()),
            other => other,
        }
    }

    fn is_marked(path: &Path) -> bool {
        rustix::fs::getxattr(path, "user.label", &mut [0; 8]).is_ok()
    }

    #[test]
    fn a_directory_swapped_for_a_link_leads_no_label_out_of_the_volume() {
        // `/tmp` may be on a file system without extended attributes.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let volume = dir.path().join("volume");
        let outside = dir.path().join("outside");
        fs::create_dir_all(volume.join("inner/deep")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "").unwrap();
        fs::write(volume.join("inner/file"), "").unwrap();
        let inner = fstat(fs::File::open(volume.join("inner")).unwrap()).unwrap();
        let mut swapped = false;
        let mut label = |file: BorrowedFd<'_>| {
            mark(file)?;
            // Swaps the directory right after it is labelled, before it is entered.
            if fstat(file)?.st_ino == inner.st_ino && !swapped {
                fs::rename(volume.join("inner"), volume.join("moved")).unwrap();
                std::os::unix::fs::symlink(&outside, volume.join("inner")).unwrap();
                swapped = true;
            }
            Ok(())
        };
        relabel_with(&volume, "config.mounts[0]", &|_| false, &mut label).unwrap();
        assert!(swapped && is_marked(&volume) && is_marked(&volume.join("moved")));
        assert!(!is_marked(&outside) && !is_marked(&outside.join("secret")));
    }

    #[test]
    fn a_volume_whose_top_has_the_label_may_be_left_as_it_is() {
        let asks = |value: &str| v1::PodSandboxConfig {
            annotations: HashMap::from([(TRY_SKIP_RELABEL.to_owned(), value.to_owned())]),
            ..Default::default()
        };
        let how = |allowed: &[&str], pod: &v1::PodSandboxConfig| {
            let rules = HandlerRules {
                allowed_annotations: allowed.iter().map(|&name| name.to_owned()).collect(),
                ..HandlerRules::default()
            };
            Relabel::of(&rules, pod, &BTreeMap::new())
        };
        let allowed = ["io.kubernetes.cri-o.TrySkipVolumeSELinuxLabel"];
        assert_eq!(how(&allowed, &asks("true")), Relabel::UnlessTopHasIt);
        assert_eq!(how(&allowed, &asks("false")), Relabel::All);
        assert_eq!(how(&[], &asks("true")), Relabel::All, "its runtime decides");

        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let has_it = |file: BorrowedFd<'_>| {
            is_marked(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
        };
        relabel_with(dir.path(), "config.mounts[0]", &has_it, &mut mark).unwrap();
        assert!(is_marked(&dir.path().join("file")), "the top had none");
        fs::write(dir.path().join("later"), "").unwrap();
        relabel_with(dir.path(), "config.mounts[0]", &has_it, &mut mark).unwrap();
        assert!(!is_marked(&dir.path().join("later")));
        let mut never = |_: BorrowedFd<'_>| panic!("labels something");
        relabel_with(Path::new("/etc"), "config.mounts[0]", &|_| true, &mut never).unwrap_err();
    }

    #[test]
    fn files_get_their_label_however_deep_they_are() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let innermost = orlop_testkit::nest(dir.path(), 2100);
        relabel_with(dir.path(), "config.mounts[0]", &|_| false, &mut mark).unwrap();
        rustix::fs::fgetxattr(&innermost, "user.label", &mut [0; 8]).unwrap();
        orlop_fs::remove_tree(&dir.keep()).unwrap();
    }
}
