//! Builder of images: from layers and a config to manifests and blobs.

use serde_json::{Value, json};

use super::blob::{Blob, Hash, to_bytes};
use super::built::{BuiltImage, OCI_MANIFEST};
use super::compression::{Compression, pack};
use crate::image::{Chunked, ChunkedLayer, Cut, Layer, soci};

/// Format of the manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OCI image manifest and index.
    Oci,
    /// Docker schema 2 and manifest list.
    Docker,
}

/// Source of a layer.
#[derive(Debug)]
enum Source {
    Archive(Vec<u8>, Compression),
    Chunked(ChunkedLayer),
    /// An EROFS filesystem, and its media type.
    Erofs(Vec<u8>, String),
}

/// Description of an image.
#[derive(Debug)]
pub struct ImageBuilder {
    layers: Vec<Source>,
    soci: Option<u64>,
    config: serde_json::Map<String, Value>,
    annotations: serde_json::Map<String, Value>,
    format: Format,
    hash: Hash,
    index: bool,
    os: String,
    architecture: String,
}

impl ImageBuilder {
    /// Creates an image without layers.
    pub fn new() -> Self {
        let mut config = serde_json::Map::new();
        config.insert("Env".to_owned(), json!(["PATH=/bin:/usr/bin"]));
        Self {
            layers: Vec::new(),
            soci: None,
            config,
            annotations: serde_json::Map::new(),
            format: Format::Oci,
            hash: Hash::Sha256,
            index: false,
            os: "linux".to_owned(),
            architecture: host_architecture().to_owned(),
        }
    }

    /// Creates an image with a layer of busybox and the shell as command.
    pub fn busybox() -> Self {
        Self::new()
            .layer(Layer::busybox())
            .config("Cmd", json!(["sh"]))
    }

    /// Adds a gzip layer, or an eStargz layer if the tests use lazy pulling (`$ORLOP_TEST_IMAGE_STORE` is `lazy`).
    pub fn layer(self, layer: Layer) -> Self {
        match std::env::var("ORLOP_TEST_IMAGE_STORE").as_deref() {
            Ok("lazy") if self.hash == Hash::Sha256 => self.chunked(layer, Chunked::EStargz),
            _ => self.packed(layer, Compression::Gzip),
        }
    }

    /// Adds a layer.
    pub fn packed(self, layer: Layer, compression: Compression) -> Self {
        self.archive(layer.tar(), compression)
    }

    /// Adds a layer from an archive, which may be invalid.
    pub fn archive(mut self, tar: Vec<u8>, compression: Compression) -> Self {
        self.layers.push(Source::Archive(tar, compression));
        self
    }

    /// Adds a layer that supports lazy pulling.
    pub fn chunked(self, layer: Layer, form: Chunked) -> Self {
        self.cut(layer.chunked(form, &Cut::new()))
    }

    /// Adds a packed layer that supports lazy pulling.
    pub fn cut(mut self, layer: ChunkedLayer) -> Self {
        self.layers.push(Source::Chunked(layer));
        self
    }

    /// Adds an EROFS image as a layer, compressed if the media type says so.
    pub fn erofs(mut self, image: Vec<u8>, media_type: &str) -> Self {
        self.layers
            .push(Source::Erofs(image, media_type.to_owned()));
        self
    }

    /// Adds a SOCI index (version 2) and its digest in the manifest. It has checkpoints for all plain gzip layers, each
    /// after this many bytes of the archive.
    pub fn soci(mut self, apart: u64) -> Self {
        self.soci = Some(apart);
        self
    }

    /// Sets a key of the config's `config` object: `Cmd`, `User`, `Volumes`…
    pub fn config(mut self, key: &str, value: Value) -> Self {
        self.config.insert(key.to_owned(), value);
        self
    }

    /// Adds a label that distinguishes this image from others with the same layers.
    pub fn marked(self, mark: &str) -> Self {
        self.config("Labels", json!({ "mark": mark }))
    }

    /// Adds an annotation to the manifest.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), json!(value));
        self
    }

    /// Sets the format; the default is OCI.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Sets the digest algorithm.
    pub fn hash(mut self, hash: Hash) -> Self {
        self.hash = hash;
        self
    }

    /// Sets the platform; the default is this machine.
    pub fn platform(mut self, os: &str, architecture: &str) -> Self {
        os.clone_into(&mut self.os);
        architecture.clone_into(&mut self.architecture);
        self
    }

    /// Adds an index, in which another architecture comes before the host's.
    pub fn index(mut self) -> Self {
        self.index = true;
        self
    }

    /// Builds all blobs.
    pub fn build(mut self) -> BuiltImage {
        let types = MediaTypes::of(self.format);
        let hash = self.hash;
        let diff_ids: Vec<_> = self.layers.iter().map(|from| from.diff_id(hash)).collect();
        // The fastest compression has few blocks, so there are few positions for checkpoints.
        let effort = if self.soci.is_some() { 6 } else { 1 };
        let sources = std::mem::take(&mut self.layers);
        let (layers, tars): (Vec<_>, Vec<_>) = sources
            .into_iter()
            .map(|from| from.made(&types, hash, effort))
            .unzip();
        let beside: Vec<_> = self
            .soci
            .and_then(|apart| soci::index(&layers, &tars, apart))
            .into_iter()
            .collect();
        if let Some(index) = beside.first() {
            self = self.annotation(soci::INDEX_DIGEST, index.digest());
        }
        let own = self.architecture.as_str();
        let (config, manifest) = self.for_platform(own, &types, &layers, &diff_ids);
        if !self.index {
            return BuiltImage {
                tars,
                beside,
                ..BuiltImage::beneath(manifest, config, layers)
            };
        }
        let other = if own == "arm64" { "amd64" } else { "arm64" };
        let (other_config, other_manifest) = self.for_platform(other, &types, &layers, &diff_ids);
        let entry = |manifest: &Blob, architecture: &str| {
            let mut entry = manifest.descriptor();
            entry["platform"] = json!({ "os": "linux", "architecture": architecture });
            entry
        };
        let index = json!({
            "schemaVersion": 2,
            "mediaType": types.index,
            "manifests": [entry(&other_manifest, other), entry(&manifest, own)],
        });
        BuiltImage {
            top: Blob::new(types.index, to_bytes(&index), self.hash),
            manifests: vec![other_manifest, manifest],
            config,
            other_configs: vec![other_config],
            layers,
            tars,
            beside,
        }
    }

    /// Creates the config and the manifest for one architecture.
    fn for_platform(
        &self,
        architecture: &str,
        types: &MediaTypes,
        layers: &[Blob],
        diff_ids: &[String],
    ) -> (Blob, Blob) {
        let created = "2023-11-14T22:13:20Z";
        let history: Vec<_> = layers
            .iter()
            .map(|_| json!({ "created": created, "created_by": "testkit" }))
            .collect();
        let config = json!({
            "architecture": architecture,
            "os": self.os,
            "created": created,
            "config": self.config,
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
            "history": history,
        });
        let config = Blob::new(types.config, to_bytes(&config), self.hash);
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": types.manifest,
            "config": config.descriptor(),
            "layers": layers.iter().map(Blob::descriptor).collect::<Vec<_>>(),
        });
        if !self.annotations.is_empty() {
            manifest["annotations"] = Value::Object(self.annotations.clone());
        }
        (
            config,
            Blob::new(types.manifest, to_bytes(&manifest), self.hash),
        )
    }
}

