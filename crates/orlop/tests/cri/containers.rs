//! Containers: states, exit codes and reasons, and what a process finds around it.

use std::path::Path;
use std::time::Duration;

use orlop_cri_api::v1::{ContainerState, MountPropagation};
use orlop_testkit::{ContainerSpec, ImageBuilder, Node};
use serde_json::json;

use crate::keepers::keeper_of;
use crate::restart::{before_create, script};
use crate::users::{is_able, with_users};
use crate::world::{World, world};

mod ours;

#[tokio::test]
async fn a_container_is_created_runs_and_exits() {
    let world = world!();
    let pod = world.node.pod("life");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("exit 3");
    let id = world.cri.create(&pod_id, &pod, &spec).await;
    let id = id.expect("create");
    let created = world.cri.status(&id).await.expect("status");
    assert_eq!(created.state(), ContainerState::ContainerCreated);
    assert!(created.created_at > 0);
    assert_eq!((created.started_at, created.finished_at), (0, 0));
    assert_eq!(created.image.expect("an image").image, world.busybox);

    world.cri.start(&id).await.expect("start");
    let exited = world.cri.wait_exited(&id).await;
    assert_eq!((exited.exit_code, exited.reason.as_str()), (3, "Error"));
    assert!(exited.started_at >= exited.created_at, "{exited:?}");
    // containerd looks at the clock for a start when it is over, and so is this container by then.
    let end = exited.finished_at;
    assert!(
        world.node.is_peer() || end >= exited.started_at,
        "{exited:?}"
    );
    let refused = world.cri.start(&id).await;
    refused.expect_err("an exited container does not start again");
    world.cri.remove(&id).await.expect("remove");
    world.cri.remove(&id).await.expect("remove again");

    let (code, _) = world
        .output("good", &world.container("main").shell("exit 0"))
        .await;
    assert_eq!(code, 0);
    world.finish().await;
}

#[tokio::test]
async fn a_good_end_is_called_completed() {
    let world = world!();
    let running = world.run_script("good", "true").await;
    let status = world.cri.wait_exited(&running.id).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (0, "Completed"));
    world.finish().await;
}

#[tokio::test]
async fn stop_asks_then_kills() {
    let world = world!();
    let polite = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let stubborn = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    for (name, script, grace, code) in [("polite", polite, 20, 5), ("stubborn", stubborn, 1, 137)] {
        let running = world.run_script(name, script).await;
        wait_for(|| running.stdout().contains("ready")).await;
        world.cri.stop(&running.id, grace).await.expect("stop");
        let status = world.cri.wait_exited(&running.id).await;
        assert_eq!(status.exit_code, code, "{name}");
        let done = world.cri.stop(&running.id, grace).await;
        done.expect("stop again");
    }
    world.finish().await;
}

#[tokio::test]
async fn the_stop_signal_of_the_image_is_used() {
    let world = world!();
    let image = ImageBuilder::busybox()
        .config("StopSignal", json!("SIGUSR1"))
        .build();
    let reference = world.image(&image, "signal:1").await;
    let script = "trap 'exit 6' USR1; echo ready; while :; do sleep 0.05; done";
    let spec = ContainerSpec::new("main", &reference).shell(script);
    let running = world.run_container("signal", &spec).await;
    wait_for(|| running.stdout().contains("ready")).await;
    world.cri.stop(&running.id, 20).await.expect("stop");
    assert_eq!(world.cri.wait_exited(&running.id).await.exit_code, 6);
    world.finish().await;
}

#[tokio::test]
async fn image_and_request_make_the_command() {
    let world = world!();
    let image = ImageBuilder::busybox()
        .config("Entrypoint", json!(["/bin/echo", "image"]))
        .config("Cmd", json!(["args"]))
        .build();
    let reference = world.image(&image, "command:1").await;
    let base = ContainerSpec::new("main", &reference);
    for (name, spec, expected) in [
        ("neither", base.clone(), "image args"),
        ("args", base.clone().args(&["mine"]), "image mine"),
        (
            "command",
            base.clone().command(&["/bin/echo", "own"]),
            "own",
        ),
        (
            "both",
            base.clone().command(&["/bin/echo"]).args(&["a", "b c"]),
            "a b c",
        ),
    ] {
        let (code, output) = world.output(name, &spec).await;
        assert_eq!((code, output.trim()), (0, expected), "{name}");
    }
    world.finish().await;
}

