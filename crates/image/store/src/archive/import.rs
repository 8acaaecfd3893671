//! Imports images: OCI image layouts and `docker save` archives in a directory. Every path is resolved beneath that
//! directory.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open};
use serde::Deserialize;
use serde_json::json;

use crate::artifact::Artifact;
use crate::blocking::blocking;
use crate::decryption::KeysOf;
use crate::document::Document;
use crate::manifest::{Document as ManifestDocument, Manifest, choose};
use crate::media_type::{OCI_CONFIG, OCI_LAYER, OCI_MANIFEST};
use crate::pull::{Context, Named, Origin, Sources, Tracker, check, fetch_layers, of_manifest};
use crate::unpack::open_beneath;
use crate::{Digest, Error, ImageConfig, Reference, Result, Selector};

/// Imports every image below `dir`; images without a name get `name`. Returns their ids and configurations.
pub(crate) async fn import(
    context: &Context,
    dir: &Path,
    name: Option<Reference>,
) -> Result<Vec<(Digest, ImageConfig)>> {
    let (path, config) = (dir.to_owned(), context.config.clone());
    let found =
        blocking(move || Source::open(&path, config.limits.manifest_bytes)?.find(&config)).await?;
    let mut imported = Vec::new();
    for image in found {
        let what = image
            .names
            .first()
            .map_or_else(|| image.config.digest.to_string(), ToString::to_string);
        let config = of_manifest(&what, &image.manifest, &image.config)?;
        check(context, &what, &image.manifest, &config)?;
        let tracker = Tracker::new(what.clone());
        let keys = &context.config.keys;
        let secrets = keys.open(&what, &image.manifest, &KeysOf::Node).await?;
        let sources = Sources {
            lazily: vec![None; image.manifest.layers.len()],
            origins: image.origins,
            secrets,
        };
        let wanted = (&image.manifest, &config);
        let layers = fetch_layers(context, &what, wanted, sources, &tracker).await?;
        let names = if image.names.is_empty() {
            name.iter().cloned().collect()
        } else {
            image.names
        };
        let id = image.config.digest;
        let named = Named {
            is_encrypted: image.manifest.is_encrypted(),
            proven: config.proven_names(),
            names,
            handler: String::new(),
            layers,
            manifest: image.document,
            config: image.config,
            evidence: None,
        };
        let store = Arc::clone(&context.store);
        blocking(move || named.put(&store)).await?;
        imported.push((id, config));
    }
    Ok(imported)
}

/// An image found in a directory.
struct Found {
    names: Vec<Reference>,
    manifest: Manifest,
    document: Document,
    config: Document,
    origins: Vec<Origin<'static>>,
}

/// A directory with images.
struct Source {
    dir: Arc<OwnedFd>,
    limit: u64,
}

#[derive(Deserialize)]
struct LayoutIndex {
    #[serde(default)]
    manifests: Vec<LayoutEntry>,
}

#[derive(Deserialize)]
struct LayoutEntry {
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerEntry {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

impl Source {
    fn open(path: &Path, limit: u64) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir =
            open(path, flags, Mode::empty()).map_err(|error| Error::at("opening", path, error))?;
        Ok(Self {
            dir: Arc::new(dir),
            limit,
        })
    }

    fn find(&self, config: &crate::Config) -> Result<Vec<Found>> {
        // Newer versions of `docker save` write both formats; the layout contains more information.
        if let Some(index) = self.read("index.json")? {
            return self.layout(&index, config);
        }
        match self.read("manifest.json")? {
            Some(manifest) => self.docker(&manifest),
            None => Err(Error::Unsupported(
                "neither an OCI image layout (index.json) nor a docker archive (manifest.json)"
                    .to_owned(),
            )),
        }
    }

    fn layout(&self, index: &[u8], config: &crate::Config) -> Result<Vec<Found>> {
        let what = "index.json";
        let ManifestDocument::Index(entries) = ManifestDocument::parse(what, index, None)? else {
            return Err(Error::invalid(what, "it is not an index"));
        };
        let annotated: LayoutIndex =
            serde_json::from_slice(index).map_err(|error| Error::invalid(what, error))?;
        let mut found = Vec::new();
        for (entry, LayoutEntry { annotations }) in entries.iter().zip(annotated.manifests) {
            let text = annotations
                .get("io.containerd.image.name")
                .or_else(|| annotations.get("org.opencontainers.image.ref.name"));
            let mut names = Vec::new();
            // The standard's key may contain a bare tag, which is no complete name.
            if let Some(text) = text.filter(|text| text.contains(['/', ':'])) {
                let name: Reference = text.parse()?;
                let by_digest = Selector::Digest(entry.digest);
                names.push(Reference::new(name.repository().clone(), by_digest));
                names.insert(0, name);
            }
            let (manifest, document) = self.manifest(entry.digest, config)?;
            let is_artifact = Artifact::of(&entry.digest.to_string(), &manifest)?.is_some();
            let config = if is_artifact {
                document.clone()
            } else {
                self.blob(manifest.config.digest)?
            };
            let origins = self.origins(&manifest, &config)?;
            found.push(Found {
                names,
                manifest,
                document,
                config,
                origins,
            });
        }
        Ok(found)
    }

    /// Returns the locations of the layers: by the digests in the manifest, or as plain archives by the digests in
    /// the configuration.
    fn origins(&self, manifest: &Manifest, config: &Document) -> Result<Vec<Origin<'static>>> {
        let origin = |digest: &Digest, named| Origin::File {
            dir: Arc::clone(&self.dir),
            path: digest.blob_path().into_bytes(),
            named,
        };
        // A layer without an expected archive digest can only be identified by its blob.
        let parsed = of_manifest("", manifest, config).ok();
        let planned = parsed.map_or_else(Vec::new, |config| config.plan(manifest));
        let mut origins = Vec::with_capacity(manifest.layers.len());
        for (at, layer) in manifest.layers.iter().enumerate() {
            let plain = planned.get(at).and_then(|it| it.diff_id.as_ref());
            let origin = match plain {
                Some(plain)
                    if self.file(&layer.digest.blob_path())?.is_none()
                        && self.file(&plain.blob_path())?.is_some() =>
                {
                    origin(plain, false)
                }
                _ => origin(&layer.digest, true),
            };
            origins.push(origin);
        }
        Ok(origins)
    }

