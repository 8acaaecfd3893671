//! What one image may bring, whatever its layers are.

use orlop_image_store::Error;
use orlop_testkit::{ImageBuilder, Layer, Registry};

use crate::support::Place;

const LIMIT: u64 = 1 << 20;

async fn limited() -> Place {
    Place::with(|config| config.limits.image_bytes = LIMIT).await
}

#[track_caller]
fn names_image_limit_and_key(error: &Error, image: &str) {
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
    let text = error.to_string();
    for part in [image, "1048576 bytes", "images.max_size"] {
        assert!(text.contains(part), "no {part:?} in {text:?}");
    }
}

#[tokio::test]
async fn an_image_beyond_its_size_is_refused_by_name_before_and_while_it_comes() {
    let registry = Registry::start();
    let place = limited().await;
    // None of the layers is too large, all of them together are.
    let mut noise = ImageBuilder::new();
    let mut zeros = ImageBuilder::new();
    for n in 0..4 {
        noise = noise.layer(Layer::new().noise(&format!("f{n}"), 300_000));
        let content = "x".repeat(300_000);
        zeros = zeros.layer(Layer::new().file(&format!("f{n}"), &content, 0o644));
    }
    registry.push(&noise.build(), "announced:1").await;
    let name = registry.reference("announced:1");
    let error = place.pull(&name).await.unwrap_err();
    names_image_limit_and_key(&error, "announced:1");
    let told = error.to_string();
    assert!(told.contains("(12"), "{told}");
    assert_eq!(place.layer_dirs(), 0, "a layer was fetched");

    registry.push(&zeros.build(), "unpacked:1").await;
    let name = registry.reference("unpacked:1");
    // What an earlier try has brought counts for the next ones as well.
    for _ in 0..6 {
        let error = place.pull(&name).await.unwrap_err();
        names_image_limit_and_key(&error, "unpacked:1");
    }
    place.sweep().await;
}

#[tokio::test]
async fn an_image_within_its_size_is_pulled_as_often_as_one_likes() {
    let registry = Registry::start();
    let place = limited().await;
    let built = ImageBuilder::new()
        .layer(Layer::new().noise("f", 300_000))
        .layer(Layer::new().noise("g", 200_000))
        .build();
    registry.push(&built, "fits:1").await;
    for _ in 0..3 {
        let name = registry.reference("fits:1");
        place.pull(&name).await.unwrap();
    }
}
