//! What CRI says of images: names, ids, lists, removal.

use orlop_cri_api::v1::{
    ImageFsInfoRequest, ImageSpec, ImageStatusRequest, ListImagesRequest, Mount,
    StreamImagesRequest,
};
use orlop_testkit::{Compression, Format, ImageBuilder, Layer};
use serde_json::json;
use tonic::Code;

use crate::world::world;

mod ours;

#[tokio::test]
async fn every_kind_of_image_is_pulled_and_named_right() {
    let world = world!();
    for format in [Format::Oci, Format::Docker] {
        for index in [false, true] {
            let kind = format!("{format:?}{}", if index { "-index" } else { "" }).to_lowercase();
            let mut builder = ImageBuilder::new().format(format).marked(&kind);
            let mut kinds = vec![Compression::Gzip, Compression::Plain];
            // containerd 1.6 knows no Zstandard layer with Docker's media types.
            if format == Format::Oci || !world.node.is_peer() {
                kinds.push(Compression::Zstd);
            }
            for how in kinds {
                let layer = Layer::new().file(&format!("{how:?}"), &kind, 0o644);
                builder = builder.packed(layer, how);
            }
            if index {
                builder = builder.index();
            }
            let image = builder.build();
            let name = format!("deep/path/{kind}:1.0");
            let reference = world.registry.push(&image, &name).await;
            let pulled = world
                .cri
                .pull(&reference)
                .await
                .unwrap_or_else(|e| panic!("{kind}: {e}"));
            assert_eq!(pulled, image.id(), "{kind}");
            let known = world.cri.known_image(&reference).await;
            assert_eq!(known.id, image.id(), "{kind}");
            assert_eq!(known.repo_tags, [reference.as_str()], "{kind}");
            let by_digest = format!("{}@{}", reference.trim_end_matches(":1.0"), image.digest());
            assert_eq!(known.repo_digests, [by_digest], "{kind}");
            assert!(known.size > 0, "{kind}");
            let by_id = world
                .cri
                .image(image.id())
                .await
                .expect("status")
                .expect("is there");
            assert_eq!(by_id.id, known.id, "{kind}");
        }
    }
    world.finish().await;
}

#[tokio::test]
async fn a_verbose_status_tells_configuration_chain_and_layers() {
    let world = world!();
    let image = ImageBuilder::new()
        .layer(Layer::new().file("a", "1", 0o644))
        .layer(Layer::new().file("b", "2", 0o644))
        .config("WorkingDir", json!("/there"))
        .build();
    let name = world.image(&image, "verbose:1").await;
    let request = ImageStatusRequest {
        image: Some(ImageSpec {
            image: name,
            ..ImageSpec::default()
        }),
        verbose: true,
    };
    let answer = world.cri.images().image_status(request).await;
    let answer = answer.expect("status").into_inner();
    let info: serde_json::Value = serde_json::from_str(&answer.info["info"]).expect("JSON");
    let [low, high] = [0, 1].map(|n| orlop_testkit::image::digest(&image.tars[n]));
    let chain = orlop_testkit::image::digest(format!("{low} {high}").as_bytes());
    assert_eq!(info["chainID"], json!(chain));
    assert_eq!(info["imageSpec"]["config"]["WorkingDir"], json!("/there"));
    if !world.node.is_peer() {
        assert_eq!(info["layers"].as_array().expect("layers").len(), 2);
        assert_eq!(info["size"], json!(answer.image.expect("is there").size));
    }
    world.finish().await;
}

#[tokio::test]
async fn an_unknown_image_has_no_status_and_no_pull() {
    let world = world!();
    let reference = world.registry.reference("nobody/knows:1");
    assert_eq!(world.cri.image(&reference).await.expect("no error"), None);
    let error = world.cri.pull(&reference).await;
    let error = error.expect_err("there is no such image");
    assert_eq!(error.code(), Code::NotFound, "{error}");
    assert!(error.message().contains("nobody/knows"), "{error}");
    let refused = world.cri.remove_image(&reference).await;
    refused.expect("removing what isn't there is no error");
    world.finish().await;
}

