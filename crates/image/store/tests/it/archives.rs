//! Importing, exporting, checking and repairing.

use std::io::Cursor;
use std::process::Command;

use orlop_image_store::{Error, ExportFormat, ImportSource};
use orlop_testkit::{BuiltImage, Compression, Format, Hash, ImageBuilder, Layer, Registry};

use crate::support::{Place, content};

fn built() -> BuiltImage {
    ImageBuilder::new()
        .layer(
            Layer::new()
                .dir("d", 0o755)
                .noise("d/noise", 700_000)
                .file("f", "low", 0o644),
        )
        .packed(
            Layer::new().file("f", "high", 0o644).whiteout("d"),
            Compression::Zstd,
        )
        .format(Format::Docker)
        .build()
}

#[tokio::test]
async fn archives_of_both_kinds_are_imported() {
    let built = built();
    let place = Place::open().await;
    let dir = place.scratch.subdir("layout");
    built.write_oci_layout(&dir, "a.example/app:1");
    let gzipped = {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packer, &built.docker_archive("a.example/app:3")).unwrap();
        packer.finish().unwrap()
    };
    let sources = [
        ImportSource::Directory(dir),
        ImportSource::Stream(Box::new(Cursor::new(built.oci_archive("a.example/app:2")))),
        ImportSource::Stream(Box::new(Cursor::new(gzipped))),
    ];
    for (n, source) in sources.into_iter().enumerate() {
        let images = place.images.import(source, None).await.unwrap();
        assert_eq!(images.len(), 1);
        assert_eq!(images[0].id.to_string(), built.id());
        assert!(
            images[0]
                .repo_tags
                .contains(&format!("a.example/app:{}", n + 1))
        );
        let mount = place.images.mount_read_only(&images[0].id).await.unwrap();
        assert_eq!(content(&mount, "f"), "high");
        place.images.remove(built.id()).await.unwrap();
        assert_eq!(place.layer_dirs() + place.entries("tmp").len(), 0);
    }
}

#[tokio::test]
async fn what_is_exported_is_imported_as_the_same_image() {
    let (registry, place, other) = (Registry::start(), Place::open().await, Place::open().await);
    let built = built();
    registry.push(&built, "app:1").await;
    let name = registry.reference("app:1");
    place.pull(&name).await.unwrap();
    for format in [ExportFormat::OciLayout, ExportFormat::DockerArchive] {
        let path = place.scratch.path("export.tar");
        let file = std::fs::File::create(&path).unwrap();
        place.images.export(&[&name], format, file).await.unwrap();
        // Another tool must be able to read it.
        let listing = Command::new("tar").arg("-tf").arg(&path).output().unwrap();
        assert!(listing.status.success());
        let images = other.import_archive(&path).await.unwrap();
        assert_eq!(images[0].id.to_string(), built.id(), "{format:?}");
        assert_eq!(images[0].repo_tags, std::slice::from_ref(&name));
        other.images.remove(&name).await.unwrap();
    }
    let dir = place.scratch.subdir("exported");
    let done = place.images.export_directory(&[built.id()], &dir).await;
    done.unwrap();
    other.import_layout(&dir).await.unwrap();
    assert_eq!(
        other
            .images
            .find(&name)
            .await
            .unwrap()
            .unwrap()
            .id
            .to_string(),
        built.id()
    );
    assert_eq!(other.images.verify(false).await.unwrap().sound, 2);
}

#[tokio::test]
async fn images_named_by_sha512_are_images() {
    let (registry, place, other) = (Registry::start(), Place::open().await, Place::open().await);
    let built = ImageBuilder::new()
        .layer(Layer::new().file("f", "low", 0o644))
        .packed(Layer::new().file("f", "high", 0o644), Compression::Zstd)
        .hash(Hash::Sha512)
        .build();
    assert!(built.id().starts_with("sha512:"));
    registry.push(&built, "app:1").await;
    let name = registry.reference("app:1");
    let image = place.pull(&name).await.unwrap();
    assert_eq!(image.id.to_string(), built.id());
    let mount = place.images.mount_read_only(&image.id).await.unwrap();
    assert_eq!(content(&mount, "f"), "high");
    assert_eq!(place.images.verify(false).await.unwrap().sound, 2);
    let start = &built.id()[..20];
    assert!(place.images.find(start).await.unwrap().is_some(), "{start}");

    let dir = place.scratch.subdir("exported");
    place.images.export_directory(&[&name], &dir).await.unwrap();
    let imported = other.import_layout(&dir).await.unwrap();
    assert_eq!(imported[0].id, image.id);

    // Its index and its manifest, too, are named so in a layout.
    let layout = place.scratch.subdir("layout");
    built.write_oci_layout(&layout, "a.example/app:2");
    let source = || ImportSource::Directory(layout.clone());
    let imported = other.images.import(source(), None).await.unwrap();
    assert_eq!(imported[0].id, image.id);
    let layer = layout.join(format!(
        "blobs/{}",
        built.layers[0].digest.replacen(':', "/", 1)
    ));
    let third = Place::open().await;
    std::fs::write(&layer, "others").unwrap();
    let error = third.images.import(source(), None).await.unwrap_err();
    assert!(matches!(error, Error::DigestMismatch { .. }), "{error}");
}