    fn manifest(&self, digest: Digest, config: &crate::Config) -> Result<(Manifest, Document)> {
        let mut digest = digest;
        for _ in 0..4 {
            let document = self.blob(digest)?;
            let what = digest.to_string();
            match ManifestDocument::parse(&what, &document.bytes, None)? {
                ManifestDocument::Manifest(manifest) => return Ok((*manifest, document)),
                ManifestDocument::Index(entries) => {
                    digest = choose(&what, &entries, &config.platform)?.digest;
                }
            }
        }
        Err(Error::invalid(
            "index.json",
            "its indexes are nested too deeply",
        ))
    }

    fn docker(&self, manifest: &[u8]) -> Result<Vec<Found>> {
        let what = "manifest.json";
        let entries: Vec<DockerEntry> =
            serde_json::from_slice(manifest).map_err(|error| Error::invalid(what, error))?;
        entries
            .into_iter()
            .map(|entry| self.docker_image(entry))
            .collect()
    }

    fn docker_image(&self, entry: DockerEntry) -> Result<Found> {
        let bytes = self.read(&entry.config)?.ok_or_else(|| {
            Error::invalid("manifest.json", format!("{:?} is missing", entry.config))
        })?;
        let config = Document {
            digest: Digest::of(&bytes),
            bytes: bytes.into(),
        };
        let parsed = ImageConfig::parse(&entry.config, &config.bytes)?;
        // This format has no manifest, so an equivalent one is created.
        let layers = parsed
            .diff_ids
            .iter()
            .zip(&entry.layers)
            .map(|(diff_id, path)| {
                let size = self.size(path)?;
                Ok(json!({ "mediaType": OCI_LAYER, "digest": diff_id.to_string(), "size": size }))
            });
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": {
                "mediaType": OCI_CONFIG,
                "digest": config.digest.to_string(),
                "size": config.bytes.len(),
            },
            "layers": layers.collect::<Result<Vec<_>>>()?,
        });
        let bytes = manifest.to_string().into_bytes();
        let document = Document {
            digest: Digest::of(&bytes),
            bytes: bytes.into(),
        };
        let ManifestDocument::Manifest(manifest) =
            ManifestDocument::parse("manifest.json", &document.bytes, None)?
        else {
            return Err(Error::invalid("manifest.json", "it is not a manifest"));
        };
        let names = entry.repo_tags.unwrap_or_default();
        let names = names
            .iter()
            .map(|name| name.parse())
            .collect::<Result<_>>()?;
        let origin = |path: String| {
            let path = path.into_bytes();
            // The layer may be compressed, so its digest differs from that of its archive.
            Origin::File {
                dir: Arc::clone(&self.dir),
                path,
                named: false,
            }
        };
        let origins = entry.layers.into_iter().map(origin).collect();
        Ok(Found {
            names,
            manifest: *manifest,
            document,
            config,
            origins,
        })
    }

    /// Reads a blob of an OCI layout and checks its digest.
    fn blob(&self, digest: Digest) -> Result<Document> {
        let path = digest.blob_path();
        let bytes = self
            .read(&path)?
            .ok_or_else(|| Error::invalid("index.json", format!("{path} is missing")))?;
        let actual = digest.like(&bytes);
        if actual != digest {
            return Err(Error::DigestMismatch {
                what: path,
                expected: Box::new(digest),
                actual: Box::new(actual),
            });
        }
        Ok(Document {
            digest,
            bytes: bytes.into(),
        })
    }

    fn size(&self, path: &str) -> Result<u64> {
        let file = self
            .file(path)?
            .ok_or_else(|| Error::invalid("manifest.json", format!("{path:?} is missing")))?;
        file.metadata()
            .map(|metadata| metadata.len())
            .map_err(|error| failed(path, error))
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.file(path)? else {
            return Ok(None);
        };
        match orlop_fs::read_whole(file, self.limit) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(Error::too_large(
                format!("{path:?}"),
                format!("{} bytes", self.limit),
            )),
            read => read.map(Some).map_err(|error| failed(path, error)),
        }
    }

    fn file(&self, path: &str) -> Result<Option<File>> {
        // Without NONBLOCK, opening a named pipe would block forever.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match open_beneath(&*self.dir, path.as_bytes(), flags) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(failed(path, error.into())),
        }
    }
}

fn failed(path: &str, error: std::io::Error) -> Error {
    Error::io(format!("reading {path:?} of an image archive"), error)
}
