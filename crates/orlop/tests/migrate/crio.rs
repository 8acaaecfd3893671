//! A node of CRI-O's own daemon, which moves and moves back.

use orlop_testkit::node::crio_program;
use orlop_testkit::{ContainerSpec, ImageBuilder, Node, Registry, machine, skip_unless};

use crate::{findings, migrated};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_crio_moves_with_its_images_and_back() {
    skip_unless!(machine::can_run_pods());
    skip_unless!(crio_program().map(drop));
    let theirs = Node::crio().start().await;
    let registry = Registry::start();
    let image = ImageBuilder::busybox().build();
    let name = registry.push(&image, "team/busybox:1").await;
    let cri = theirs.cri().await;
    cri.pull(&name).await.unwrap();
    // From here on all that is had is what is on the node.
    drop(registry);
    let container = ContainerSpec::new("main", &name).shell("echo hello; exec sleep 600");
    let pod = theirs.pod("before");
    let pod_id = cri.run_pod(&pod).await.unwrap();
    cri.run(&pod_id, &pod, &container).await.unwrap();

    let config = theirs.scratch().path("crio.conf");
    let ours = theirs.scratch().subdir("ours").join("config.toml");
    let report = migrated("crio", &config, &["--write", ours.to_str().unwrap()]);
    assert!(!report.contains("unknown key"), "{report}");
    assert!(report.contains("containers of crio exist"), "{report}");
    cri.remove_all_pods().await.unwrap();

    let written = std::fs::read_to_string(&ours).unwrap();
    let node = Node::orlop().config(&written).start().await;
    let socket = format!("unix://{}", node.socket().display());
    migrated("crio", &config, &["--images", "--socket", &socket]);
    let mine = node.cri().await;
    let known = mine
        .image(&name)
        .await
        .unwrap()
        .expect("the image came over");
    assert_eq!(known.id, image.id());
    let repository = name.rsplit_once(':').unwrap().0;
    let digest = format!("{repository}@{}", image.digest());
    assert!(mine.image(&digest).await.unwrap().is_some(), "{digest}");
    println!("{:#}", findings(&node));
    let pod = node.pod("after");
    let pod_id = mine.run_pod(&pod).await.unwrap();
    mine.run(&pod_id, &pod, &container).await.unwrap();
    mine.remove_all_pods().await.unwrap();
    drop(mine);
    node.finish().await;

    // And back: nothing of theirs was touched.
    let pod = theirs.pod("again");
    let pod_id = cri.run_pod(&pod).await.unwrap();
    cri.run(&pod_id, &pod, &container).await.unwrap();
    cri.remove_all_pods().await.unwrap();
    drop(cri);
    theirs.finish().await;
}
