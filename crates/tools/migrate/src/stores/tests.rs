//! Tests of when and from which data archives are built.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{containerd, storage_images};
use crate::digest::Digest;

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn an_archive_is_made_in_its_turn_and_a_layer_s_records_are_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let digest = Digest::of(b"layer").to_string();
    let config = Digest::of(b"{}").to_string();
    let manifest = format!(r#"{{"config": {{"digest": "{config}"}}, "layers": [{{}}]}}"#);
    let mut images = Vec::new();
    for id in ["a", "b"] {
        images.push(format!(
            r#"{{"id": "{id}", "names": ["x.example/{id}:1"], "layer": "l"}}"#
        ));
        let dir = root.join("vfs-images").join(id);
        write(&dir.join("manifest"), manifest.as_bytes());
        let mut name = "=".to_owned();
        base64::Engine::encode_string(
            &base64::engine::general_purpose::STANDARD,
            &config,
            &mut name,
        );
        write(&dir.join(name), b"{}");
    }
    let list = format!("[{}]", images.join(","));
    write(&root.join("vfs-images/images.json"), list.as_bytes());
    let layers = format!(r#"[{{"id": "l", "diff-digest": "{digest}"}}]"#);
    write(&root.join("vfs-layers/layers.json"), layers.as_bytes());
    let mut found = storage_images(root).unwrap().into_iter();
    // There are no records yet, as nothing has read them.
    let records = root.join("vfs-layers/l.tar-split.gz");
    let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
    compressed
        .write_all(b"{\"type\":2,\"payload\":\"YWJj\"}\n")
        .unwrap();
    write(&records, &compressed.finish().unwrap());
    let first = found.next().unwrap().archive().unwrap();
    fs::remove_file(&records).unwrap();
    let second = found.next().unwrap().archive().unwrap();
    assert_eq!(first.bytes_of_files(), second.bytes_of_files());
    assert!(storage_images(root).unwrap().remove(0).archive().is_err());
}

#[test]
fn manifests_are_read_within_a_limit_and_not_held() {
    let dir = tempfile::tempdir().unwrap();
    let put = |bytes: &[u8]| {
        let digest = Digest::of(bytes);
        write(&dir.path().join(digest.blob_path()), bytes);
        digest
    };
    let index = |count: usize, size: usize| {
        let config = put(b"{}");
        let manifests = (0..count).map(|at| {
            let mut text = format!(
                r#"{{"schemaVersion": {at}, "config": {{"digest": "{config}", "size": 2}}}}"#
            );
            text.push_str(&" ".repeat(size - text.len()));
            format!(
                r#"{{"digest": "{}", "size": {size}}}"#,
                put(text.as_bytes())
            )
        });
        let manifests: Vec<_> = manifests.collect();
        put(format!(r#"{{"manifests": [{}]}}"#, manifests.join(",")).as_bytes())
    };
    let few = index(4, 1 << 20);
    let archive = containerd::image(dir.path(), &few, &[]).unwrap();
    assert!(archive.bytes_of_files() > 4 << 20);
    assert!(archive.bytes_held() < 4096, "{}", archive.bytes_held());
    let many = index(17, 4 << 20);
    let error = containerd::image(dir.path(), &many, &[]).unwrap_err();
    assert!(
        error.to_string().contains("manifests are too large"),
        "{error}"
    );
}
