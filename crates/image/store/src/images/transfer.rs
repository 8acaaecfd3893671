//! Imports and exports images.

use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_pool::{Place, Refused};

use super::find::find;
use super::front::Images;
use super::image::Image;
use crate::archive::{self, ExportFormat, ExportImage};
use crate::blocking::blocking;
use crate::registries::names_here;
use crate::store::Hold;
use crate::unpack::{Layer, LayerMemory, unpack};
use crate::{Error, ImageConfig, Reference, Result};

/// Threads that read and write archives, which may wait for slow clients.
static ARCHIVES: Place = Place::new("importing and exporting archives", 16, 16, 64);

/// The source of an import.
pub enum ImportSource {
    /// A directory with an OCI image layout or an unpacked docker archive.
    Directory(PathBuf),
    /// An archive of either format, plain or compressed with gzip or zstd.
    Stream(Box<dyn Read + Send>),
}

impl Images {
    /// Imports every image of an OCI image layout or docker archive. Images without a name get `name`.
    pub async fn import(&self, source: ImportSource, name: Option<&str>) -> Result<Vec<Image>> {
        let name = name.map(str::parse::<Reference>).transpose()?;
        let context = self.context();
        // Keeps the unpacked files until the import is done.
        let scratch;
        let dir = match source {
            ImportSource::Directory(dir) => dir,
            ImportSource::Stream(stream) => {
                let (store, limits) = (Arc::clone(self.store()), context.config.limits.clone());
                scratch = at_a_client_s_pace(move || {
                    let scratch = store.layout().scratch("import")?;
                    let root = scratch.path().join("files");
                    std::fs::DirBuilder::new()
                        .mode(0o700)
                        .create(&root)
                        .map_err(|error| Error::at("creating", &root, error))?;
                    let archive = Layer {
                        what: "the archive",
                        blob: None,
                        diff_id: None,
                        secret: None,
                        file: None,
                        abandon: &|| {},
                        spending: &(),
                        memory: &LayerMemory::of_client(),
                    };
                    unpack(&archive, stream, (), &root, &limits)?;
                    Ok(scratch)
                })
                .await?;
                scratch.path().join("files")
            }
        };
        let imported = archive::import(&context, &dir, name).await?;
        let mut images = Vec::new();
        for (id, config) in imported {
            self.configs().write().insert(id, Arc::new(config));
            images.extend(self.get(&id));
        }
        Ok(images)
    }

    /// Exports images, each by any of its names, as one tar archive. The images keep their ids. Layers are
    /// uncompressed, so the manifests get other digests.
    pub async fn export(
        &self,
        names: &[&str],
        format: ExportFormat,
        out: impl Write + Send + 'static,
    ) -> Result<()> {
        let (images, holds) = self.to_export(names).await?;
        let store = Arc::clone(self.store());
        at_a_client_s_pace(move || {
            let _holds = holds;
            archive::export(&store, &images, format, out)
        })
        .await
    }

    /// Exports images as an OCI image layout into the empty directory `dir`.
    pub async fn export_directory(&self, names: &[&str], dir: &Path) -> Result<()> {
        let (images, holds) = self.to_export(names).await?;
        let (store, dir) = (Arc::clone(self.store()), dir.to_owned());
        blocking(move || {
            let _holds = holds;
            archive::export_directory(&store, &images, &dir)
        })
        .await
    }

    async fn to_export(&self, names: &[&str]) -> Result<(Vec<ExportImage>, Vec<Hold>)> {
        for name in names {
            if let Some(image) = self.find(name).await? {
                self.with_archives(&image.id).await?;
            }
        }
        let store = Arc::clone(self.store());
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let registries = self.context().config.registries.clone();
        blocking(move || {
            let full = names.iter().map(|name| names_here(&registries, name));
            let full: Vec<_> = full.collect::<Result<_>>()?;
            let mut found = Vec::new();
            let mut holds = Vec::new();
            {
                let state = store.state();
                for (name, full) in names.into_iter().zip(full) {
                    let record = find(&state, &name, &full)?.ok_or(Error::NotFound(name))?;
                    found.push(record.clone());
                }
            }
            let mut images = Vec::new();
            for record in found {
                holds.extend(record.layers.iter().map(|key| store.hold(*key)));
                let config = store
                    .document(&record.id)?
                    .ok_or_else(|| Error::NotFound(record.id.to_string()))?;
                if record.is_encrypted {
                    return Err(Error::Unsupported(format!(
                        "{} is encrypted and cannot be exported, because the export would not be \
                         encrypted; copy the image from its registry",
                        record.id
                    )));
                }
                if record.is_artifact() {
                    return Err(Error::Unsupported(format!(
                        "{} is an artifact, and artifacts cannot be exported; pull it on the node that needs it",
                        record.id
                    )));
                }
                if ImageConfig::parse("", &config.bytes)?.module.is_some() {
                    return Err(Error::Unsupported(format!(
                        "{} is a WebAssembly module, and such images cannot be exported; pull it on the node that needs it",
                        record.id
                    )));
                }
                let state = store.state();
                let layers = record
                    .layers
                    .iter()
                    .map(|key| state.layers.get(key).cloned());
                let layers = layers
                    .collect::<Option<Vec<_>>>()
                    .ok_or_else(|| Error::NotFound(record.id.to_string()))?;
                images.push(ExportImage {
                    tags: record.tags.into_iter().collect(),
                    config,
                    layers,
                });
            }
            Ok((images, holds))
        })
        .await
    }
}

/// Runs disk work that waits for a client, which may never continue.
async fn at_a_client_s_pace<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    ARCHIVES.run(work).await.map_err(|refused| match refused {
        Refused::Full { .. } => Error::Crowded(refused.to_string()),
        refused => Error::store("importing or exporting an archive", refused),
    })?
}
