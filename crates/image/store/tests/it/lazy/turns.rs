//! What nobody reads, and those who read.

use std::time::Duration;

use orlop_testkit::{Chunked, Cut, ImageBuilder, LargeTree, Layer, skip_unless};

use super::scene::{Scene, can};

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_file_by_file_does_not_find_the_line_taken() {
    skip_unless!(can());
    let tree = LargeTree::new(600, 6, 48 << 20);
    let built = ImageBuilder::new()
        .cut(tree.chunked(Chunked::EStargz, &Cut::new()))
        .build();
    let scene = Scene::with(|config| config.lazy.cache = 0).await;
    scene.proxy.bandwidth(Some(16 << 20));
    let image = scene.pulled(&built).await;
    let mount = scene.mounted(&image).await;
    let sent = || scene.proxy.sent_of(&built.layers[0].digest);
    let before = sent();
    for file in 0..20 {
        let path = tree.path(file * 30);
        let content = scene.reads(&mount, &path).await.unwrap();
        assert!(content == tree.content(file * 30), "{path}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let sent = sent() - before;
    // Of the files, and what was begun before the first was read.
    assert!(sent < 10 << 20, "{sent} bytes came meanwhile");
    scene.proxy.bandwidth(None);
    scene.until_whole(&image).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_reads_comes_when_there_is_room_again() {
    skip_unless!(can());
    let scene = Scene::with(|config| config.lazy.cache = 1 << 20).await;
    let mut images = Vec::new();
    for (name, bytes) in [("large", 3_000_000), ("small", 400_000)] {
        let layer = Layer::new().noise(name, bytes).noise("unread", 2_000_000);
        let built = ImageBuilder::new()
            .cut(layer.chunked(Chunked::EStargz, &Cut::new().chunk(100_000)))
            .build();
        let name = format!("{name}:1");
        // What is large takes all the room before the other comes.
        scene.registry.push(&built, &name).await;
        let image = scene.pull(&name).await.expect("pull the image");
        if images.is_empty() {
            let mount = scene.mounted(&image).await;
            scene.reads(&mount, "large").await.unwrap();
        }
        images.push(image);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(scene.here(&images[1]).await.is_some(), "there was no room");
    let large = images[0].id.to_string();
    scene.place.images.remove(&large).await.unwrap();
    scene.until_whole(&images[1]).await;
}
