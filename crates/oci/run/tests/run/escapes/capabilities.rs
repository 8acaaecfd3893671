//! Rights that nobody gave.

use crate::rig::rig;

/// CVE-2022-24769, CVE-2022-29162 and CVE-2025-27612: with inheritable capabilities a program that has
/// them in its file gives them to users that have none.
#[test]
fn no_capability_is_inheritable_or_ambient_that_the_configuration_does_not_name() {
    let rig = rig!();
    let container = rig.start(&rig.config(&["sleep", "60"]));
    let of_init = std::fs::read_to_string(format!("/proc/{}/status", container.pid)).unwrap();
    let of_exec = |flags: &[&str]| container.exec(flags, &["cat", "/proc/self/status"]).out;
    let more = of_exec(&["--cap", "CAP_SYS_PTRACE"]);
    for status in [&of_init, &of_exec(&[]), &more] {
        assert_eq!(set(status, "CapInh"), 0);
        assert_eq!(set(status, "CapAmb"), 0);
        assert_eq!(set(status, "CapBnd") & SYS_ADMIN, 0);
    }
    assert_ne!(set(&more, "CapEff") & SYS_PTRACE, 0, "it was asked for");

    let user = of_exec(&["--user", "1000:1000"]);
    assert_eq!(set(&user, "CapEff"), 0);
    assert_eq!(set(&user, "CapPrm") & SYS_ADMIN, 0);
    assert_eq!(set(&user, "CapAmb"), 0);
}

const SYS_PTRACE: u64 = 1 << 19;
const SYS_ADMIN: u64 = 1 << 21;

fn set(status: &str, name: &str) -> u64 {
    let line = status
        .lines()
        .find(|line| line.starts_with(name))
        .unwrap_or_else(|| panic!("{status}"));
    u64::from_str_radix(line.split_whitespace().next_back().unwrap(), 16).unwrap()
}
