//! Artifacts: blobs that are files, and archives only where they say so.

use orlop_image_store::{Error, StoreForm};
use orlop_testkit::image::ArtifactBlob;
use orlop_testkit::{BuiltImage, Layer, Registry};

use crate::support::{Place, file};

const KIND: &str = "application/vnd.example.model";

fn model() -> (BuiltImage, String) {
    let nameless = ArtifactBlob::nameless("text/plain", b"no name");
    let name = nameless.digest().trim_start_matches("sha256:").to_owned();
    // It looks like an archive, and is one file all the same.
    let archive = Layer::new().file("within", "x", 0o600).tar();
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
    let artifact = BuiltImage::artifact(
        KIND,
        vec![
            ArtifactBlob::file("weights.bin", &[7; 70_000]),
            ArtifactBlob::file("configs/model.json", b"{}"),
            ArtifactBlob::file("archive.tar", &archive),
            ArtifactBlob::file(&long, b"long"),
            ArtifactBlob::file("empty", b""),
            ArtifactBlob::directory(
                "docs",
                Layer::new()
                    .dir("docs", 0o755)
                    .file("docs/a", "of a directory", 0o640),
            ),
            nameless,
        ],
    );
    (artifact, name)
}

#[tokio::test]
async fn blobs_are_files_of_an_artifact() {
    let registry = Registry::start();
    let mut place = Place::open().await;
    let (built, nameless) = model();
    let name = registry.push(&built, "model:1").await;
    let artifact = place.pull(&name).await.expect("pull");
    // Another artifact has the same configuration, none.
    assert_eq!(artifact.id.to_string(), built.digest());
    let other = BuiltImage::artifact(
        KIND,
        vec![
            ArtifactBlob::file("weights.bin", b"other"),
            // The same bytes by another name.
            ArtifactBlob::file("renamed.json", b"{}"),
        ],
    );
    let other = registry.push(&other, "other:1").await;
    let other = place.pull(&other).await.expect("pull");
    assert_ne!(other.id, artifact.id);
    let kind = artifact.config.artifact.as_ref().map(|it| it.kind.as_str());
    assert_eq!(kind, Some(KIND));

    let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
    let archive = Layer::new().file("within", "x", 0o600).tar();
    let weights = vec![7; 70_000];
    for round in 0..2 {
        for (path, mode, content) in [
            ("weights.bin", 0o644, &weights[..]),
            ("configs/model.json", 0o644, b"{}"),
            ("archive.tar", 0o644, &archive),
            (&long, 0o644, b"long"),
            ("empty", 0o644, b""),
            ("docs/a", 0o640, b"of a directory"),
            (&nameless, 0o644, b"no name"),
        ] {
            assert!(
                file(&place, &artifact, path).await == (mode, content.to_vec()),
                "{round} {path}"
            );
        }
        assert_eq!(file(&place, &other, "weights.bin").await.1, b"other");
        assert_eq!(file(&place, &other, "renamed.json").await.1, b"{}");
        assert_eq!(
            artifact.size,
            70_000 + 2 + archive.len() as u64 + 4 + 14 + 7
        );
        // It is known again, and nothing comes twice.
        place.reopen().await;
        let again = place.pull(&name).await.expect("pull again");
        assert_eq!((again.id, &again.config), (artifact.id, &artifact.config));
        assert_eq!(place.layer_dirs(), 9);
    }
    let verified = place.images.verify(false).await.expect("verify");
    assert_eq!((verified.sound, verified.unchecked), (9, 0), "{verified:?}");
    place.assert_not_exported(&name).await;
    place.remove_all(&[artifact, other]).await;
}

#[tokio::test]
async fn a_damaged_file_of_an_artifact_comes_again() {
    let registry = Registry::start();
    let place = Place::with(|config| config.store = StoreForm::Files).await;
    let built = BuiltImage::artifact(KIND, vec![ArtifactBlob::file("weights.bin", &[7; 7000])]);
    let name = registry.push(&built, "model:1").await;
    let artifact = place.pull(&name).await.expect("pull");
    let layers = place.images.layer_dirs(&artifact.id).expect("its layers");
    std::fs::write(layers[0].join("weights.bin"), [8; 7000]).expect("spoil it");
    let verified = place.images.verify(true).await.expect("verify");
    assert_eq!(verified.broken.len(), 1, "{verified:?}");
    assert!(verified.broken[0].repaired, "{verified:?}");
    assert!(file(&place, &artifact, "weights.bin").await == (0o644, vec![7; 7000]));
}

