//! Converts completely downloaded lazy layers to ordinary ones.

use std::fs::{self, File};
use std::io;

use super::layout::{IMAGE, RECORD};
use super::{Form, LayerRecord, Sealed, Store};
use crate::{Digest, Error, Result, verity};

/// Name of a new record before it replaces the old one.
const NEW_RECORD: &str = "layer.json.new";

impl Store {
    /// Converts a lazy layer that is completely on disk to an ordinary one. Blocks.
    pub(crate) fn make_whole(&self, key: &Digest) -> Result<()> {
        let _moves = self.moves.lock();
        let record = self.state().layers.get(key).cloned();
        let Some(mut record) = record.filter(LayerRecord::is_lazy) else {
            return Ok(());
        };
        let sealed = self.seal(key)?;
        record.disk_bytes = sealed.bytes;
        record.form = Form::Erofs(sealed);
        self.rewrite(&record)?;
        self.index.update(|_, change| {
            change.layers.push((*key, Some(record.clone())));
            Ok(())
        })?;
        tracing::info!(layer = %key, "a lazy layer is completely fetched");
        if let Err(error) = self.mount_anew(key, &record.form) {
            // The old mount works as well.
            tracing::warn!(layer = %key, %error, "cannot remount a completely fetched layer; the old mount stays");
        }
        Ok(())
    }

    /// Links the image to the name of a complete one and seals it. The old name stays, because the server may open it
    /// again.
    fn seal(&self, key: &Digest) -> Result<Sealed> {
        let dir = self.layout.layer(key);
        let (from, to) = (dir.join(orlop_lazy::IMAGE), dir.join(IMAGE));
        match fs::hard_link(&from, &to) {
            // An earlier attempt created the link.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked.map_err(|error| Error::at("linking", &to, error))?,
        }
        let failed = |error| Error::at("sealing", &to, error);
        let file = File::open(&to).map_err(failed)?;
        let verity = verity::seal(&file).map_err(failed)?;
        let digest = Digest::of_all(&file).map_err(failed)?;
        Ok(Sealed {
            bytes: file.metadata().map_err(failed)?.len(),
            verity,
            digest: Some(digest),
        })
    }

    /// Replaces the record of a layer durably.
    fn rewrite(&self, record: &LayerRecord) -> Result<()> {
        let dir = self.layout.layer(&record.key);
        let failed = |error| Error::at("writing", &dir.join(RECORD), error);
        let text = serde_json::to_vec(record)
            .map_err(|error| Error::store("encoding a layer record", error))?;
        let new = dir.join(NEW_RECORD);
        fs::write(&new, text).map_err(failed)?;
        File::open(&new)
            .and_then(|it| it.sync_all())
            .map_err(failed)?;
        fs::rename(&new, dir.join(RECORD)).map_err(failed)?;
        File::open(&dir)
            .and_then(|it| it.sync_all())
            .map_err(failed)
    }

    /// Removes a published layer that cannot be served, unless something else needs it. Blocks.
    pub(crate) fn give_up(&self, key: &Digest) -> Result<()> {
        {
            let holds = self.holds.lock();
            let state = self.state();
            let images = state.images.values().flat_map(|image| &image.layers);
            let leases = state.leases.values().flat_map(|lease| &lease.layers);
            let is_needed = images.chain(leases).any(|needed| needed == key);
            // The caller holds the layer too.
            if is_needed || holds.get(key).is_some_and(|count| *count > 1) {
                return Ok(());
            }
        }
        self.take_out(*key).map(drop)
    }

    /// Returns whether lazy layers exist, or layers that were lazy may still be mounted.
    pub(crate) fn may_be_read_lazily(&self) -> bool {
        let state = self.state();
        let lazy = state.layers.values().any(LayerRecord::is_lazy);
        let leased = state.leases.values().flat_map(|lease| &lease.layers);
        lazy || leased
            .into_iter()
            .any(|key| self.layout.layer_toc(key).exists())
    }
}
