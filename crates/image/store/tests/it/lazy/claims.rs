//! Images that claim to be another, by whose configuration they would be known, while nobody has hashed their layers.

use orlop_image_store::{Error, PullRequest};
use orlop_testkit::image::digest;
use orlop_testkit::{BuiltImage, Chunked, ImageBuilder, Layer, skip_unless};
use serde_json::Value;

use super::cut;
use super::scene::{Scene, can};

fn image(content: &str) -> BuiltImage {
    let layer = Layer::new()
        .file("app", content, 0o755)
        .noise("rest", 3_000_000);
    ImageBuilder::new()
        .cut(layer.chunked(Chunked::EStargz, &cut()))
        .build()
}

/// The layers of one image with the configuration of another.
fn claim(layers: &BuiltImage, config: &BuiltImage) -> BuiltImage {
    let mut claim = layers.clone();
    claim.config = config.config.clone();
    let mut manifest: Value = serde_json::from_slice(&claim.top.bytes).expect("JSON");
    manifest["config"] = claim.config.descriptor();
    claim.top.bytes = manifest.to_string().into_bytes();
    claim.top.digest = digest(&claim.top.bytes);
    claim
}

/// A registry with an image, `honest:1`, and one with its configuration and other layers, `lie:1`.
async fn scene() -> (Scene, BuiltImage) {
    let (honest, other) = (image("honest"), image("evil"));
    let scene = Scene::new().await;
    scene.registry.push(&honest, "honest:1").await;
    let lie = claim(&other, &honest);
    scene.registry.push(&lie, "lie:1").await;
    (scene, honest)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_with_the_configuration_of_another_does_not_take_its_place() {
    skip_unless!(can());
    for is_first in [false, true] {
        let (scene, honest) = scene().await;
        let lied = if is_first {
            let lied = scene.pull("lie:1").await.expect("nothing else is known");
            let mount = scene.mounted(&lied).await;
            assert_eq!(scene.reads(&mount, "app").await.unwrap(), b"evil");
            Some(lied)
        } else {
            None
        };
        let pulled = scene.pull("honest:1").await.expect("pull");
        assert_eq!(pulled.id.to_string(), honest.id());
        // Two that differ are not believed before one of them has been hashed.
        assert_eq!(scene.here(&pulled).await.is_none(), is_first);
        let again = scene.pull("lie:1").await;
        if is_first {
            // All of what it names is here, and that is the honest one's.
            assert_eq!(lied.expect("pulled").id, again.expect("pull").id);
        } else {
            let error = again.expect_err("it is hashed now").to_string();
            assert!(error.contains("expected"), "{error}");
        }
        let mount = scene.mounted(&pulled).await;
        assert_eq!(scene.reads(&mount, "app").await.unwrap(), b"honest");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_claim_to_be_one_at_the_same_time_the_first_stays() {
    skip_unless!(can());
    let (scene, _) = scene().await;
    let (one, two) = tokio::join!(scene.pull("honest:1"), scene.pull("lie:1"));
    let content: &[u8] = match (&one, &two) {
        (Err(_), Ok(_)) => b"evil",
        // Where both came, one had come before the other was looked at.
        (Ok(_), _) => b"honest",
        (Err(one), Err(two)) => panic!("{one}; {two}"),
    };
    let image = one.or(two).expect("one of them");
    let mount = scene.mounted(&image).await;
    assert_eq!(scene.reads(&mount, "app").await.unwrap(), content);
    // Whoever asks again gets what it names, or an error.
    let pulled = scene.pull("honest:1").await.expect("pull");
    let mount = scene.mounted(&pulled).await;
    assert_eq!(scene.reads(&mount, "app").await.unwrap(), b"honest");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_for_guests_lends_nothing_to_what_was_not_hashed() {
    skip_unless!(can());
    for is_first in [false, true] {
        let (scene, _) = scene().await;
        let guests = PullRequest {
            reference: scene.proxy.reference("honest:1"),
            handler: "kata".to_owned(),
            ..PullRequest::default()
        };
        if is_first {
            scene.place.images.pull(guests).await.expect("pull");
            let error = scene.pull("lie:1").await.expect_err("it is hashed");
            let error = error.to_string();
            assert!(error.contains("expected"), "{error}");
        } else {
            scene.pull("lie:1").await.expect("nothing else is known");
            let error = scene.place.images.pull(guests).await.unwrap_err();
            let error = error.to_string();
            assert!(error.contains("pull this image again"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_judged_is_what_is_held_and_mounted() {
    skip_unless!(can());
    let (scene, _) = scene().await;
    let images = &scene.place.images;
    let lied = scene.pull("lie:1").await.expect("nothing else is known");
    images.lease("before", &lied).await.expect("lease");
    let honest = scene.pull("honest:1").await.expect("pull");
    assert_eq!(honest.id, lied.id);
    for refused in [
        images.lease("after", &lied).await.unwrap_err(),
        images.layers_of(&lied).await.unwrap_err(),
    ] {
        assert!(
            matches!(refused, Error::Changed(id) if id == lied.id),
            "{refused}"
        );
    }
    images.lease("after", &honest).await.expect("lease");
    for (owner, content) in [("before", &b"evil"[..]), ("after", b"honest")] {
        let mount = images.mount_held(owner, None).await.expect("mount");
        assert_eq!(
            scene.reads(&mount, "app").await.unwrap(),
            content,
            "{owner}"
        );
    }
    images.remove(&honest.id.to_string()).await.expect("remove");
    let refused = images.lease("late", &honest).await.unwrap_err();
    assert!(matches!(refused, Error::NotFound(_)), "{refused}");
    let mount = images.mount_held("after", None).await.expect("mount");
    assert_eq!(scene.reads(&mount, "app").await.unwrap(), b"honest");
    let refused = images.mount_held("nobody", None).await.unwrap_err();
    assert!(matches!(refused, Error::NotFound(_)), "{refused}");
}