#[tokio::test]
async fn an_artifact_is_imported_from_a_layout() {
    let place = Place::open().await;
    let (built, _) = model();
    let dir = place.scratch.subdir("layout");
    built.write_oci_layout(&dir, "a.example/model:1");
    let images = place.import_layout(&dir).await.expect("import");
    assert_eq!(images[0].id.to_string(), built.digest());
    assert_eq!(
        file(&place, &images[0], "configs/model.json").await.1,
        b"{}"
    );
}

#[tokio::test]
async fn artifacts_that_reach_out_or_are_too_large_are_refused() {
    let registry = Registry::start();
    let place = Place::with(|config| {
        config.limits.image_bytes = 4096;
        config.limits.layers = 3;
    })
    .await;
    let file = ArtifactBlob::file;
    for (what, blobs, reason) in [
        ("out", vec![file("../x", b"x")], "is not a valid file name"),
        (
            "whiteout",
            vec![file("a", b"a"), file(".wh.a", b"x")],
            "is not a valid file name",
        ),
        (
            "twice",
            vec![file("a", b"a"), file("a", b"b")],
            "two of its blobs",
        ),
        ("large", vec![file("a", &[0; 4097])], "exceeds the limit"),
        (
            "many",
            (0..4).map(|n| file(&n.to_string(), b"x")).collect(),
            "exceeds the limit",
        ),
        (
            "no-archive",
            vec![ArtifactBlob::nameless(
                "application/vnd.oci.image.layer.v1.tar",
                b"no archive",
            )],
            "layer 1 of 1",
        ),
    ] {
        let artifact = BuiltImage::artifact(KIND, blobs);
        let name = registry.push(&artifact, &format!("{what}:1")).await;
        let error = place.pull(&name).await.unwrap_err();
        assert!(
            matches!(error, Error::InvalidImage { .. } | Error::TooLarge { .. }),
            "{what}: {error:?}"
        );
        assert!(error.to_string().contains(reason), "{what}: {error}");
    }
    place.sweep().await;
    assert_eq!(place.layer_dirs(), 0);
}

/// A manifest that names a layer's plain archive in keys of an image's configuration, which no artifact has.
#[tokio::test]
async fn an_artifact_of_an_archive_holds_what_its_digests_say() {
    let registry = Registry::start();
    let place = Place::open().await;
    let (good, evil): (&[u8], &[u8]) = (b"good weights", b"evil weights");
    let digest = |bytes: &[u8]| ArtifactBlob::nameless("x", bytes).digest().to_owned();
    let dir = place.scratch.subdir("layout");
    let blobs = dir.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let put = |bytes: &[u8]| {
        let digest = digest(bytes);
        std::fs::write(blobs.join(digest.trim_start_matches("sha256:")), bytes).unwrap();
        digest
    };
    let (evil_digest, nothing) = (put(evil), put(b"{}"));
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "artifactType": KIND,
        "config": { "mediaType": "application/vnd.oci.empty.v1+json", "digest": nothing, "size": 2 },
        "layers": [{
            "mediaType": "application/octet-stream", "digest": digest(good), "size": good.len(),
            "annotations": { "org.opencontainers.image.title": "weights.bin" },
        }],
        "layerDigests": [evil_digest],
        "rootfs": { "type": "layers", "diff_ids": [evil_digest] },
    });
    let manifest = manifest.to_string().into_bytes();
    let index = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": put(&manifest), "size": manifest.len(),
            "annotations": { "io.containerd.image.name": "evil.example/x:1" },
        }],
    });
    std::fs::write(dir.join("index.json"), index.to_string()).unwrap();
    std::fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    let imported = place.import_layout(&dir).await;
    imported.expect_err("its layer is not in the archive");

    let honest = BuiltImage::artifact(KIND, vec![ArtifactBlob::file("weights.bin", good)]);
    let name = registry.push(&honest, "model:1").await;
    let pulled = place.pull(&name).await.expect("pull");
    assert_eq!(file(&place, &pulled, "weights.bin").await.1, good);
}
