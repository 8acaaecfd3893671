//! Images whose layers are file systems already.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use orlop_erofs::{Attributes, Options};
use orlop_image_store::{Error, ExportFormat, Image};
use orlop_testkit::{ImageBuilder, Layer, Registry, Scratch, assert_contains};

use crate::support::{Place, content, inside};

const TYPES: [&str; 4] = [
    "application/vnd.erofs.layer.v1",
    "application/vnd.erofs.layer.v1+zstd",
    "application/vnd.erofs",
    "application/vnd.oci.image.layer.v1.erofs",
];

/// An image with these entries.
fn erofs(put: impl FnOnce(&mut orlop_erofs::Image)) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut image = orlop_erofs::Image::create(file.reopen().unwrap(), Options::default()).unwrap();
    put(&mut image);
    image.finish().unwrap();
    std::fs::read(file.path()).unwrap()
}

fn look() -> Attributes {
    Attributes {
        mode: 0o640,
        uid: 7,
        gid: 8,
        ..Attributes::default()
    }
}

fn put(image: &mut orlop_erofs::Image, path: &[&[u8]], content: &[u8]) {
    let mut file = image.file(path, look(), content.len() as u64).unwrap();
    file.write_at(0, content).unwrap();
    file.finish().unwrap();
}

fn honest() -> Vec<u8> {
    erofs(|image| {
        put(image, &[b"f"], b"published");
        put(image, &[b"large"], &vec![5; 300_000]);
        let nobody = Attributes::default();
        let kind = orlop_erofs::Kind::Character;
        image.device(&[b"gone"], &nobody, kind, (0, 0)).unwrap();
    })
}

fn below() -> Layer {
    Layer::new()
        .file("gone", "gone", 0o644)
        .file("stays", "stays", 0o644)
}

/// A store that has pulled an image, which is mounted.
async fn mounted(built: ImageBuilder) -> (Place, Image, OwnedFd) {
    let registry = Registry::start();
    registry.push(&built.build(), "app:1").await;
    let place = Place::open().await;
    let name = registry.reference("app:1");
    let image = place.pull(&name).await.unwrap();
    let mount = place.images.mount_read_only(&image.id).await.unwrap();
    (place, image, mount)
}

#[tokio::test]
async fn layers_of_erofs_are_taken_as_they_are() {
    for media_type in TYPES {
        let built = ImageBuilder::new()
            .layer(below())
            .erofs(honest(), media_type);
        let (place, image, mount) = mounted(built).await;
        assert_eq!(content(&mount, "f"), "published", "{media_type}");
        assert_eq!(content(&mount, "stays"), "stays");
        assert!(!inside(&mount, "gone").exists(), "{media_type}");
        let facts = std::fs::metadata(inside(&mount, "f")).unwrap();
        assert_eq!(
            (facts.uid(), facts.gid(), facts.mode() & 0o777),
            (7, 8, 0o640)
        );
        let verified = place.images.verify(false).await.unwrap();
        assert_eq!((verified.sound, verified.unchecked), (2, 0));
        // What is there is the very file.
        let dirs = place.images.layer_dirs(&image.id).unwrap();
        let name = dirs[0].file_name().unwrap();
        let file = place.config.root.join("layers").join(name).join("fs.erofs");
        assert!(std::fs::read(&file).unwrap() == honest());
    }
}

#[tokio::test]
async fn what_mkfs_erofs_makes_is_taken() {
    let scratch = Scratch::new();
    let tree = scratch.subdir("tree");
    std::fs::write(tree.join("f"), "of mkfs").unwrap();
    std::fs::create_dir(tree.join("d")).unwrap();
    std::fs::write(tree.join("d/large"), vec![9; 200_000]).unwrap();
    let file = scratch.path("image");
    let made = Command::new("mkfs.erofs")
        .arg(&file)
        .arg(&tree)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let image = std::fs::read(&file).unwrap();
    let built = ImageBuilder::new().erofs(image, TYPES[0]);
    let (_place, _, mount) = mounted(built).await;
    assert_eq!(content(&mount, "f"), "of mkfs");
    let large = std::fs::read(inside(&mount, "d/large")).unwrap();
    assert!(large == vec![9; 200_000]);
}

