//! What is known of images: how much there may be, and whose.

use orlop_testkit::{ImageBuilder, machine, skip_unless};
use tonic::Code;

use crate::policies::scene::{Scene, container, repository};

#[tokio::test]
async fn images_that_never_came_leave_the_room_to_others() {
    let scene = scene!(false);
    for number in 0..3 {
        let image = ImageBuilder::busybox().marked(&number.to_string()).build();
        let path = format!("never-{number}:1");
        let name = scene.registry.push(&image, &path).await;
        scene.sign(image.digest(), &name).await;
        scene.pull(&name).await.expect_err("the engine fails");
        assert_eq!(scene.known(), [""; 0]);
    }
    // What calls that were given up have left.
    scene.know(4096);
    let (image, name) = scene.push("room").await;
    scene.sign(image.digest(), &name).await;
    assert_eq!(scene.pull(&name).await.expect("room"), image.id());
    assert_eq!(scene.known(), [image.id()]);
    for id in scene.know(4096) {
        scene.engine.has(&format!("a.example/{}", &id[7..]), &id);
    }
    let again = scene.pull(&name).await;
    assert_eq!(again.expect("it has its room"), image.id());
    let (other, name) = scene.push("other").await;
    scene.sign(other.digest(), &name).await;
    let full = scene.pull(&name).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted, "{full}");
    scene.shim.stop().await;
}

#[tokio::test]
async fn who_pulls_the_same_image_from_elsewhere_pushes_no_signature_out() {
    let scene = scene!(false);
    scene.demand(false);
    let (image, own) = scene.push("own").await;
    scene.sign(image.digest(), &own).await;
    scene.pull(&own).await.expect("pull it");
    for number in 0..20 {
        let path = format!("other-{number}:1");
        let other = scene.registry.push(&image, &path).await;
        scene.brings(&other, &image);
        scene.pull(&other).await.expect("pull it");
        scene.engine.untag(&other);
        let by_digest = format!("{}@{}", repository(&other), image.digest());
        scene.engine.untag(&by_digest);
    }
    scene.demand(true);
    let created = scene.create(container(&own, None)).await;
    created.expect("its signature is known");
    scene.shim.stop().await;
}

#[tokio::test]
async fn pulls_at_once_of_one_image_by_many_names_all_succeed() {
    let scene = scene!(false);
    let (image, own) = scene.push("own").await;
    let mut names = vec![own];
    for number in 1..8 {
        let name = scene
            .registry
            .push(&image, &format!("own-{number}:1"))
            .await;
        scene.brings(&name, &image);
        names.push(name);
    }
    for name in &names {
        scene.sign(image.digest(), name).await;
    }
    let pulls = names.iter().map(|name| scene.pull(name));
    for pulled in futures_util::future::join_all(pulls).await {
        assert_eq!(pulled.expect("pull"), image.id());
    }
    for name in &names {
        let created = scene.create(container(name, None)).await;
        created.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    scene.shim.stop().await;
}
