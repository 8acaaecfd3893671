//! Statistics held against those of Debian's containerd, of the same workload.

use std::time::{Duration, Instant};

use orlop_testkit::machine::{has_program, is_cgroup_v2};
use orlop_testkit::{ContainerSpec, ImageBuilder, Node, skip, skip_unless};

use crate::world::{World, ours, world};

/// Sums and differences of two runs may differ by so much, in percent.
const TOLERANCE: u64 = 2;

/// Three seconds of processor time, by the scheduler's own count; memory that stays; a file.
const WORKLOAD: &str = "used=0; \
    while [ $used -lt 3000000000 ]; do read used rest < /proc/self/schedstat; done; \
    dd if=/dev/zero of=/dev/shm/ballast bs=1M count=48 2>/dev/null; \
    dd if=/dev/zero of=/written bs=1M count=20 2>/dev/null; sync; echo done; sleep 600";

/// What is compared.
#[derive(Debug)]
struct Figures {
    cpu_ns: u64,
    working_set: u64,
    written: u64,
}

#[tokio::test]
async fn statistics_equal_those_of_the_reference() {
    skip_unless!(has_program("containerd"));
    if is_cgroup_v2() {
        skip!("containerd 1.6 counts inactive memory otherwise on version 2");
    }
    let ours = ours!();
    let theirs = world!(Node::containerd());
    // One after the other: neither takes the other's processor.
    let (our_figures, their_figures) = (figures(&ours).await, figures(&theirs).await);
    let pairs = [
        ("cpu", our_figures.cpu_ns, their_figures.cpu_ns),
        (
            "working set",
            our_figures.working_set,
            their_figures.working_set,
        ),
        ("writable layer", our_figures.written, their_figures.written),
    ];
    for (what, our, their) in pairs {
        assert!(
            our.abs_diff(their) * 100 <= their * TOLERANCE,
            "{what}: {our}, the reference says {their}"
        );
    }
    assert!(our_figures.written >= 20 << 20, "{our_figures:?}");
    assert!(our_figures.cpu_ns >= 2_900_000_000, "{our_figures:?}");
    ours.finish().await;
    theirs.finish().await;
}

async fn figures(world: &World) -> Figures {
    let running = world.run_script("measured", WORKLOAD).await;
    let deadline = Instant::now() + Duration::from_mins(1);
    while running.stdout() != "done\n" {
        assert!(Instant::now() < deadline, "the workload takes too long");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    loop {
        let stats = world.cri.stats(&running.id).await.expect("stats");
        let written = stats.writable_layer.and_then(|layer| layer.used_bytes);
        let written = written.map_or(0, |bytes| bytes.value);
        // containerd looks at layers every ten seconds.
        if written < 20 << 20 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(250)).await;
            continue;
        }
        let cpu = stats.cpu.and_then(|cpu| cpu.usage_core_nano_seconds);
        let memory = stats.memory.and_then(|memory| memory.working_set_bytes);
        return Figures {
            cpu_ns: cpu.expect("cpu").value,
            working_set: memory.expect("memory").value,
            written,
        };
    }
}

#[tokio::test]
async fn what_a_container_writes_to_files_of_its_pod_and_declared_volumes_is_counted() {
    const WRITTEN: u64 = 3 * (10 << 20);
    let world = ours!();
    let image = ImageBuilder::busybox().config("Volumes", serde_json::json!({ "/data": {} }));
    let image = world.image(&image.build(), "volume:1").await;
    let pod = world.node.pod("writes");
    let pod_id = world.run_pod(&pod).await;
    let script = "for file in /etc/resolv.conf /etc/hostname /data/file; do \
                  dd if=/dev/zero of=$file bs=1M count=10 2> /dev/null; done; sync; sleep 6000";
    let spec = ContainerSpec::new("main", &image).shell(script);
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let other = ContainerSpec::new("other", &image).shell("sleep 6000");
    let other = world.cri.run(&pod_id, &pod, &other).await.expect("run");
    let written = async |id: &str| {
        let stats = world.cri.stats(id).await.expect("stats");
        let layer = stats.writable_layer.and_then(|layer| layer.used_bytes);
        layer.map_or(0, |bytes| bytes.value)
    };
    orlop_testkit::wait_until!(
        Duration::from_mins(1),
        written(&id).await >= WRITTEN,
        "what it wrote is counted"
    );
    assert!(written(&other).await < 1 << 20, "and counted once");
    world.finish().await;
}
