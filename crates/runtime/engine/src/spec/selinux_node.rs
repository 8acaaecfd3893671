//! SELinux on this node: the contexts that its policy names for containers, and whether the kernel accepts
//! them.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use rustix::io::Errno;

use super::selinux::SelinuxDefaults;

/// Mount point of the kernel's SELinux file system.
const FILES: &str = "/sys/fs/selinux";

/// Directory of a distribution's configuration.
const CONFIGURATION: &str = "/etc/selinux";

impl SelinuxDefaults {
    /// Returns the contexts of this node; `None` if the kernel has no SELinux, or no policy.
    pub(crate) fn of_node() -> Option<Self> {
        if !Path::new(FILES).join("enforce").exists() {
            return None;
        }
        // Without a policy the only context is `kernel`.
        let own = orlop_fs::read_kernel_text("/proc/self/attr/current").ok()?;
        if own.trim_end_matches(['\0', '\n']) == "kernel" {
            return None;
        }
        let mut own = Self::of_configuration(Path::new(CONFIGURATION));
        own.layers = own.known_of_layers(|context| problem_of(context).is_none());
        Some(own)
    }

    /// Returns a context for layers that the policy accepts; `None` if it has no types for containers, whose
    /// pods are refused.
    fn known_of_layers(&self, is_known: impl Fn(&str) -> bool) -> Option<String> {
        // Without categories any container may read files with the file context.
        let contexts = self.layers.iter().chain([&self.file]);
        contexts.into_iter().find(|it| is_known(it)).cloned()
    }

    /// Returns the contexts in the policy's `lxc_contexts`, else those of most policies.
    fn of_configuration(dir: &Path) -> Self {
        let read = |path: &Path| orlop_fs::read_text(path, orlop_fs::SMALL_FILE).ok();
        let contexts = policy_type(read(&dir.join("config")).as_deref())
            .and_then(|kind| read(&dir.join(kind).join("contexts/lxc_contexts")))
            .unwrap_or_default();
        let entry = |name: &str, default: &str| {
            let value = contexts.lines().find_map(|line| {
                let (own, value) = line.split_once('=')?;
                (own.trim() == name).then(|| value.trim().trim_matches('"').to_owned())
            });
            value.unwrap_or_else(|| default.to_owned())
        };
        Self {
            process: entry("process", "system_u:system_r:container_t:s0"),
            file: entry("file", "system_u:object_r:container_file_t:s0"),
            layers: Some(entry("ro_file", "system_u:object_r:container_ro_file_t:s0")),
        }
    }
}

/// Returns what this node's policy lacks for containers, with a remedy; `None` if nothing.
pub fn problem() -> Option<String> {
    let SelinuxDefaults { process, file, .. } = SelinuxDefaults::of_node()?;
    [process, file]
        .iter()
        .find_map(|context| problem_of(context))
}

/// Returns why the kernel would refuse a context: a mount or exec only fails with "invalid argument".
pub(super) fn problem_of(context: &str) -> Option<String> {
    problem_by(Path::new(FILES), context)
}

fn problem_by(files: &Path, context: &str) -> Option<String> {
    match ask(&files.join("context"), context) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => Some(format!(
            "the node's SELinux policy does not define the context {context}; install a policy \
             that defines it (such as container-selinux), or set another context in the pod's \
             seLinuxOptions or in contexts/lxc_contexts of the policy below {CONFIGURATION}"
        )),
        // If the kernel does not allow the check, the later use reports the error.
        _ => None,
    }
}

/// Asks the kernel: it accepts a known context in one write, and refuses others.
fn ask(file: &Path, context: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(file)?;
    let text = [context.as_bytes(), &[0]].concat();
    file.write(&text).map(drop)
}

fn policy_type(config: Option<&str>) -> Option<&str> {
    let line = config?
        .lines()
        .find_map(|line| line.trim().strip_prefix("SELINUXTYPE="))?;
    // The policy type becomes a part of a path.
    Some(line.trim()).filter(|kind| !kind.is_empty() && !kind.contains(['/', '\0']))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn contexts_are_those_of_the_policy_that_is_configured() {
        let dir = tempfile::tempdir().unwrap();
        let found = SelinuxDefaults::of_configuration(dir.path());
        assert_eq!(found.process, "system_u:system_r:container_t:s0");
        let contexts = dir.path().join("strict/contexts");
        fs::create_dir_all(&contexts).unwrap();
        let config = "# a comment\nSELINUX=enforcing\nSELINUXTYPE=strict\n";
        fs::write(dir.path().join("config"), config).unwrap();
        let text = "process = \"u:r:own_t:s0\"\ncontent = \"u:r:content_t:s0\"\n";
        fs::write(contexts.join("lxc_contexts"), text).unwrap();
        let found = SelinuxDefaults::of_configuration(dir.path());
        assert_eq!(found.process, "u:r:own_t:s0");
        assert_eq!(found.file, "system_u:object_r:container_file_t:s0");
        let layers = "system_u:object_r:container_ro_file_t:s0";
        assert_eq!(found.layers.as_deref(), Some(layers));
        assert_eq!(policy_type(Some("SELINUXTYPE=../../tmp")), None);
    }

    #[test]
    fn layers_have_no_context_that_the_policy_does_not_know() {
        let dir = tempfile::tempdir().unwrap();
        let node = SelinuxDefaults::of_configuration(dir.path());
        let layers = |known: &[&str]| node.known_of_layers(|it| known.contains(&it));
        let (file, ro_file) = (node.file.as_str(), node.layers.as_deref().unwrap());
        assert_eq!(layers(&[file, ro_file]).as_deref(), Some(ro_file));
        assert_eq!(layers(&[file]).as_deref(), Some(file));
        assert_eq!(layers(&["system_u:object_r:usr_t:s0"]), None);
    }

    #[test]
    fn a_node_that_cannot_be_asked_is_no_reason_to_refuse_a_context() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(problem_by(dir.path(), "u:r:t:s0"), None);
    }
}