#[tokio::test]
async fn environment_and_directory_come_from_image_and_request() {
    let world = world!();
    let image = ImageBuilder::busybox()
        .config("Env", json!(["PATH=/bin", "ONE=image", "TWO=image"]))
        .config("WorkingDir", json!("/var/www"))
        .build();
    let reference = world.image(&image, "env:1").await;
    let spec = ContainerSpec::new("main", &reference)
        .shell("pwd; echo $ONE $TWO $THREE")
        .env("TWO", "request")
        .env("THREE", "a b=c");
    let (_, output) = world.output("env", &spec).await;
    assert_eq!(output, "/var/www\nimage request a b=c\n");
    let spec = spec.with(|config| config.working_dir = "/made/on/the/way".to_owned());
    let (_, output) = world.output("dir", &spec).await;
    assert!(output.starts_with("/made/on/the/way\n"), "{output}");
    world.finish().await;
}

#[tokio::test]
async fn users_are_looked_up_in_the_image() {
    let world = world!();
    let image = ImageBuilder::busybox()
        .config("User", json!("sailor"))
        .build();
    let sailor = world.image(&image, "user:1").await;
    let script = "id -u; id -g; id -G";
    let of_image = ContainerSpec::new("main", &sailor).shell(script);
    for (name, spec, expected) in [
        ("image", of_image.clone(), "1000\n1000\n1000 2000\n"),
        (
            "name",
            world.container("main").shell(script).user("www-data"),
            "33\n33\n33\n",
        ),
        ("uid", of_image.clone().uid(1), "1\n1\n1\n"),
        ("unknown-uid", of_image.clone().uid(4711), "4711\n0\n0\n"),
    ] {
        let (code, output) = world.output(name, &spec).await;
        assert_eq!(code, 0, "{name}");
        if world.node.is_peer() && name == "image" {
            // containerd 1.6 leaves out the groups that the image puts its user in.
            assert!(output.starts_with("1000\n1000\n"), "{output}");
        } else {
            assert_eq!(output, expected, "{name}");
        }
    }
    world.finish().await;
}

#[tokio::test]
async fn mounts_show_the_host() {
    let world = world!();
    let host = world.node.scratch().subdir("mounted");
    std::fs::write(host.join("note"), "from the host\n").expect("write");
    let missing = host.join("made/by/the/runtime");
    let script = "cat /rw/note; echo inside > /rw/answer; \
        cat /ro/note > /dev/null && ! touch /ro/x 2> /dev/null && echo read-only; \
        ls /made && touch /made/here";
    let spec = world
        .container("main")
        .shell(script)
        .mount(&host, "/rw")
        .mount(&host, "/ro")
        .mount(&missing, "/made")
        .with(|config| config.mounts[1].readonly = true);
    let (code, output) = world.output("mounts", &spec).await;
    assert_eq!((code, output.as_str()), (0, "from the host\nread-only\n"));
    assert_eq!(
        std::fs::read_to_string(host.join("answer")).expect("read"),
        "inside\n"
    );
    assert!(missing.join("here").exists());
    world.finish().await;
}

#[tokio::test]
async fn mounts_below_travel_as_the_propagation_says() {
    let world = world!();
    let host = world.node.scratch().subdir("propagation");
    std::fs::create_dir(host.join("late")).expect("make a directory");
    mount_command(&["--bind", path(&host), path(&host)]);
    mount_command(&["--make-rshared", path(&host)]);
    let spec = |mode: MountPropagation| {
        let spec = world
            .container("main")
            .shell("sleep 600")
            .mount(&host, "/m");
        spec.with(|config| config.mounts[0].propagation = mode.into())
    };
    let private = world
        .run_container("private", &spec(MountPropagation::PropagationPrivate))
        .await;
    let slave = spec(MountPropagation::PropagationHostToContainer);
    let slave = world.run_container("slave", &slave).await;
    mount_command(&["-t", "tmpfs", "late", path(&host.join("late"))]);
    std::fs::write(host.join("late/file"), "").expect("write");
    let sees = |id: String| {
        let cri = world.cri.clone();
        async move {
            cri.exec(&id, &["ls", "/m/late"])
                .await
                .expect("exec")
                .stdout
        }
    };
    assert_eq!(sees(slave.id.clone()).await, b"file\n");
    assert_eq!(sees(private.id.clone()).await, b"");
    orlop_testkit::scratch::unmount_below(&host);
    world.finish().await;
}

