//! Images of containerd: names in its database, content by digest in files.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::image::{MOST_LAYERS, StoredImage, document};
use super::layout::{begin, is_name_of};
use crate::bolt::{Bolt, Value};
use crate::digest::Digest;
use crate::{Archive, Error, Result};

const DATABASE: &str = "io.containerd.metadata.v1.bolt/meta.db";
const CONTENT: &str = "io.containerd.content.v1.content";
/// Number of attempts to read the names if containerd changes them meanwhile.
const TRIES: usize = 20;
/// Limits of the manifests in an index: number, and depth.
const MOST_MANIFESTS: usize = 512;
const DEEPEST: usize = 4;
/// Limit of the total size of an image's manifests.
const MOST_BYTES: u64 = 64 << 20;

/// Returns the images of a namespace below containerd's `root`, which may be in use. `None` if the namespace does not
/// exist.
pub fn containerd_images(root: &Path, namespace: &str) -> Result<Option<Vec<StoredImage>>> {
    let Some(names) = names(&root.join(DATABASE), namespace)? else {
        return Ok(None);
    };
    let mut images = Vec::new();
    for (top, names) in names {
        let names: Vec<String> = names
            .into_iter()
            .filter(|name| is_name_of(name, &top) && !is_internal(name))
            .collect();
        if names.is_empty() {
            continue;
        }
        let (content, id, known) = (root.join(CONTENT), top.to_string(), names.clone());
        images.push(StoredImage {
            id,
            names,
            make: Box::new(move || image(&content, &top, &known)),
        });
    }
    Ok(Some(images))
}

/// Returns whether a name is internal to containerd or Docker: an ID as a name, or a dangling image.
fn is_internal(name: &str) -> bool {
    name.starts_with("sha256:") || name.starts_with("moby-dangling@")
}

type Names = BTreeMap<Digest, Vec<String>>;

fn names(database: &Path, namespace: &str) -> Result<Option<Names>> {
    for _ in 0..TRIES {
        let bolt = Bolt::open(database)?;
        let names = names_in(&bolt, namespace);
        if bolt.is_unchanged() {
            return names;
        }
    }
    let what = database.display().to_string();
    let why = "the database changes during the read; stop containerd, and try again";
    Err(Error::invalid(what, why))
}

pub(crate) fn names_in<P: crate::bolt::Pages>(
    bolt: &Bolt<P>,
    namespace: &str,
) -> Result<Option<Names>> {
    let Some(images) = bolt.bucket(&["v1", namespace, "images"])? else {
        return Ok(None);
    };
    let mut names = Names::new();
    for (name, value) in bolt.entries(&images)? {
        let (Ok(name), Value::Bucket(image)) = (String::from_utf8(name), value) else {
            continue;
        };
        let fields = bolt.entries(&image)?;
        let target = fields.into_iter().find(|(key, _)| key == b"target");
        let Some((_, Value::Bucket(target))) = target else {
            continue;
        };
        let fields = bolt.entries(&target)?;
        let digest = fields.into_iter().find(|(key, _)| key == b"digest");
        if let Some((_, Value::Plain(digest))) = digest
            && let Some(digest) = Digest::parse(&String::from_utf8_lossy(&digest))
        {
            names.entry(digest).or_default().push(name);
        }
    }
    Ok(Some(names))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    media_type: String,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
    size: u64,
}

/// Builds an archive of an image; if it has several platforms, of those that are complete.
pub(super) fn image(content: &Path, top: &Digest, names: &[String]) -> Result<Archive> {
    let bytes = blob(content, top)?;
    let parsed = parse(top, &bytes)?;
    let media_type = match parsed.media_type.as_str() {
        "" if parsed.manifests.is_some() => "application/vnd.oci.image.index.v1+json",
        "" => "application/vnd.oci.image.manifest.v1+json",
        named => named,
    };
    let mut archive = begin(media_type, top, bytes.len(), names);
    let (mut whole, mut seen, mut read, mut missing) = (0, 0, 0_u64, None);
    let mut ahead = vec![(top.clone(), DEEPEST)];
    while let Some((digest, deep)) = ahead.pop() {
        if archive.has(&digest.blob_path()) {
            continue;
        }
        let bytes = match blob(content, &digest) {
            Err(error) if error.is_missing() => continue,
            bytes => bytes?,
        };
        let size = bytes.len() as u64;
        read += size;
        if read > MOST_BYTES {
            let why = "its manifests are too large";
            return Err(Error::invalid(top.to_string(), why));
        }
        let parsed = parse(&digest, &bytes)?;
        let path = content.join(digest.blob_path());
        if let Some(manifests) = parsed.manifests {
            seen += manifests.len();
            if seen > MOST_MANIFESTS || deep == 0 {
                return Err(Error::invalid(top.to_string(), "it has too many manifests"));
            }
            archive.file(digest.blob_path(), path, size);
            let below = manifests.iter().filter_map(|it| Digest::parse(&it.digest));
            ahead.extend(below.map(|digest| (digest, deep - 1)));
            continue;
        }
        if parsed.layers.len() > MOST_LAYERS {
            return Err(Error::invalid(digest.to_string(), "it has too many layers"));
        }
        let blobs = parsed.config.iter().chain(&parsed.layers);
        match blobs_here(content, blobs) {
            Ok(blobs) => {
                whole += 1;
                archive.file(digest.blob_path(), path, size);
                for (digest, path, size) in blobs {
                    if !archive.has(&digest.blob_path()) {
                        archive.file(digest.blob_path(), path, size);
                    }
                }
            }
            Err(lost) => missing = missing.or(Some(lost)),
        }
    }
    match (whole, missing) {
        (0, Some(lost)) => Err(Error::invalid(
            lost,
            "is missing, because containerd discarded the compressed layers \
             (discard_unpacked_layers); pull the image again",
        )),
        (0, None) => Err(Error::invalid(
            top.to_string(),
            "all its manifests are missing; pull the image again",
        )),
        _ => Ok(archive),
    }
}

type Blob = (Digest, std::path::PathBuf, u64);

/// Returns the paths of these blobs, or the first missing one.
fn blobs_here<'a>(
    content: &Path,
    blobs: impl Iterator<Item = &'a Descriptor>,
) -> Result<Vec<Blob>, String> {
    blobs
        .map(|blob| {
            let digest = Digest::parse(&blob.digest).ok_or(&blob.digest)?;
            let path = content.join(digest.blob_path());
            let length = std::fs::symlink_metadata(&path).map(|found| found.len());
            match length {
                Ok(length) if length == blob.size => Ok((digest, path, length)),
                _ => Err(blob.digest.clone()),
            }
        })
        .collect()
}

fn blob(content: &Path, digest: &Digest) -> Result<Vec<u8>> {
    document(&content.join(digest.blob_path()))
}

fn parse(digest: &Digest, bytes: &[u8]) -> Result<Document> {
    serde_json::from_slice(bytes).map_err(|error| Error::invalid(digest.to_string(), error))
}
