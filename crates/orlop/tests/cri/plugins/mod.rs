//! Plugins of the Node Resource Interface: what they hear of, what they change, and what becomes
//! of a node whose plugins misbehave.

mod changes;
mod faults;
mod hearing;
mod hooks;
mod requirements;

use std::time::Duration;

use orlop_testkit::machine::is_cgroup_v2;
use orlop_testkit::nri::v1alpha1::{
    ContainerAdjustment, ContainerUpdate, CreateContainerResponse, KeyValue, LinuxContainerUpdate,
    LinuxCpu, LinuxResources, OptionalUInt64,
};
use orlop_testkit::{Manners, Plugin};

use crate::world::World;

/// Other tests give plugins more time than they need on a busy machine; here it has to run out.
const HASTY: &str = "[nri]\nrequest_timeout = \"3s\"";

async fn plugin(world: &World, index: &str, name: &str, manners: Manners) -> Plugin {
    let plugin = manners
        .connect(&world.node.plugin_socket(), index, name)
        .await;
    taking_part(world, &format!("{index}-{name}"), true).await;
    plugin
}

/// Waits until a plugin takes part, or does no more.
async fn taking_part(world: &World, name: &str, expected: bool) {
    orlop_testkit::wait_until!(
        Duration::from_secs(20),
        names(world).await.contains(&name.to_owned()) == expected,
        "{name}: {}",
        world.node.log()
    );
}

/// The plugins that the daemon says take part.
async fn names(world: &World) -> Vec<String> {
    let request = orlop_cri_api::v1::StatusRequest { verbose: true };
    let status = world.cri.runtime().status(request).await;
    let info = status.expect("status").into_inner().info;
    let state: serde_json::Value = serde_json::from_str(&info["nri"]).expect("JSON");
    let plugins = state["plugins"].as_array().expect("a list").iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    plugins
        .map(|one| format!("{}-{}", text(&one["index"]), text(&one["name"])))
        .collect()
}

fn adjustment(adjust: ContainerAdjustment) -> CreateContainerResponse {
    CreateContainerResponse {
        adjust: Some(adjust),
        ..CreateContainerResponse::default()
    }
}

fn variable(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: value.to_owned(),
    }
}

fn adds(key: &'static str, value: &'static str) -> Manners {
    Manners::default().creates(move |_| {
        adjustment(ContainerAdjustment {
            env: vec![variable(key, value)],
            ..ContainerAdjustment::default()
        })
    })
}

fn shares(value: u64) -> LinuxResources {
    LinuxResources {
        cpu: Some(LinuxCpu {
            shares: Some(OptionalUInt64 { value }),
            ..LinuxCpu::default()
        }),
        ..LinuxResources::default()
    }
}

fn update(container: &str, resources: LinuxResources) -> ContainerUpdate {
    ContainerUpdate {
        container_id: container.to_owned(),
        linux: Some(LinuxContainerUpdate {
            resources: Some(resources),
        }),
        ignore_failure: false,
    }
}

async fn shares_of(world: &World, container: &str) -> i64 {
    let status = world.cri.status(container).await.expect("status");
    let linux = status.resources.and_then(|resources| resources.linux);
    linux.expect("resources").cpu_shares
}

/// What the kernel has of it.
async fn kernel_shares(world: &World, container: &str) -> String {
    let file = if is_cgroup_v2() {
        "/sys/fs/cgroup/cpu.weight"
    } else {
        "/sys/fs/cgroup/cpu/cpu.shares"
    };
    let output = world.cri.exec(container, &["cat", file]).await;
    String::from_utf8_lossy(&output.expect("exec").stdout)
        .trim()
        .to_owned()
}

fn expected_shares(value: u64) -> String {
    match (is_cgroup_v2(), value) {
        (false, value) => value.to_string(),
        // By the kernel's curve.
        (true, 512) => "59".to_owned(),
        (true, 1024) => "100".to_owned(),
        (true, other) => panic!("no weight is known for {other}"),
    }
}
