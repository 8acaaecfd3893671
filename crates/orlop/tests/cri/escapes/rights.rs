//! Rights: a process has those that were asked for, and nothing left over from its makers.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use orlop_cri::v1::{Capability, LinuxPodSandboxConfig};
use orlop_testkit::Node;
use orlop_testkit::process::memory;
use tonic::Code;

use crate::world::world;

/// CVE-2022-29162, CVE-2023-25173 and their kin: groups of the daemon, inheritable capabilities.
#[tokio::test]
async fn neither_groups_nor_capabilities_are_left_over() {
    let world = world!(Node::orlop());
    let wanted = "grep -E '^(Groups|CapInh|CapAmb|CapEff):' /proc/self/status";
    for (name, uid, add) in [
        ("user", 1234, Vec::new()),
        ("root", 0, Vec::new()),
        ("added", 1234, vec!["NET_ADMIN".to_owned()]),
    ] {
        let spec = world
            .container("main")
            .shell(&format!("{wanted}; sleep 600"))
            .uid(uid)
            .with(|config| {
                let linux = config.linux.get_or_insert_default();
                let security = linux.security_context.get_or_insert_default();
                security.capabilities = Some(Capability {
                    add_capabilities: add.clone(),
                    ..Capability::default()
                });
            });
        let running = world.run_container(name, &spec).await;
        let told = world
            .cri
            .exec(&running.id, &["sh", "-c", wanted])
            .await
            .expect("exec");
        let exec = String::from_utf8_lossy(&told.stdout).into_owned();
        until(|| running.stdout().lines().count() == 4).await;
        for (who, text) in [("container", running.stdout()), ("exec", exec)] {
            let line = |key: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(key));
                line.unwrap_or_else(|| panic!("{name} {who} {key}: {text}"))
                    .trim()
                    .to_owned()
            };
            // Root of the image is in the image's group of root alone.
            let groups = line("Groups:");
            assert!(["", "0"].contains(&groups.as_str()), "{name} {who}: {text}");
            assert_eq!(line("CapInh:"), "0000000000000000", "{name} {who}: {text}");
            assert_eq!(line("CapAmb:"), "0000000000000000", "{name} {who}: {text}");
            if uid != 0 {
                assert_eq!(line("CapEff:"), "0000000000000000", "{name} {who}: {text}");
            }
        }
    }
    world.finish().await;
}

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

/// CVE-2022-1708, CVE-2022-31030: the output of a command takes the daemon's memory.
#[tokio::test]
async fn a_command_that_prints_without_end_takes_no_memory() {
    let world = world!(Node::orlop().drop_in("[containers]\nexec_output_limit = \"64KiB\"\n"));
    let running = world.run_script("endless", "sleep 600").await;
    let anonymous = |world: &crate::world::World| memory(world.node.pid(), "RssAnon:");
    let before = anonymous(&world);
    let much = "head -c 64000000 /dev/zero; head -c 64000000 /dev/zero >&2";
    let whole = world
        .cri
        .exec(&running.id, &["sh", "-c", much])
        .await
        .expect("exec");
    assert_eq!((whole.stdout.len(), whole.stderr.len()), (65536, 65536));
    let late = world
        .cri
        .exec_within(&running.id, &["sh", "-c", "yes & yes >&2"], 2)
        .await
        .expect_err("without end");
    assert_eq!(late.code(), Code::DeadlineExceeded, "{late}");
    let grown = anonymous(&world).saturating_sub(before);
    assert!(grown < 8 << 10, "grown by {grown} KiB");
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