impl Default for ImageBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl Source {
    fn diff_id(&self, hash: Hash) -> String {
        match self {
            Self::Archive(bytes, _) | Self::Erofs(bytes, _) => hash.digest(bytes),
            Self::Chunked(layer) if hash == Hash::Sha256 => layer.diff_id.clone(),
            Self::Chunked(layer) => hash.digest(&layer.archive()),
        }
    }

    /// Returns the compressed layer, and its archive if that is available.
    fn made(self, types: &MediaTypes, hash: Hash, effort: u32) -> (Blob, Vec<u8>) {
        match self {
            Self::Erofs(image, media_type) => {
                let how = if media_type.ends_with("+zstd") {
                    Compression::Zstd
                } else {
                    Compression::Plain
                };
                let blob = Blob::new(&media_type, pack(&image, how, effort), hash);
                (blob, Vec::new())
            }
            Self::Archive(tar, how) => {
                let blob = Blob::new(types.layer(how), pack(&tar, how, effort), hash);
                (blob, tar)
            }
            Self::Chunked(layer) => {
                let kind = types.layer(layer.form.compression());
                let mut blob = Blob::new(kind, layer.bytes, hash);
                let annotations = layer.annotations.into_iter();
                blob.annotations = annotations.map(|(key, v)| (key, v.into())).collect();
                (blob, Vec::new())
            }
        }
    }
}

struct MediaTypes {
    index: &'static str,
    manifest: &'static str,
    config: &'static str,
    plain: &'static str,
    gzip: &'static str,
    zstd: &'static str,
}

impl MediaTypes {
    fn of(format: Format) -> Self {
        match format {
            Format::Oci => Self {
                index: "application/vnd.oci.image.index.v1+json",
                manifest: OCI_MANIFEST,
                config: "application/vnd.oci.image.config.v1+json",
                plain: "application/vnd.oci.image.layer.v1.tar",
                gzip: "application/vnd.oci.image.layer.v1.tar+gzip",
                zstd: "application/vnd.oci.image.layer.v1.tar+zstd",
            },
            Format::Docker => Self {
                index: "application/vnd.docker.distribution.manifest.list.v2+json",
                manifest: "application/vnd.docker.distribution.manifest.v2+json",
                config: "application/vnd.docker.container.image.v1+json",
                plain: "application/vnd.docker.image.rootfs.diff.tar",
                gzip: "application/vnd.docker.image.rootfs.diff.tar.gzip",
                zstd: "application/vnd.docker.image.rootfs.diff.tar.zstd",
            },
        }
    }

    fn layer(&self, compression: Compression) -> &'static str {
        match compression {
            Compression::Plain => self.plain,
            Compression::Gzip => self.gzip,
            Compression::Zstd => self.zstd,
        }
    }
}

/// Returns the host's architecture by Go's name, as in images.
pub fn host_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_description_gives_the_same_image() {
        let make = || {
            ImageBuilder::new()
                .layer(
                    Layer::new()
                        .dir("etc", 0o755)
                        .file("etc/motd", "ahoy\n", 0o644),
                )
                .packed(Layer::new().whiteout("etc/motd"), Compression::Zstd)
                .index()
                .build()
        };
        let (one, two) = (make(), make());
        assert_eq!(one.digest(), two.digest());
        assert_eq!(one.id(), two.id());
        let other = ImageBuilder::new().marked("other").build();
        assert_ne!(one.id(), other.id());
    }

    #[test]
    fn a_compressed_layer_unpacks_to_its_archive() {
        let tar = Layer::new().noise("noise", 10_000).tar();
        let zipped = pack(&tar, Compression::Gzip, 1);
        let mut back = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&zipped[..]), &mut back)
            .expect("gunzip");
        assert!(back == tar, "gzip changed the archive");
        let packed = pack(&tar, Compression::Zstd, 1);
        assert!(
            zstd::decode_all(&packed[..]).expect("unzstd") == tar,
            "zstd changed the archive"
        );
    }
}
