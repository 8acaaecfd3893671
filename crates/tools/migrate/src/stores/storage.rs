//! The images of containers/storage, which CRI-O, podman and buildah share.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::image::{MOST_LAYERS, StoredImage, document, list};
use super::layout::{begin, is_name_of};
use crate::archive::Lengths;
use crate::digest::Digest;
use crate::{Archive, Error, Result};

#[derive(Deserialize)]
struct Image {
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
    #[serde(default)]
    layer: String,
}

#[derive(Deserialize)]
struct Layer {
    id: String,
    #[serde(default)]
    parent: String,
    #[serde(default, rename = "diff-digest")]
    diff_digest: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    #[serde(default)]
    media_type: String,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
}

/// Returns the images below `root`, of any storage driver.
pub fn storage_images(root: &Path) -> Result<Vec<StoredImage>> {
    let mut images = Vec::new();
    let entries = fs::read_dir(root).map_err(|error| Error::at("cannot list", root, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| Error::at("cannot list", root, error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(driver) = name.strip_suffix("-images")
            && entry.path().join("images.json").is_file()
        {
            images.extend(Arc::new(Store::open(root, driver)?).images()?);
        }
    }
    Ok(images)
}

struct Store {
    root: PathBuf,
    driver: String,
    layers: HashMap<String, Layer>,
    lengths: Lengths,
}

impl Store {
    fn open(root: &Path, driver: &str) -> Result<Self> {
        let dir = root.join(format!("{driver}-layers"));
        let mut layers = HashMap::new();
        for file in ["layers.json", "volatile-layers.json"] {
            let listed: Vec<Layer> = match list(&dir.join(file)) {
                Err(error) if error.is_missing() => Vec::new(),
                listed => listed?,
            };
            layers.extend(listed.into_iter().map(|layer| (layer.id.clone(), layer)));
        }
        Ok(Self {
            root: root.to_owned(),
            driver: driver.to_owned(),
            layers,
            lengths: Lengths::default(),
        })
    }

    fn images(self: &Arc<Self>) -> Result<Vec<StoredImage>> {
        let dir = self.root.join(format!("{}-images", self.driver));
        let images: Vec<Image> = list(&dir.join("images.json"))?;
        let images = images.into_iter().map(|mut image| {
            let mut names = image.names.take().unwrap_or_default();
            // If it cannot be read, building the archive fails with the reason.
            if let Ok(bytes) = manifest(&dir, &image) {
                let top = Digest::of(&bytes);
                names.retain(|name| is_name_of(name, &top));
            }
            let (store, dir, known) = (Arc::clone(self), dir.clone(), names.clone());
            StoredImage {
                id: format!("sha256:{}", image.id),
                names,
                make: Box::new(move || store.image(&dir, &image, &known)),
            }
        });
        Ok(images.collect())
    }

    /// Builds an archive with the original manifest and uncompressed layers, named by their diff IDs.
    fn image(&self, dir: &Path, image: &Image, names: &[String]) -> Result<Archive> {
        let wrong = |why: &str| Error::invalid(format!("the image {}", image.id), why);
        let bytes = manifest(dir, image)?;
        let dir = dir.join(&image.id);
        let manifest: Manifest =
            serde_json::from_slice(&bytes).map_err(|e| wrong(&e.to_string()))?;
        let Some(config) = manifest.config.and_then(|it| Digest::parse(&it.digest)) else {
            return Err(wrong(
                "its manifest has an old format without a configuration; pull the image again",
            ));
        };
        let top = Digest::of(&bytes);
        let media_type = match manifest.media_type.as_str() {
            "" => "application/vnd.oci.image.manifest.v1+json",
            named => named,
        };
        let mut archive = begin(media_type, &top, bytes.len(), names);
        archive.bytes(top.blob_path(), bytes);
        // Keys with special characters are encoded in base64.
        let name = format!("={}", STANDARD.encode(config.to_string()));
        archive.bytes(config.blob_path(), document(&dir.join(name))?);
        let chain = self.chain(&image.layer).map_err(|why| wrong(&why))?;
        if chain.len() != manifest.layers.len() {
            return Err(wrong("some layers of its manifest are missing"));
        }
        for layer in chain {
            let diff_id = Digest::parse(&layer.diff_digest).ok_or_else(|| {
                wrong("a layer has no digest (partial pull); pull the image again")
            })?;
            let id = plain(&layer.id).ok_or_else(|| wrong("a layer has no directory name"))?;
            if !archive.has(&diff_id.blob_path()) {
                let records = self.root.join(format!("{}-layers", self.driver));
                let records = records.join(format!("{id}.tar-split.gz"));
                let shown = records.clone();
                archive
                    .layer(diff_id.blob_path(), records, self.files(id)?, &self.lengths)
                    .map_err(|error| Error::at("cannot read the layer", &shown, error))?;
            }
        }
        Ok(archive)
    }

    /// Returns the layers of an image, base first.
    fn chain(&self, top: &str) -> Result<Vec<&Layer>, String> {
        let (mut chain, mut next) = (Vec::new(), top);
        while !next.is_empty() {
            let layer = self.layers.get(next);
            let layer = layer.ok_or_else(|| format!("its layer {next:?} is missing"))?;
            if chain.len() == MOST_LAYERS {
                return Err("it has too many layers".to_owned());
            }
            chain.push(layer);
            next = &layer.parent;
        }
        chain.reverse();
        Ok(chain)
    }

    fn files(&self, id: &str) -> Result<PathBuf> {
        let dir = match self.driver.as_str() {
            "overlay" => self.root.join("overlay").join(id).join("diff"),
            "vfs" => self.root.join("vfs/dir").join(id),
            "btrfs" => self.root.join("btrfs/subvolumes").join(id),
            other => {
                let why = "its layers are not directories; pull the image again";
                return Err(Error::invalid(format!("the storage driver {other}"), why));
            }
        };
        Ok(dir)
    }
}

fn manifest(dir: &Path, image: &Image) -> Result<Vec<u8>> {
    let id = plain(&image.id).ok_or_else(|| {
        let what = format!("the image {}", image.id);
        Error::invalid(what, "it has no directory name")
    })?;
    document(&dir.join(id).join("manifest"))
}

/// Returns an ID that is safe in a path.
fn plain(id: &str) -> Option<&str> {
    let is_plain = !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric());
    is_plain.then_some(id)
}
