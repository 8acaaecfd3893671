//! Signature policies over engines that keep images otherwise than Debian's, or bring others than they are told to.

macro_rules! scene {
    ($has_containerd_images:expr) => {{
        skip_unless!(machine::has_program("docker-registry"));
        skip_unless!(machine::has_program("openssl"));
        Box::pin(Scene::new($has_containerd_images)).await
    }};
}

mod names;
mod room;
mod scene;

use orlop_testkit::{FaultProxy, ImageBuilder, machine, skip_unless};
use scene::{Scene, ask_at, container, repository};
use tonic::Code;

#[tokio::test]
async fn of_an_index_that_is_signed_containerds_store_may_take_what_it_wants() {
    let scene = scene!(true);
    let (image, name, own) = scene.push_index("whole").await;
    scene.sign(image.digest(), &name).await;
    let by_digest = format!("{}@{}", repository(&name), image.digest());
    scene.engine.brings(&by_digest, image.digest());
    assert_eq!(scene.pull(&name).await.unwrap(), image.digest());
    assert!(scene.engine.pulled().iter().eq([&by_digest]));
    let names = scene.engine.names(image.digest());
    assert_eq!(names, [name.clone(), by_digest]);
    let created = scene.create(container(&name, None)).await.unwrap();
    assert_eq!(created["Image"], image.digest());
    // It says nothing of the manifest alone, which is another image there.
    let of_manifest = format!("{}@{own}", repository(&name));
    scene.engine.brings("free.example/it:1", &own);
    let free = scene.pull("free.example/it:1").await;
    assert_eq!(free.unwrap(), own, "nobody needs its signatures");
    let refused = scene.create(container(&of_manifest, None)).await;
    assert_eq!(refused.unwrap_err().code(), Code::NotFound);
    let mut by_id = container(&own, None);
    by_id.image.as_mut().unwrap().user_specified_image = name;
    let refused = scene.create(by_id).await.unwrap_err();
    let message = refused.message();
    assert!(
        message.starts_with("SignatureValidationFailed: "),
        "{message}"
    );
    scene.shim.stop().await;
}

#[tokio::test]
async fn of_an_index_that_is_not_signed_containerds_store_gets_the_manifest_that_is() {
    let scene = scene!(true);
    let (image, name, own) = scene.push_index("part").await;
    scene.sign(&own, &name).await;
    let of_index = format!("{}@{}", repository(&name), image.digest());
    let of_manifest = format!("{}@{own}", repository(&name));
    scene.engine.brings(&of_index, image.digest());
    scene.engine.brings(&of_manifest, &own);
    assert_eq!(scene.pull(&name).await.unwrap(), own);
    assert_eq!(scene.engine.pulled(), [of_manifest]);
    let created = scene.create(container(&name, None)).await.unwrap();
    assert_eq!(created["Image"], own.as_str());
    scene.shim.stop().await;
}

#[tokio::test]
async fn what_an_engine_has_chosen_of_an_index_is_used_only_if_it_was_judged() {
    let scene = scene!(false);
    let (image, name, own) = scene.push_index("choice").await;
    scene.sign(image.digest(), &name).await;
    let other = format!("sha256:{:064x}", 7);
    let of_index = format!("{}@{}", repository(&name), image.digest());
    let of_manifest = format!("{}@{own}", repository(&name));
    scene.engine.brings(&of_index, &other);
    scene.engine.brings(&of_manifest, &other);
    let refused = scene.pull(&name).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let words = format!(
        "pulled image {other}, but the policy was checked for {}",
        image.id()
    );
    assert!(refused.message().contains(&words), "{refused}");
    assert_eq!(scene.engine.names(&other), [""; 0], "it is gone again");
    assert_eq!(
        scene.known(),
        [""; 0],
        "nothing is known of what has not come"
    );
    scene.engine.brings(&of_manifest, image.id());
    assert_eq!(scene.pull(&name).await.unwrap(), image.id());
    let names = scene.engine.names(image.id());
    assert_eq!(names, [name.clone(), of_manifest.clone()]);
    let wanted = [&of_index, &of_manifest, &of_index, &of_manifest];
    assert!(scene.engine.pulled().iter().eq(wanted));
    scene.shim.stop().await;
}

#[tokio::test]
async fn images_that_are_mounted_are_judged_as_well() {
    let scene = scene!(false);
    let mut names = Vec::new();
    for mark in ["main", "model"] {
        let image = ImageBuilder::busybox().marked(mark).build();
        let name = scene.registry.push(&image, &format!("{mark}:1")).await;
        scene.sign(image.digest(), &name).await;
        let by_digest = format!("{}@{}", repository(&name), image.digest());
        scene.engine.brings(&by_digest, image.id());
        assert_eq!(scene.pull(&name).await.unwrap(), image.id());
        names.push((name, image));
    }
    let [(main, _), (model, image)] = &names[..] else {
        unreachable!()
    };
    let made = scene.create(container(main, Some(model))).await.unwrap();
    let mount = &made["HostConfig"]["Mounts"][0];
    assert_eq!(mount["Source"], image.id(), "{made}");
    scene.remove(model).await;
    // It comes back by other ways.
    scene.engine.brings("free.example/model:1", image.id());
    scene.pull("free.example/model:1").await.expect("pull it");
    let count = scene.engine.created().len();
    for mounted in ["free.example/model:1", image.id()] {
        let free = scene.create(container(main, Some(mounted))).await;
        free.expect("its name is free");
    }
    scene.demand(true);
    let refused = scene.create(container(main, Some(image.id()))).await;
    let refused = refused.unwrap_err();
    assert!(
        refused.message().starts_with("SignatureValidationFailed: ")
            && refused.message().contains("pull it over the CRI"),
        "{refused}"
    );
    assert_eq!(scene.engine.created().len(), count + 2);
    scene.shim.stop().await;
}

#[tokio::test]
async fn an_image_that_was_pulled_before_a_policy_wanted_signatures_is_to_be_pulled_again() {
    let scene = scene!(false);
    scene.demand(false);
    let (image, name) = scene.push("early").await;
    scene.pull(&name).await.expect("pull it");
    scene.demand(true);
    scene.sign(image.digest(), &name).await;
    let refused = scene.create(container(&name, None)).await.unwrap_err();
    let message = refused.message();
    assert!(message.contains("pull it over the CRI"), "{message}");
    scene.pull(&name).await.expect("pull it again");
    let created = scene.create(container(&name, None)).await;
    created.expect("its signature is known");
    scene.shim.stop().await;
}

#[tokio::test]
async fn what_we_cannot_reach_is_pulled_as_it_is_called_only_if_no_signature_matters() {
    let scene = scene!(false);
    let nobody = FaultProxy::alone();
    for host in ["free.example", &scene.registry.host()] {
        ask_at(&scene.scratch.path("certs.d"), host, &nobody.host());
    }
    let image = ImageBuilder::busybox().marked("far").build();
    let name = scene.registry.push(&image, "far:1").await;
    scene.engine.brings(&name, image.id());
    scene.engine.brings("free.example/far:1", image.id());
    let missing = scene.pull(&name).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound, "{missing}");
    assert_eq!(scene.engine.pulled(), [""; 0]);
    let id = scene.pull("free.example/far:1").await.expect("pull it");
    assert_eq!(id, image.id());
    assert_eq!(scene.engine.pulled(), ["free.example/far:1"]);
    assert!(nobody.seen().len() >= 2, "it was asked");
    scene.shim.stop().await;
}
