//! Exports images. Layers are exported as uncompressed archives, reconstructed from their files, so that the image
//! keeps its id.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::document::Document;
use crate::media_type::{EROFS_LAYER, OCI_CONFIG, OCI_INDEX, OCI_LAYER, OCI_MANIFEST};
use crate::store::{LayerRecord, Store};
use crate::verify::write_archive;
use crate::{Digest, Error, Result};

/// The format of exported images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// An OCI image layout.
    OciLayout,
    /// The format of `docker save`, which every `docker load` reads.
    DockerArchive,
}

/// An image to export.
pub(crate) struct ExportImage {
    pub(crate) tags: Vec<String>,
    pub(crate) config: Document,
    /// Layers, base first.
    pub(crate) layers: Vec<LayerRecord>,
}

/// Writes the images as one tar archive. Blocks.
pub(crate) fn export(
    store: &Store,
    images: &[ExportImage],
    format: ExportFormat,
    out: impl Write,
) -> Result<()> {
    let mut sink = TarSink { out };
    write(store, images, format, &mut sink)?;
    // Two empty blocks end an archive.
    sink.out
        .write_all(&[0; 1024])
        .and_then(|()| sink.out.flush())
        .map_err(unwritten)
}

/// Writes the images as an OCI image layout into the empty directory `dir`. Blocks.
pub(crate) fn export_directory(store: &Store, images: &[ExportImage], dir: &Path) -> Result<()> {
    let mut sink = DirSink {
        dir: dir.to_owned(),
    };
    write(store, images, ExportFormat::OciLayout, &mut sink)
}

fn write(
    store: &Store,
    images: &[ExportImage],
    format: ExportFormat,
    sink: &mut impl Sink,
) -> Result<()> {
    let mut written = std::collections::BTreeSet::new();
    let layer_path = |digest: &Digest| match format {
        ExportFormat::OciLayout => digest.blob_path(),
        ExportFormat::DockerArchive => format!("{}/layer.tar", digest.hex()),
    };
    for layer in images.iter().flat_map(|image| &image.layers) {
        if format == ExportFormat::DockerArchive && layer.is_published() {
            return Err(Error::Unsupported(format!(
                "layer {} was published as an EROFS image, which a docker archive cannot contain; export it as an OCI image layout",
                layer.diff_id
            )));
        }
        if written.insert(layer.diff_id) {
            let path = layer_path(&layer.diff_id);
            sink.file(&path, layer.archive_bytes, &mut |mut out| {
                write_archive(store, layer, &mut out)
            })?;
        }
    }
    match format {
        ExportFormat::OciLayout => write_layout(images, sink),
        ExportFormat::DockerArchive => write_docker(images, layer_path, sink),
    }
}

fn write_layout(images: &[ExportImage], sink: &mut impl Sink) -> Result<()> {
    let mut entries = Vec::new();
    for image in images {
        sink.bytes(&image.config.digest.blob_path(), &image.config.bytes)?;
        let layers: Vec<Value> = image
            .layers
            .iter()
            .map(|layer| {
                let kind = if layer.is_published() {
                    EROFS_LAYER
                } else {
                    OCI_LAYER
                };
                descriptor(kind, &layer.diff_id, layer.archive_bytes)
            })
            .collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": descriptor(OCI_CONFIG, &image.config.digest, image.config.bytes.len() as u64),
            "layers": layers,
        });
        let manifest = manifest.to_string().into_bytes();
        let digest = Digest::of(&manifest);
        sink.bytes(&digest.blob_path(), &manifest)?;
        let entry = descriptor(OCI_MANIFEST, &digest, manifest.len() as u64);
        if image.tags.is_empty() {
            entries.push(entry.clone());
        }
        for tag in &image.tags {
            let mut named = entry.clone();
            // The standard's key, and the one that containerd reads.
            named["annotations"] = json!({
                "org.opencontainers.image.ref.name": tag,
                "io.containerd.image.name": tag,
            });
            entries.push(named);
        }
    }
    let index = json!({ "schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries });
    sink.bytes("index.json", index.to_string().as_bytes())?;
    sink.bytes("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)
}

fn write_docker(
    images: &[ExportImage],
    layer_path: impl Fn(&Digest) -> String,
    sink: &mut impl Sink,
) -> Result<()> {
    let mut entries = Vec::new();
    for image in images {
        let config = format!("{}.json", image.config.digest.hex());
        sink.bytes(&config, &image.config.bytes)?;
        let layers: Vec<String> = image
            .layers
            .iter()
            .map(|layer| layer_path(&layer.diff_id))
            .collect();
        entries.push(json!({ "Config": config, "RepoTags": image.tags, "Layers": layers }));
    }
    sink.bytes("manifest.json", Value::from(entries).to_string().as_bytes())
}

fn descriptor(media_type: &str, digest: &Digest, size: u64) -> Value {
    json!({ "mediaType": media_type, "digest": digest.to_string(), "size": size })
}

/// The destination of exported files.
trait Sink {
    /// Writes a file of exactly `size` bytes with the content from `write`.
    fn file(
        &mut self,
        path: &str,
        size: u64,
        write: &mut dyn FnMut(&mut dyn Write) -> Result<()>,
    ) -> Result<()>;

    fn bytes(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        self.file(path, bytes.len() as u64, &mut |out| {
            out.write_all(bytes).map_err(unwritten)
        })
    }
}

struct TarSink<W> {
    out: W,
}

impl<W: Write> Sink for TarSink<W> {
    fn file(
        &mut self,
        path: &str,
        size: u64,
        write: &mut dyn FnMut(&mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        let mut header = ::tar::Header::new_ustar();
        header.set_path(path).map_err(unwritten)?;
        header.set_size(size);
        header.set_mode(0o644);
        header.set_cksum();
        self.out.write_all(header.as_bytes()).map_err(unwritten)?;
        let mut counted = Counted {
            out: &mut self.out,
            bytes: 0,
        };
        write(&mut counted)?;
        if counted.bytes != size {
            return Err(Error::invalid(
                path,
                format!("it has {} bytes, not {size}", counted.bytes),
            ));
        }
        let padding = usize::try_from(size.next_multiple_of(512) - size).unwrap_or(0);
        self.out.write_all(&[0; 512][..padding]).map_err(unwritten)
    }
}

struct DirSink {
    dir: PathBuf,
}

impl Sink for DirSink {
    fn file(
        &mut self,
        path: &str,
        _: u64,
        write: &mut dyn FnMut(&mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        let path = self.dir.join(path);
        let failed = |error| Error::at("writing", &path, error);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        let mut file = File::create(&path).map_err(failed)?;
        write(&mut file)
    }
}

struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn unwritten(error: io::Error) -> Error {
    Error::io("writing an exported image", error)
}