#[tokio::test]
async fn a_command_that_is_missing_is_told() {
    let world = world!();
    let pod = world.node.pod("missing");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").command(&["/no/such/program"]);
    let id = world.cri.create(&pod_id, &pod, &spec).await;
    // Whether create or start notices is the runtime's affair.
    let error = match &id {
        Ok(id) => world
            .cri
            .start(id)
            .await
            .expect_err("there is nothing to start"),
        Err(status) => status.clone(),
    };
    assert!(error.message().contains("/no/such/program"), "{error}");
    if let Ok(id) = &id {
        let status = world.cri.wait_exited(id).await;
        assert_ne!(status.exit_code, 0);
        let reasons = ["StartError", "ContainerCannotRun"];
        assert!(reasons.contains(&status.reason.as_str()), "{status:?}");
    }
    world.finish().await;
}

#[tokio::test]
async fn too_much_memory_is_an_oom_kill() {
    crate::sandboxes::tells_want_of_memory(world!()).await;
}

#[tokio::test]
async fn resources_are_updated_while_it_runs() {
    follows_its_limit(world!()).await;
}

/// The memory limit of a container, and the one that it is given while it runs, as it sees them.
pub(crate) async fn follows_its_limit(world: World) {
    let spec = world.container("main").shell("sleep 600").memory(64 << 20);
    let running = world.run_container("update", &spec).await;
    let file = if orlop_testkit::machine::is_cgroup_v2() {
        "/sys/fs/cgroup/memory.max"
    } else {
        "/sys/fs/cgroup/memory/memory.limit_in_bytes"
    };
    let limit = async || world.printed(&running.id, &["cat", file]).await;
    assert_eq!(limit().await, (64 << 20).to_string());
    let request = orlop_cri_api::v1::UpdateContainerResourcesRequest {
        container_id: running.id.clone(),
        linux: Some(orlop_cri_api::v1::LinuxContainerResources {
            memory_limit_in_bytes: 96 << 20,
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut runtime = world.cri.runtime();
    let updated = runtime.update_container_resources(request).await;
    updated.expect("update");
    assert_eq!(limit().await, (96 << 20).to_string());
    world.finish().await;
}

#[tokio::test]
async fn a_running_container_is_removed_by_force() {
    let world = world!();
    let running = world.run_script("forced", "sleep 600").await;
    world.cri.remove(&running.id).await.expect("remove");
    assert_eq!(world.cri.containers().await.expect("list"), [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn a_read_only_root_is_read_only() {
    let world = world!();
    let spec = world
        .container("main")
        .shell("touch /x || echo refused")
        .with(|config| {
            let linux = config.linux.get_or_insert_default();
            linux
                .security_context
                .get_or_insert_default()
                .readonly_rootfs = true;
        });
    let (_, output) = world.output("read-only", &spec).await;
    assert_eq!(output, "refused\n");
    world.finish().await;
}

/// Waits for what comes to pass soon.
pub(crate) async fn wait_for(mut ready: impl FnMut() -> bool) {
    let waited = async {
        while !ready() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waited)
        .await
        .expect("it came to pass");
}

fn path(path: &std::path::Path) -> &str {
    path.to_str().expect("scratch paths are plain")
}

fn mount_command(args: &[&str]) {
    let status = std::process::Command::new("mount")
        .args(args)
        .status()
        .expect("run mount");
    assert!(status.success(), "mount {args:?}: {status}");
}
