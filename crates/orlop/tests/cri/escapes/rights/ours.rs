//! Runs on orlop alone.

use super::*;
use crate::world::ours;

#[cfg(target_arch = "x86_64")]
mod system_calls;

/// CVE-2022-29162, CVE-2023-25173 and their kin: groups of the daemon, inheritable capabilities.
#[tokio::test]
async fn neither_groups_nor_capabilities_are_left_over() {
    let world = ours!();
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
        let told = world.cri.exec(&running.id, &["sh", "-c", wanted]).await;
        let told = told.expect("exec");
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

/// CVE-2022-1708, CVE-2022-31030: the output of a command takes the daemon's memory.
#[tokio::test]
async fn a_command_that_prints_without_end_takes_no_memory() {
    let world = world!(Node::orlop().drop_in("[containers]\nexec_output_limit = \"64KiB\"\n"));
    let running = world.run_script("endless", "sleep 600").await;
    let anonymous = |world: &crate::world::World| memory(world.node.pid(), "RssAnon:");
    let before = anonymous(&world);
    let much = "head -c 64000000 /dev/zero; head -c 64000000 /dev/zero >&2";
    let whole = world.cri.exec(&running.id, &["sh", "-c", much]).await;
    let whole = whole.expect("exec");
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
