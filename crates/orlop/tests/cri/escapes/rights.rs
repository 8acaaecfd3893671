//! Rights: a process has those that were asked for, and nothing left over from its makers.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use orlop_cri_api::v1::{Capability, LinuxPodSandboxConfig};
use orlop_testkit::Node;
use orlop_testkit::process::memory;
use tonic::Code;

use crate::world::world;

mod ours;

/// CVE-2022-0811: a setting of the kernel smuggled in by the value of another.
#[tokio::test]
async fn a_setting_of_a_pod_sets_nothing_of_the_node() {
    let world = world!();
    const CORE: &str = "/proc/sys/kernel/core_pattern";
    let before = fs::read_to_string(CORE).expect("read");
    for (number, (setting, value)) in [
        ("kernel.shm_rmid_forced", "1+kernel.core_pattern=|/x"),
        ("kernel.shm_rmid_forced", "1\nkernel.core_pattern=|/x"),
        ("kernel.shm_rmid_forced", "1 kernel.core_pattern=|/x"),
        ("kernel.shm_rmid_forced=1+kernel.core_pattern", "|/x"),
        ("kernel.core_pattern", "|/x"),
        ("kernel/core_pattern", "|/x"),
        ("net/../kernel/core_pattern", "|/x"),
        ("net.../kernel.core_pattern", "|/x"),
        ("kernel.shm_rmid_forced/../core_pattern", "|/x"),
    ]
    .into_iter()
    .enumerate()
    {
        let pod = world.node.pod(&format!("sysctl-{number}")).with(|config| {
            let linux: &mut LinuxPodSandboxConfig = config.linux.get_or_insert_default();
            linux.sysctls = HashMap::from([(setting.to_owned(), value.to_owned())]);
        });
        let refused = world.cri.run_pod(&pod).await;
        // The kernel reads a number up to a space, and nothing behind it.
        let harmless = value.contains(' ');
        assert!(
            refused.is_err() || harmless,
            "{setting} = {value:?} was taken"
        );
        assert_eq!(fs::read_to_string(CORE).expect("read"), before, "{setting}");
    }
    world.finish().await;
}

async fn until(mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting)
        .await
        .expect("it came to pass");
}
