//! Runs on orlop alone.

use super::*;
use crate::world::ours;

#[tokio::test]
async fn streamed_images_are_those_that_are_listed() {
    // containerd 1.6 has no such call.
    let world = ours!();
    for n in 0..3 {
        let image = ImageBuilder::new().marked(&n.to_string()).build();
        world.image(&image, &format!("streamed{n}:1")).await;
    }
    let request = ListImagesRequest::default();
    let listed = world.cri.images().list_images(request).await;
    let mut stream = world
        .cri
        .images()
        .stream_images(StreamImagesRequest::default())
        .await
        .expect("stream")
        .into_inner();
    let mut streamed = Vec::new();
    while let Some(part) = stream.message().await.expect("a part") {
        streamed.extend(part.images);
    }
    assert_eq!(streamed, listed.expect("list").into_inner().images);
    assert_eq!(streamed.len(), 4, "busybox is the fourth");
    world.finish().await;
}

#[tokio::test]
async fn an_image_is_a_volume_and_fails_in_the_kubelet_s_words() {
    // containerd 1.6 has no image volumes.
    let world = ours!();
    let data = ImageBuilder::new()
        .layer(Layer::new().dir("d", 0o755).file("d/f", "cargo", 0o644))
        .build();
    let name = world.image(&data, "data:1").await;
    let with = |below: &str| {
        let mount = Mount {
            container_path: "/hold".to_owned(),
            readonly: true,
            image: Some(ImageSpec {
                image: name.clone(),
                ..ImageSpec::default()
            }),
            image_sub_path: below.to_owned(),
            ..Mount::default()
        };
        world
            .container("main")
            .shell("cat /hold/f; touch /hold/x 2> /dev/null || echo read-only")
            .with(|config| config.mounts.push(mount))
    };
    let (code, text) = world.output("volume", &with("d")).await;
    assert_eq!((code, text.as_str()), (0, "cargoread-only\n"));
    let pod = world.node.pod("none");
    let pod_id = world.run_pod(&pod).await;
    let created = world.cri.create(&pod_id, &pod, &with("nowhere")).await;
    let error = created.expect_err("there is no such directory");
    assert!(
        error.message().starts_with("ImageVolumeMountFailed: "),
        "{error}"
    );
    world.finish().await;
}

#[tokio::test]
async fn the_image_file_system_is_reported() {
    // containerd counts used bytes every ten seconds only.
    let world = ours!();
    let info = || async {
        let request = ImageFsInfoRequest::default();
        let answer = world.cri.images().image_fs_info(request).await;
        let answer = answer.expect("info");
        let mut systems = answer.into_inner().image_filesystems;
        assert_eq!(systems.len(), 1);
        systems.remove(0)
    };
    let before = info().await;
    let mountpoint = before.fs_id.expect("an id").mountpoint;
    assert!(
        std::path::Path::new(&mountpoint).is_dir(),
        "{mountpoint} is no directory"
    );
    let size = 3 << 20;
    let image = ImageBuilder::new()
        .layer(Layer::new().noise("noise", size))
        .build();
    world.image(&image, "noise:1").await;
    let used = |system: Option<orlop_cri_api::v1::UInt64Value>| system.expect("a number").value;
    let (old, new) = (used(before.used_bytes), used(info().await.used_bytes));
    assert!(
        new >= old + size as u64,
        "3 MiB more, yet {old} became {new}"
    );
    world.finish().await;
}
