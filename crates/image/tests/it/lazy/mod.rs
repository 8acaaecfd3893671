//! Layers that come as they are read.

pub(crate) mod scene;
mod turns;

use std::time::Duration;

use orlop_testkit::scratch::mounts_below;
use orlop_testkit::{Chunked, Compression, Cut, ImageBuilder, Layer, skip_unless};

use scene::{Scene, assert_same, can, everything, reopened, unpacked};

/// Files of all kinds, large and small.
fn below() -> Layer {
    Layer::new()
        .owner(3, 4)
        .dir("d", 0o751)
        .xattr("user.mark", b"of d")
        .noise("d/large", 3_000_000)
        .file("d/small", "small", 0o640)
        .file("d/empty", "", 0o600)
        .file("gone", "gone", 0o644)
        .dir("hidden", 0o755)
        .file("hidden/below", "below", 0o644)
        .symlink("link", "d/small")
        .hardlink("hard", "d/small", 0o640)
        .fifo("pipe", 0o620)
        .device("null", 1, 3, 0o666)
        .file("zeros", vec![0; 200_000], 0o644)
}

fn above() -> Layer {
    let mut layer = Layer::new().dir("many", 0o755);
    for index in 0..300 {
        let content = format!("file {index} ").repeat(index * 7);
        layer = layer.file(&format!("many/{index:03}"), content, 0o644);
    }
    layer
        .whiteout("gone")
        .dir("hidden", 0o700)
        .opaque("hidden")
        .file("hidden/above", "above", 0o644)
        .file("d/new", "new", 0o644)
}

