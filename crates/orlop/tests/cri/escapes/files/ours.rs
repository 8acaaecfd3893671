//! Runs on orlop alone.

use super::*;
use crate::world::ours;

/// CVE-2024-21626: a working directory behind a file that the runtime has open.
#[tokio::test]
async fn no_working_directory_leads_out_of_the_container() {
    // Whether containerd 1.6 is safe depends on the build of runc.
    let world = ours!();
    let marker = world.node.scratch().path("marker");
    fs::write(&marker, "of the node\n").expect("write");
    let up = "../".repeat(12);
    let script = format!(
        "cat {up}{} 2>&1",
        marker.display().to_string().trim_start_matches('/')
    );
    let pod = world.node.pod("cwd");
    let pod_id = world.run_pod(&pod).await;
    let image = |name: String, dir: String| {
        let image = ImageBuilder::busybox()
            .layer(Layer::new().symlink("door", &dir))
            .config("WorkingDir", json!(dir));
        let (world, image) = (&world, image.build());
        async move { world.image(&image, &name).await }
    };
    for fd in 3..12 {
        let dir = format!("/proc/self/fd/{fd}");
        let reference = image(format!("cwd:{fd}"), dir.clone()).await;
        for (number, (way, working_dir)) in [
            ("asked for", dir.clone()),
            ("asked for, and back out", format!("{dir}/../../..")),
            ("of the image", String::new()),
            ("through a link of the image", "/door".to_owned()),
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("c{fd}-{number}");
            let spec = ContainerSpec::new(&name, &reference)
                .shell(&script)
                .with(|config| config.working_dir = working_dir);
            let refused = world.cri.create(&pod_id, &pod, &spec).await.expect_err(way);
            assert_eq!(refused.code(), Code::InvalidArgument, "{way}: {refused}");
        }
    }
    world.finish().await;
}

/// A pod that may write where its logs are makes links of them.
#[tokio::test]
async fn logs_follow_no_links() {
    // containerd 1.6 follows them.
    let world = ours!();
    let victim = world.node.scratch().path("victim");
    fs::write(&victim, "of the node\n").expect("write");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).expect("set the mode");
    let pod = world.node.pod("logs");
    symlink(&victim, pod.logs().join("before.log")).expect("link");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("before").shell("echo mine");
    let id = world.cri.create(&pod_id, &pod, &spec).await;
    let id = id.expect("create");
    let refused = world.cri.start(&id).await.expect_err("the log is a link");
    assert!(refused.message().contains("before.log"), "{refused}");

    let spec = world
        .container("after")
        .shell("while :; do echo mine; sleep 0.05; done");
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let log = pod.logs().join("after.log");
    fs::rename(&log, pod.logs().join("after.log.1")).expect("rotate");
    symlink(&victim, &log).expect("link");
    world
        .cri
        .reopen_log(&id)
        .await
        .expect_err("the new log is a link");
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(fs::read_to_string(&victim).expect("read"), "of the node\n");

    for bad in ["../out.log", "/etc/out.log", "a/../../out.log"] {
        let spec = world
            .container("bad")
            .with(|config| config.log_path = bad.to_owned());
        let refused = world.cri.create(&pod_id, &pod, &spec).await;
        assert_eq!(
            refused.expect_err(bad).code(),
            Code::InvalidArgument,
            "{bad}"
        );
    }
    world.finish().await;
}