#[tokio::test]
async fn hostile_archives_are_not_imported() {
    let place = Place::open().await;
    let built = built();
    let mut damaged = built.docker_archive("a.example/app:1");
    let noise = damaged.len() / 2;
    damaged[noise] ^= 1;
    let leading_out = Layer::new().symlink("index.json", "/etc/passwd").tar();
    let up = Layer::new()
        .file(
            "manifest.json",
            r#"[{"Config":"../../etc/passwd","Layers":[]}]"#,
            0o644,
        )
        .tar();
    for (bytes, reason) in [
        (damaged, "has digest"),
        (leading_out, "neither an OCI"),
        (up, "is missing"),
        (Layer::new().file("x", "y", 0o644).tar(), "neither an OCI"),
        (b"not an archive".repeat(100), "malformed"),
    ] {
        let source = ImportSource::Stream(Box::new(Cursor::new(bytes)));
        let error = place.images.import(source, None).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{reason}: {error}");
        assert!(place.images.list().is_empty());
        place.sweep().await;
        assert_eq!(place.layer_dirs(), 0);
    }
}

#[tokio::test]
async fn a_damaged_layer_is_found_and_only_that_is_pulled_again() {
    let (registry, place) = (Registry::start(), Place::open().await);
    let built = built();
    registry.push(&built, "app:1").await;
    let image = place.pull(&registry.reference("app:1")).await.unwrap();
    let verified = place.images.verify(true).await.unwrap();
    assert_eq!(
        (verified.sound, verified.unchecked, verified.broken.len()),
        (2, 0, 0)
    );
    let low = place.images.layers(&image.id).await.unwrap()[1].clone();
    let untouched = std::fs::metadata(&place.images.layers(&image.id).await.unwrap()[0]).unwrap();
    for damage in ["changed", "missing", "gone"] {
        match damage {
            "changed" => std::fs::write(low.join("f"), "LOW").unwrap(),
            "missing" => std::fs::remove_file(low.join("d/noise")).unwrap(),
            _ => orlop_fs::remove_tree(low.parent().unwrap()).unwrap(),
        }
        let verified = place.images.verify(false).await.unwrap();
        assert_eq!((verified.sound, verified.broken.len()), (1, 1), "{damage}");
        assert_eq!(verified.broken[0].images, [image.id]);
        assert!(!verified.broken[0].repaired);
        let verified = place.images.verify(true).await.unwrap();
        assert!(verified.broken[0].repaired, "{damage}");
        assert_eq!(
            place.images.verify(false).await.unwrap().sound,
            2,
            "{damage}"
        );
    }
    let after = std::fs::metadata(&place.images.layers(&image.id).await.unwrap()[0]).unwrap();
    assert_eq!(
        std::os::unix::fs::MetadataExt::ino(&after),
        std::os::unix::fs::MetadataExt::ino(&untouched)
    );
    // A container that uses the layer keeps what it has of it.
    place.images.lease("container", &image).await.unwrap();
    let used = std::os::fd::OwnedFd::from(std::fs::File::open(&low).unwrap());
    std::fs::remove_file(low.join("d/noise")).unwrap();
    let verified = place.images.verify(true).await.unwrap();
    assert!(verified.broken[0].repaired);
    assert!(low.join("d/noise").exists());
    assert_eq!(content(&used, "f"), "low");
    assert_eq!(place.entries("replaced").len(), 1);
    place.images.release("container").await.unwrap();
    assert_eq!(place.entries("replaced").len(), 0);
    // Without a registry, what is there stays.
    drop(registry);
    std::fs::write(low.join("f"), "LOW").unwrap();
    let verified = place.images.verify(true).await.unwrap();
    assert!(!verified.broken[0].repaired);
    assert!(low.join("f").exists());
    let error = place
        .images
        .export(&["nothing:1"], ExportFormat::OciLayout, Vec::new())
        .await;
    assert!(matches!(error, Err(Error::NotFound(_))));
}