#[tokio::test]
async fn an_image_pulled_by_digest_has_no_tag() {
    let world = world!();
    let image = ImageBuilder::new().marked("by digest").build();
    world.registry.push(&image, "digested:7").await;
    let reference = world
        .registry
        .reference(&format!("digested@{}", image.digest()));
    world.cri.pull(&reference).await.expect("pull");
    let known = world.cri.known_image(&reference).await;
    assert_eq!(known.repo_digests, [reference]);
    assert_eq!(known.repo_tags, [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn removing_one_name_removes_the_image() {
    let world = world!();
    let image = ImageBuilder::new().marked("many names").build();
    let mut names = Vec::new();
    for tag in ["1", "2", "3"] {
        names.push(world.image(&image, &format!("tagged:{tag}")).await);
    }
    let known = world.cri.known_image(&names[0]).await;
    let mut tags = known.repo_tags;
    tags.sort();
    assert_eq!(tags, names);
    world.cri.remove_image(&names[1]).await.expect("remove");
    for name in &names {
        assert_eq!(
            world.cri.image(name).await.expect("no error"),
            None,
            "{name}"
        );
    }
    let done = world.cri.remove_image(&names[1]).await;
    done.expect("remove again");
    world.finish().await;
}

#[tokio::test]
async fn the_list_has_each_image_once() {
    let world = world!();
    let image = ImageBuilder::new().marked("listed").build();
    let one = world.image(&image, "listed:1").await;
    world.image(&image, "listed-elsewhere:1").await;
    let mut client = world.cri.images();
    let all = client
        .list_images(ListImagesRequest::default())
        .await
        .expect("list")
        .into_inner();
    let same: Vec<_> = all
        .images
        .iter()
        .filter(|listed| listed.id == image.id())
        .collect();
    assert_eq!(same.len(), 1, "{all:?}");
    assert_eq!(same[0].repo_tags.len(), 2);
    assert!(all.images.len() >= 2, "busybox is missing: {all:?}");
    // containerd 1.6 ignores the filter.
    if !world.node.is_peer() {
        let filter = orlop_cri_api::v1::ImageFilter {
            image: Some(orlop_cri_api::v1::ImageSpec {
                image: one.clone(),
                ..Default::default()
            }),
        };
        let request = ListImagesRequest {
            filter: Some(filter),
        };
        let some = client
            .list_images(request)
            .await
            .expect("list")
            .into_inner();
        assert_eq!(some.images.len(), 1, "{some:?}");
        assert!(some.images[0].repo_tags.contains(&one));
    }
    world.finish().await;
}

#[tokio::test]
async fn the_user_of_an_image_is_told() {
    let world = world!();
    for (user, uid, name) in [
        ("1002", Some(1002), ""),
        ("sailor", None, "sailor"),
        ("1003:2000", Some(1003), ""),
        ("sailor:deck", None, "sailor"),
    ] {
        let image = ImageBuilder::new().config("User", json!(user)).build();
        let reference = world
            .image(&image, &format!("user:{}", user.replace(':', "-")))
            .await;
        let known = world.cri.known_image(&reference).await;
        assert_eq!(known.uid.map(|uid| uid.value), uid, "{user}");
        assert_eq!(known.username, name, "{user}");
    }
    world.finish().await;
}

#[tokio::test]
async fn layers_cover_one_another_as_the_standard_says() {
    let world = world!();
    let base = Layer::busybox()
        .dir("data", 0o755)
        .file("data/kept", "old", 0o644)
        .file("data/gone", "old", 0o644)
        .file("data/changed", "old", 0o644)
        .dir("data/dir", 0o755)
        .file("data/dir/hidden", "old", 0o644);
    let top = Layer::new()
        .dir("data", 0o755)
        .whiteout("data/gone")
        .file("data/changed", "new", 0o600)
        .dir("data/dir", 0o755)
        .opaque("data/dir")
        .file("data/dir/fresh", "new", 0o644)
        .hardlink("data/dir/again", "data/dir/fresh", 0o644)
        .symlink("data/link", "changed")
        .owner(1000, 2000)
        .file("data/owned", "new", 0o4755);
    let image = ImageBuilder::new()
        .layer(base)
        .packed(top, Compression::Zstd)
        .build();
    let reference = world.image(&image, "layers:1").await;
    let script = "cd /data && ls . dir && cat kept changed link && \
        stat -c '%n %a %u:%g %h' changed owned dir/fresh";
    let spec = orlop_testkit::ContainerSpec::new("main", &reference).shell(script);
    let (code, output) = world.output("layers", &spec).await;
    let expected = ".:\nchanged\ndir\nkept\nlink\nowned\n\ndir:\nagain\nfresh\noldnewnew\
         changed 600 0:0 1\nowned 4755 1000:2000 1\ndir/fresh 644 0:0 2\n";
    assert_eq!((code, output.as_str()), (0, expected));
    world.finish().await;
}