fn cut() -> Cut {
    Cut::new().chunk(100_000)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_any_format_is_what_it_is_unpacked() {
    skip_unless!(can());
    for form in Chunked::ALL {
        let shared = match form {
            Chunked::ZstdChunked => cut(),
            _ => cut().member(30_000),
        };
        let built = ImageBuilder::new()
            .cut(below().chunked(form, &cut()))
            .cut(above().chunked(form, &shared))
            .build();
        let scene = Scene::new().await;
        let image = scene.pulled(&built).await;
        let (here, of) = scene.here(&image).await.expect("it comes as it is read");
        assert!(here < of / 2, "{form:?}: {here} of {of} are here");
        let mount = scene.mounted(&image).await;
        let (_place, whole) = unpacked(&scene.registry.reference("app:1")).await;
        let (found, expected) = (everything(&mount).await, everything(&whole).await);
        assert_same(&found, &expected, &format!("{form:?}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_layers_come_as_they_are_read_by_their_soci_index() {
    skip_unless!(can());
    let built = ImageBuilder::new()
        .packed(below(), Compression::Gzip)
        .packed(above(), Compression::Gzip)
        .soci(200_000)
        .build();
    let scene = Scene::new().await;
    let image = scene.pulled(&built).await;
    let (here, of) = scene.here(&image).await.expect("it comes as it is read");
    assert!(here < of / 2, "{here} of {of} are here");
    let mount = scene.mounted(&image).await;
    let (_place, whole) = unpacked(&scene.registry.reference("app:1")).await;
    assert_same(&everything(&mount).await, &everything(&whole).await, "SOCI");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_read_is_fetched() {
    skip_unless!(can());
    let layer = Layer::new()
        .noise("a", 2_000_000)
        .file("b", "wanted", 0o644)
        .noise("c", 2_000_000);
    let built = ImageBuilder::new()
        .cut(layer.chunked(Chunked::EStargz, &cut()))
        .build();
    let scene = Scene::new().await;
    let image = scene.pulled(&built).await;
    let before = scene.place.images.lazy_counts().fetched;
    let mount = scene.mounted(&image).await;
    assert_eq!(scene.reads(&mount, "b").await.unwrap(), b"wanted");
    let fetched = scene.place.images.lazy_counts().fetched - before;
    assert!(
        (6..600_000).contains(&fetched),
        "{fetched} bytes were fetched"
    );
    let (here, of) = scene.here(&image).await.expect("most of it is not here");
    assert!(here < of / 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wanted_first_comes_at_once() {
    skip_unless!(can());
    let layer = Layer::new()
        .noise("a", 2_000_000)
        .noise("first", 500_000)
        .noise("z", 2_000_000);
    let built = ImageBuilder::new()
        .cut(layer.chunked(Chunked::EStargz, &cut().first(&["first"])))
        .build();
    let scene = Scene::new().await;
    let image = scene.pulled(&built).await;
    let came = || scene.place.images.lazy_counts().fetched;
    crate::support::until("the first file came", || came() >= 500_000).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let fetched = came();
    assert!(fetched < 1_000_000, "{fetched} bytes were fetched");
    let mount = scene.mounted(&image).await;
    scene.reads(&mount, "first").await.unwrap();
    assert_eq!(came(), fetched, "it was here");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_that_is_whole_is_an_ordinary_one() {
    skip_unless!(can());
    let built = ImageBuilder::new()
        .cut(below().chunked(Chunked::ZstdChunked, &cut()))
        .build();
    let mut scene = Scene::with(|config| config.lazy.cache = 0).await;
    let image = scene.pulled(&built).await;
    // Mounted while it comes, and the same mount afterwards.
    let early = scene.mounted(&image).await;
    let before = everything(&early).await;
    scene.until_whole(&image).await;
    let layer = scene.layers(&image).remove(0);
    assert!(layer.join("fs.erofs").exists());
    assert_same(&everything(&early).await, &before, "mounted early");
    let late = scene.mounted(&image).await;
    assert_same(&everything(&late).await, &before, "mounted late");
    drop((early, late));
    // Nobody serves it any more.
    reopened(&mut scene).await;
    crate::support::until("the server ends", || scene.guard.servers().is_empty()).await;
    scene.registry.freeze();
    let mount = scene.mounted(&image).await;
    assert_same(&everything(&mount).await, &before, "after a restart");
    scene.registry.thaw();
    let verified = scene.place.images.verify(false).await.unwrap();
    assert_eq!((verified.sound, verified.broken.len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_reads_on_while_the_daemon_is_gone_and_the_next_one_goes_on() {
    skip_unless!(can());
    let built = ImageBuilder::new()
        .cut(below().chunked(Chunked::EStargz, &cut()))
        .build();
    let mut scene = Scene::new().await;
    let image = scene.pulled(&built).await;
    let images = &scene.place.images;
    images.lease("container", &image.id).await.unwrap();
    let mount = scene.mounted(&image).await;
    assert_eq!(scene.reads(&mount, "d/small").await.unwrap(), b"small");
    let servers = scene.guard.servers();
    assert_eq!(servers.len(), 1);
    reopened(&mut scene).await;
    assert_eq!(scene.guard.servers(), servers, "it outlives the daemon");
    let large = scene.reads(&mount, "d/large").await.unwrap();
    assert_eq!(large.len(), 3_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_is_fetched_for_who_asks_for_it() {
    skip_unless!(can());
    let built = ImageBuilder::new()
        .cut(below().chunked(Chunked::EStargz, &cut()))
        .cut(above().chunked(Chunked::StargzZstd, &cut()))
        .build();
    let scene = Scene::new().await;
    let image = scene.pulled(&built).await;
    scene.place.images.fetch_rest(&image.id).await.unwrap();
    scene.until_whole(&image).await;
    for layer in scene.layers(&image) {
        assert!(layer.join("fs.erofs").exists(), "{}", layer.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_goes_takes_all_of_it_along() {
    skip_unless!(can());
    let built = ImageBuilder::new()
        .cut(below().chunked(Chunked::EStargz, &cut()))
        .build();
    let scene = Scene::new().await;
    let image = scene.pulled(&built).await;
    drop(scene.mounted(&image).await);
    let images = &scene.place.images;
    images.remove(&image.id.to_string()).await.unwrap();
    assert_eq!(scene.place.layer_dirs(), 0);
    let mounts = scene.place.config.root.join("mounts");
    assert_eq!(mounts_below(&mounts).len(), 0);
    assert!(
        scene.place.entries("lazy").is_empty(),
        "it is served no more"
    );
    images.close().await;
    crate::support::until("the server ends", || scene.guard.servers().is_empty()).await;
}
