//! Layers that come as they are read.

mod claims;
pub(crate) mod scene;
mod turns;

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use orlop_image_store::ExportFormat;
use orlop_testkit::image::ChunkedLayer;
use orlop_testkit::scratch::mounts_below;
use orlop_testkit::{BuiltImage, Chunked, Compression, Cut, ImageBuilder, Layer, skip_unless};

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

/// An image of the lower one alone.
fn one_layer(form: Chunked) -> BuiltImage {
    let layer = below().chunked(form, &cut());
    ImageBuilder::new().cut(layer).build()
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
    // The kernel reads ahead, behind the file.
    let more = came() - fetched;
    assert!(more < 300_000, "it was here, and {more} bytes were fetched");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_that_is_whole_is_an_ordinary_one() {
    skip_unless!(can());
    let built = one_layer(Chunked::ZstdChunked);
    let mut scene = Scene::with(|config| config.lazy.cache = 0).await;
    let image = scene.pulled(&built).await;
    // Mounted while it comes, and the same mount afterwards.
    let early = scene.mounted(&image).await;
    let before = everything(&early).await;
    scene.until_whole(&image).await;
    scene.until_ordinary(&image).await;
    assert_same(&everything(&early).await, &before, "mounted early");
    let late = scene.mounted(&image).await;
    assert_same(&everything(&late).await, &before, "mounted late");
    drop((early, late));
    // Nobody serves it any more.
    crate::support::until("its file system goes", || !scene.is_served()).await;
    reopened(&mut scene).await;
    assert!(!scene.is_served());
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
    let built = one_layer(Chunked::EStargz);
    let mut scene = Scene::new().await;
    let image = scene.pulled(&built).await;
    let images = &scene.place.images;
    images.lease("container", &image).await.unwrap();
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
    scene.until_ordinary(&image).await;
    let (_place, whole) = unpacked(&scene.registry.reference("app:1")).await;
    scene.proxy.leave();
    let mount = scene.mounted(&image).await;
    let (found, expected) = (everything(&mount).await, everything(&whole).await);
    assert_same(&found, &expected, "with the rest");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_goes_takes_all_of_it_along() {
    skip_unless!(can());
    let built = one_layer(Chunked::EStargz);
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
    assert!(!scene.is_served());
}

/// Programs, links, capabilities and settings of a system that is not ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_distribution_is_what_it_is_unpacked() {
    skip_unless!(can());
    let options = "--xattrs --xattrs-include=* --sort=name -C / -cf -";
    let on_the_way = "--no-recursion usr usr/share usr/lib --recursion";
    let trees = [
        "usr/sbin",
        "usr/share/perl5",
        "usr/share/zoneinfo",
        "usr/lib/apt",
    ];
    let root = std::path::Path::new("/");
    let trees = trees.into_iter().filter(|tree| root.join(tree).exists());
    let words = [options, on_the_way]
        .into_iter()
        .flat_map(|it| it.split(' '));
    let archive = std::process::Command::new("tar")
        .args(words.chain(trees))
        .output();
    let archive = archive.expect("run tar");
    let said = String::from_utf8_lossy(&archive.stderr);
    assert!(archive.status.success(), "{said}");
    for form in [Chunked::EStargz, Chunked::ZstdChunked] {
        let layer = ChunkedLayer::of(&archive.stdout, form, &Cut::new());
        let built = ImageBuilder::new().cut(layer).build();
        let scene = Scene::new().await;
        let image = scene.pulled(&built).await;
        let mount = scene.mounted(&image).await;
        let (_place, whole) = unpacked(&scene.registry.reference("app:1")).await;
        let (found, expected) = (everything(&mount).await, everything(&whole).await);
        assert!(expected.len() > 300, "{}", expected.len());
        assert_same(&found, &expected, &format!("{form:?}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_on_the_disk_is_found_and_fetched_again() {
    skip_unless!(can());
    let built = ImageBuilder::new()
        .cut(
            below()
                .noise("unread", 2_000_000)
                .chunked(Chunked::EStargz, &cut()),
        )
        .build();
    let scene = Scene::new().await;
    let image = scene.pulled(&built).await;
    let mount = scene.mounted(&image).await;
    let large = scene.reads(&mount, "d/large").await.unwrap();
    drop(mount);
    let verify = async |repair| scene.place.images.verify(repair).await.unwrap();
    assert_eq!(verify(false).await.broken, []);
    let file = scene.layers(&image).remove(0).join("image");
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(64).position(|window| window == &large[..64]);
    bytes[at.expect("it is here")] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let broken = verify(true).await.broken;
    assert_eq!(broken.len(), 1);
    assert!(
        broken[0].repaired && broken[0].reason.contains("chunk"),
        "{broken:?}"
    );
    let mount = scene.mounted(&image).await;
    assert!(scene.reads(&mount, "d/large").await.unwrap() == large);
    assert_eq!(verify(false).await.broken, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_came_bit_by_bit_is_exported_by_its_archives() {
    skip_unless!(can());
    let built = one_layer(Chunked::EStargz);
    let scene = Scene::new().await;
    let image = scene.pulled(&built).await;
    let archive = scene.place.scratch.path("archive");
    let out = std::fs::File::create(&archive).unwrap();
    let name = scene.proxy.reference("app:1");
    let images = &scene.place.images;
    let done = images.export(&[&name], ExportFormat::OciLayout, out).await;
    done.unwrap();
    assert_eq!(
        scene.here(&image).await,
        None,
        "its layers are ordinary ones now"
    );
    let other = crate::support::Place::open().await;
    let imported = other.import_archive(&archive).await;
    assert_eq!(imported.unwrap()[0].id, image.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_that_a_layer_does_not_describe_look_as_below() {
    skip_unless!(can());
    let below = Layer::new()
        .owner(5, 6)
        .dir("d", 0o750)
        .file("d/below", "below", 0o644);
    let above = Layer::new()
        .file("d/above", "above", 0o644)
        .file("own/file", "own", 0o644);
    let built = ImageBuilder::new()
        .cut(below.chunked(Chunked::EStargz, &cut()))
        .cut(above.chunked(Chunked::EStargz, &cut()))
        .build();
    let scene = Scene::new().await;
    let image = scene.pulled(&built).await;
    let mount = scene.mounted(&image).await;
    let look = std::fs::metadata(crate::support::inside(&mount, "d")).unwrap();
    assert_eq!((look.uid(), look.gid(), look.mode() & 0o777), (5, 6, 0o750));
    assert_eq!(scene.reads(&mount, "d/above").await.unwrap(), b"above");
    assert_eq!(scene.reads(&mount, "own/file").await.unwrap(), b"own");
    // Pulled anew, it is what is here.
    let again = scene.pull("app:1").await.unwrap();
    assert_eq!(again.id, image.id);
    assert_eq!(scene.place.layer_dirs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_contents_that_changes_on_the_disk_is_fetched_again() {
    skip_unless!(can());
    let built = one_layer(Chunked::EStargz);
    for at in [20, 1000] {
        let mut scene = Scene::new().await;
        let image = scene.pulled(&built).await;
        let toc = scene.layers(&image).remove(0).join("toc");
        let mut bytes = std::fs::read(&toc).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&toc, bytes).unwrap();
        reopened(&mut scene).await;
        let mount = scene.mounted(&image).await;
        let large = scene.reads(&mount, "d/large").await.unwrap();
        assert_eq!(large.len(), 3_000_000, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_while_the_last_of_a_layer_comes_reads_it() {
    skip_unless!(can());
    let mut layer = Layer::new();
    for index in 0..40 {
        layer = layer.noise(&format!("{index}"), 50_000);
    }
    let built = ImageBuilder::new()
        .cut(layer.chunked(Chunked::EStargz, &cut()))
        .build();
    for round in 0..8 {
        let scene = Scene::with(|config| config.lazy.cache = 0).await;
        let image = scene.pulled(&built).await;
        let mount = scene.mounted(&image).await;
        let reads = (0..40).rev().map(async |index| {
            let read = scene.reads(&mount, &index.to_string()).await;
            assert_eq!(read.unwrap().len(), 50_000, "{round}: {index}");
        });
        futures_util::future::join_all(reads).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_that_was_read_to_its_end_is_an_ordinary_one_too() {
    skip_unless!(can());
    let layer = Layer::new().noise("a", 300_000).noise("b", 300_000);
    let built = ImageBuilder::new()
        .cut(layer.chunked(Chunked::EStargz, &cut()))
        .build();
    // Nothing comes that nobody reads.
    let scene = Scene::new().await;
    let image = scene.pulled(&built).await;
    let mount = scene.mounted(&image).await;
    for file in ["a", "b"] {
        scene.reads(&mount, file).await.unwrap();
    }
    scene.until_whole(&image).await;
    scene.until_ordinary(&image).await;
}
