//! Images of Docker, in its own store or in that of containerd.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::containerd::containerd_images;
use super::image::{MOST_LAYERS, StoredImage, document, list};
use crate::archive::Lengths;
use crate::digest::Digest;
use crate::{Archive, Error, Result};

/// Namespace of Docker's images in containerd.
const NAMESPACE: &str = "moby";
/// Directory of Docker's own containerd, below Docker's root.
const OWN_CONTAINERD: &str = "containerd/daemon";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Repositories {
    repositories: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    rootfs: RootFs,
}

#[derive(Deserialize, Default)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

/// Returns the images of an engine with its data in `root`. `containerd` is the root of the machine's containerd, which
/// newer engines may use as their store.
pub fn docker_images(root: &Path, containerd: Option<&Path>) -> Result<Vec<StoredImage>> {
    let mut images = Vec::new();
    let own = root.join(OWN_CONTAINERD);
    for store in [Some(own.as_path()), containerd].into_iter().flatten() {
        match containerd_images(store, NAMESPACE) {
            Ok(found) => images.extend(found.unwrap_or_default()),
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(error),
        }
    }
    let dir = root.join("image");
    let drivers = match fs::read_dir(&dir) {
        Ok(drivers) => drivers,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !images.is_empty() => {
            return Ok(images);
        }
        Err(error) => return Err(Error::at("cannot list", &dir, error)),
    };
    for driver in drivers {
        let driver = driver.map_err(|error| Error::at("cannot list", &dir, error))?;
        if driver.path().join("repositories.json").is_file() {
            let name = driver.file_name().to_string_lossy().into_owned();
            images.extend(of_driver(root, &name)?);
        }
    }
    Ok(images)
}

fn of_driver(root: &Path, driver: &str) -> Result<Vec<StoredImage>> {
    let dir = root.join("image").join(driver);
    let repositories: Repositories = list(&dir.join("repositories.json"))?;
    let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, id) in repositories.repositories.values().flatten() {
        let names = names.entry(id).or_default();
        // The manifest with this digest is not stored.
        if !name.contains('@') {
            names.push(name.clone());
        }
    }
    let store = Arc::new(Store {
        root: root.to_owned(),
        driver: driver.to_owned(),
        lengths: Lengths::default(),
    });
    let images = names.into_iter().map(|(id, names)| {
        let (store, known, digest) = (Arc::clone(&store), names.clone(), id.to_owned());
        StoredImage {
            id: id.to_owned(),
            names,
            make: Box::new(move || image(&store, &digest, &known)),
        }
    });
    Ok(images.collect())
}

/// The image store of one storage driver.
struct Store {
    root: PathBuf,
    driver: String,
    lengths: Lengths,
}

/// Builds an archive of an image in the format of `docker save`.
fn image(store: &Store, id: &str, names: &[String]) -> Result<Archive> {
    let (root, driver) = (store.root.as_path(), store.driver.as_str());
    let dir = root.join("image").join(driver);
    let digest = Digest::parse(id).ok_or_else(|| Error::invalid(id, "it is not a valid digest"))?;
    let config = document(&dir.join("imagedb/content/sha256").join(digest.digits()))?;
    let parsed: Config =
        serde_json::from_slice(&config).map_err(|error| Error::invalid(id, error))?;
    if parsed.rootfs.diff_ids.len() > MOST_LAYERS {
        return Err(Error::invalid(id, "it has too many layers"));
    }
    let mut archive = Archive::default();
    let config_name = format!("{}.json", digest.digits());
    let (mut layers, mut chain) = (Vec::new(), String::new());
    for diff_id in &parsed.rootfs.diff_ids {
        let diff_id = Digest::parse(diff_id);
        let diff_id = diff_id.ok_or_else(|| Error::invalid(id, "a layer has no digest"))?;
        chain = if chain.is_empty() {
            diff_id.to_string()
        } else {
            Digest::of(format!("{chain} {diff_id}").as_bytes()).to_string()
        };
        let name = format!("{}.tar", diff_id.digits());
        if !archive.has(&name) {
            let of_chain = chain.strip_prefix("sha256:").unwrap_or_default();
            let record = dir.join("layerdb/sha256").join(of_chain);
            let cache = document(&record.join("cache-id"))?;
            let files = files_of(root, driver, &String::from_utf8_lossy(&cache))?;
            archive
                .layer(
                    name.as_str(),
                    record.join("tar-split.json.gz"),
                    files,
                    &store.lengths,
                )
                .map_err(|error| Error::at("cannot read the layer", &record, error))?;
        }
        layers.push(name);
    }
    let manifest = json!([{ "Config": config_name, "RepoTags": names, "Layers": layers }]);
    archive.bytes(config_name, config);
    archive.bytes("manifest.json", manifest.to_string().into_bytes());
    Ok(archive)
}

fn files_of(root: &Path, driver: &str, cache: &str) -> Result<PathBuf> {
    let cache = cache.trim();
    if cache.is_empty()
        || !cache
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    {
        return Err(Error::invalid("a layer", "it has no directory name"));
    }
    let dir = match driver {
        "overlay2" | "fuse-overlayfs" => root.join(driver).join(cache).join("diff"),
        "vfs" => root.join("vfs/dir").join(cache),
        "btrfs" => root.join("btrfs/subvolumes").join(cache),
        other => {
            let why = "its layers are not directories; pull the image again";
            return Err(Error::invalid(format!("the storage driver {other}"), why));
        }
    };
    Ok(dir)
}
