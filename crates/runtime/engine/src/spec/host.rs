//! Detection of facts about this node, at the daemon's start.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use orlop_cgroup::{Driver, Hierarchies};
use rustix::process::{Resource, getrlimit};

use super::apparmor::AppArmor;
use super::capabilities;
use super::input::HostFacts;
use super::selinux::SelinuxDefaults;

impl HostFacts {
    /// Detects facts about this node and the daemon's own rights.
    ///
    /// `apparmor_default` is the profile the caller loaded for containers that name none.
    pub fn detect(
        hierarchies: &Hierarchies,
        cgroup_driver: Driver,
        apparmor_default: Option<String>,
    ) -> io::Result<Self> {
        let status = orlop_fs::read_kernel_text("/proc/self/status")?;
        let capabilities = own_capabilities(&status);
        let may_raise = capabilities.iter().any(|own| own == "CAP_SYS_RESOURCE");
        Ok(Self {
            hostname: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            cgroup_driver,
            cgroup_v2: hierarchies.is_v2(),
            cgroup_mount_options: hierarchies.v2_options(),
            hugepage_sizes: hierarchies.hugepage_sizes(),
            swap_accounting: hierarchies.swap_accounting(),
            mapped_layers: takes_mapped_layers(
                &rustix::system::uname().release().to_string_lossy(),
            ),
            block_io: hierarchies.has(if hierarchies.is_v2() { "io" } else { "blkio" }),
            apparmor: apparmor(apparmor_default),
            selinux: SelinuxDefaults::of_node(),
            capabilities,
            oom_score_floor: if may_raise {
                None
            } else {
                Some(own_oom_score()?)
            },
            rlimit_ceilings: if may_raise {
                BTreeMap::new()
            } else {
                own_limits()
            },
        })
    }
}

/// Whether the kernel supports overlayfs layers with mapped ids (Linux 5.19).
fn takes_mapped_layers(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(5), Some(19))
}

/// Returns the capabilities in both the bounding and the permitted set, which the daemon can give.
fn own_capabilities(status: &str) -> Vec<String> {
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| u64::from_str_radix(value.trim(), 16).ok())
            .unwrap_or(0)
    };
    let own = set("CapBnd:") & set("CapPrm:");
    let held = capabilities::ALL
        .into_iter()
        .enumerate()
        .filter(|(bit, _)| own >> bit & 1 == 1);
    held.map(|(_, name)| name.to_owned()).collect()
}

fn own_oom_score() -> io::Result<i32> {
    let text = orlop_fs::read_kernel_text("/proc/self/oom_score_adj")?;
    text.trim()
        .parse()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn own_limits() -> BTreeMap<String, u64> {
    let resources = [
        ("RLIMIT_AS", Resource::As),
        ("RLIMIT_CORE", Resource::Core),
        ("RLIMIT_CPU", Resource::Cpu),
        ("RLIMIT_DATA", Resource::Data),
        ("RLIMIT_FSIZE", Resource::Fsize),
        ("RLIMIT_LOCKS", Resource::Locks),
        ("RLIMIT_MEMLOCK", Resource::Memlock),
        ("RLIMIT_MSGQUEUE", Resource::Msgqueue),
        ("RLIMIT_NICE", Resource::Nice),
        ("RLIMIT_NOFILE", Resource::Nofile),
        ("RLIMIT_NPROC", Resource::Nproc),
        ("RLIMIT_RSS", Resource::Rss),
        ("RLIMIT_RTPRIO", Resource::Rtprio),
        ("RLIMIT_RTTIME", Resource::Rttime),
        ("RLIMIT_SIGPENDING", Resource::Sigpending),
        ("RLIMIT_STACK", Resource::Stack),
    ];
    let limited = resources
        .into_iter()
        .filter_map(|(name, resource)| Some((name.to_owned(), getrlimit(resource).maximum?)));
    limited.collect()
}

fn apparmor(default_profile: Option<String>) -> Option<AppArmor> {
    AppArmor::is_enabled().then(|| AppArmor {
        profiles: PathBuf::from(AppArmor::PROFILES),
        default_profile,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a node that supports everything, for tests.
    pub(crate) fn facts() -> HostFacts {
        HostFacts {
            hostname: "node".into(),
            cgroup_driver: Driver::Cgroupfs,
            cgroup_v2: false,
            cgroup_mount_options: Vec::new(),
            hugepage_sizes: Vec::new(),
            swap_accounting: false,
            mapped_layers: true,
            block_io: false,
            apparmor: None,
            selinux: None,
            capabilities: capabilities::ALL.map(str::to_owned).to_vec(),
            oom_score_floor: None,
            rlimit_ceilings: BTreeMap::new(),
        }
    }

    #[test]
    fn layers_with_mapped_ids_take_a_recent_kernel() {
        for (release, takes) in [
            ("6.1.0-56-cloud-amd64", true),
            ("5.18.9", false),
            ("5.19.0-rc1", true),
            ("6.18", true),
            ("7.0", true),
            ("5.15.0", false),
            ("strange", false),
        ] {
            assert_eq!(takes_mapped_layers(release), takes, "{release}");
        }
    }

    #[test]
    fn capabilities_held_and_bounded_can_be_given() {
        let status = "CapInh:\t0\nCapPrm:\t0000000000000003\nCapBnd:\t0000000000000006\n";
        assert_eq!(own_capabilities(status), ["CAP_DAC_OVERRIDE"]);
    }

    #[test]
    fn this_node_can_be_looked_at() {
        let hierarchies = Hierarchies::detect().unwrap();
        let facts = HostFacts::detect(&hierarchies, Driver::Cgroupfs, None).unwrap();
        assert!(!facts.hostname.is_empty());
        let may_raise = facts
            .capabilities
            .iter()
            .any(|own| own == "CAP_SYS_RESOURCE");
        assert_eq!(facts.oom_score_floor.is_none(), may_raise);
    }
}
