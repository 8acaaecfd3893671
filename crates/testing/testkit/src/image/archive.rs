//! Images as files: OCI layout and docker archive.

use std::path::Path;

use serde_json::json;

use crate::image::BuiltImage;

impl BuiltImage {
    /// Writes an OCI image layout into the directory `dir`.
    pub fn write_oci_layout(&self, dir: &Path, name: &str) {
        for (path, bytes) in self.oci_files(name) {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().expect("has a parent"))
                .and_then(|()| std::fs::write(&path, bytes))
                .unwrap_or_else(|e| panic!("writing {}: {e}", path.display()));
        }
    }

    /// Returns an OCI image layout as one archive.
    pub fn oci_archive(&self, name: &str) -> Vec<u8> {
        archive(self.oci_files(name))
    }

    /// Returns an archive in the format of `docker save`.
    pub fn docker_archive(&self, name: &str) -> Vec<u8> {
        let config = format!("{}.json", hex(self.id()));
        let mut files = vec![(config.clone(), self.config.bytes.clone())];
        let mut layers = Vec::new();
        for (at, (layer, tar)) in self.layers.iter().zip(&self.tars).enumerate() {
            let path = format!("{at}/layer.tar");
            let tar = match tar.as_slice() {
                [] => layer.unpacked(),
                tar => tar.to_vec(),
            };
            files.push((path.clone(), tar));
            layers.push(path);
        }
        let manifest = json!([{ "Config": config, "RepoTags": [name], "Layers": layers }]);
        files.push((
            "manifest.json".to_owned(),
            manifest.to_string().into_bytes(),
        ));
        archive(files)
    }

    fn oci_files(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        let mut top = self.top.descriptor();
        // The first key is the standard's; containerd's import reads the second.
        top["annotations"] = json!({
            "org.opencontainers.image.ref.name": name,
            "io.containerd.image.name": name,
        });
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [top],
        });
        let layout = json!({ "imageLayoutVersion": "1.0.0" });
        let mut files = vec![
            ("oci-layout".to_owned(), layout.to_string().into_bytes()),
            ("index.json".to_owned(), index.to_string().into_bytes()),
        ];
        for blob in self.blobs().chain(&self.manifests).chain([&self.top]) {
            files.push((
                format!("blobs/{}", blob.digest.replacen(':', "/", 1)),
                blob.bytes.clone(),
            ));
        }
        files
    }
}

fn archive(files: Vec<(String, Vec<u8>)>) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_mtime(1_700_000_000);
        header.set_size(bytes.len() as u64);
        builder
            .append_data(&mut header, path, &bytes[..])
            .expect("write to memory");
    }
    builder.into_inner().expect("finish an archive in memory")
}

fn hex(digest: &str) -> &str {
    digest.split_once(':').map_or(digest, |(_, hex)| hex)
}