#[tokio::test]
async fn they_are_exported_and_imported_as_they_are() {
    let registry = Registry::start();
    let built = ImageBuilder::new()
        .layer(below())
        .erofs(honest(), TYPES[1])
        .build();
    registry.push(&built, "app:1").await;
    let place = Place::open().await;
    let name = registry.reference("app:1");
    let image = place.pull(&name).await.unwrap();
    let archive = place.scratch.path("archive");
    let names = [&*name];
    let export = |format| {
        let out = std::fs::File::create(&archive).unwrap();
        place.images.export(&names, format, out)
    };
    let refused = export(ExportFormat::DockerArchive).await.unwrap_err();
    assert_contains!(refused.to_string(), "OCI image layout");
    export(ExportFormat::OciLayout).await.unwrap();
    let other = Place::open().await;
    let imported = other.import_archive(&archive).await.unwrap();
    assert_eq!(imported[0].id, image.id);
    let mount = other.images.mount_read_only(&image.id).await.unwrap();
    assert_eq!(content(&mount, "f"), "published");
}

async fn refused(image: Vec<u8>) -> Error {
    let registry = Registry::start();
    let built = ImageBuilder::new().erofs(image, TYPES[0]).build();
    registry.push(&built, "app:1").await;
    let place = Place::open().await;
    let refused = place.pull(&registry.reference("app:1")).await.unwrap_err();
    place.sweep().await;
    assert_eq!(place.layer_dirs(), 0);
    refused
}

#[tokio::test]
async fn what_the_kernel_must_not_see_is_refused_by_name() {
    let scratch = Scratch::new();
    let tree = scratch.subdir("tree");
    std::fs::write(tree.join("f"), vec![1; 100_000]).unwrap();
    let file = scratch.path("image");
    let made = Command::new("mkfs.erofs")
        .arg("-zlz4")
        .arg(&file)
        .arg(&tree)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let compressed = std::fs::read(&file).unwrap();
    let error = refused(compressed).await;
    assert!(
        matches!(&error, Error::Unsupported(it) if it.contains("compressed")),
        "{error}"
    );

    let steering = erofs(|image| {
        let mut look = look();
        let redirect = b"trusted.overlay.redirect".to_vec();
        look.xattrs.insert(redirect, b"/etc".to_vec());
        image.directory(&[b"d"], look).unwrap();
    });
    let error = refused(steering).await;
    assert!(
        matches!(&error, Error::Unsupported(it) if it.contains("attributes")),
        "{error}"
    );

    let opaque_file = erofs(|image| {
        let mut look = look();
        look.xattrs
            .insert(b"trusted.overlay.opaque".to_vec(), b"y".to_vec());
        image.file(&[b"f"], look, 0).unwrap().finish().unwrap();
    });
    let error = refused(opaque_file).await;
    assert!(matches!(error, Error::Unsupported(_)), "{error}");

    let error = refused(vec![0; 10_000]).await;
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    let mut cut = honest();
    cut.truncate(8192);
    let error = refused(cut).await;
    assert!(matches!(error, Error::InvalidImage { .. }), "{error}");
}

#[tokio::test]
async fn an_opaque_directory_hides_what_is_below() {
    let hiding = erofs(|image| {
        let mut look = look();
        look.mode = 0o755;
        look.xattrs
            .insert(b"trusted.overlay.opaque".to_vec(), b"y".to_vec());
        image.directory(&[b"d"], look).unwrap();
        put(image, &[b"d", b"new"], b"new");
    });
    let below = Layer::new().dir("d", 0o755).file("d/old", "old", 0o644);
    let built = ImageBuilder::new().layer(below).erofs(hiding, TYPES[0]);
    let (_place, _, mount) = mounted(built).await;
    assert_eq!(content(&mount, "d/new"), "new");
    assert!(!inside(&mount, "d/old").exists());
}
