//! Removes layers and documents that are no longer needed.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::layout::{FS, remove_path};
use super::{Change, LayerRecord, Scratch, State, Store};
use crate::clock::now;
use crate::{Digest, Error, Result};

/// Result of a removal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Freed {
    /// Number of removed layers.
    pub layers: usize,
    /// Digests of their archives.
    pub removed: Vec<Digest>,
    /// Bytes freed on disk, including partial downloads.
    pub bytes: u64,
}

impl Freed {
    fn add(&mut self, layer: &LayerRecord, bytes: u64) {
        self.layers += 1;
        self.removed.push(layer.diff_id);
        self.bytes += bytes;
    }
}

impl Store {
    /// Changes the index, then removes the layers and documents that nothing refers to any more. Layers younger than
    /// `grace` stay if they never belonged to an image. Blocks.
    pub(crate) fn update_and_sweep<T>(
        &self,
        grace: Duration,
        decide: impl FnOnce(&State, &mut Change) -> Result<T>,
    ) -> Result<(T, Freed)> {
        let moves = self.moves.lock();
        // Held until the change is visible: a pull either holds a layer before this check, or finds it missing after
        // it.
        let holds = self.holds.lock();
        let mut swept = Vec::new();
        let result = self.index.update(|state, change| {
            let result = decide(state, change)?;
            let mut after = state.clone();
            for (id, record) in &change.images {
                match record {
                    Some(record) => drop(after.images.insert(*id, record.clone())),
                    None => drop(after.images.remove(id)),
                }
            }
            for (owner, record) in &change.leases {
                match record {
                    Some(record) => drop(after.leases.insert(owner.clone(), record.clone())),
                    None => drop(after.leases.remove(owner)),
                }
            }
            let before = referenced(state);
            let young = now().saturating_sub(grace.as_secs());
            for (key, record) in unneeded_layers(&after) {
                let orphaned_now = before.contains(key);
                if !holds.contains_key(key) && (orphaned_now || record.created <= young) {
                    swept.push(record.clone());
                    change.layers.push((*key, None));
                }
            }
            for document in unneeded_documents(state, &after) {
                change.documents.push((document, None));
            }
            Ok(result)
        })?;
        let mut failed = None;
        let strays = self.strays(&holds, &swept).unwrap_or_else(|error| {
            failed = Some(error);
            Vec::new()
        });
        drop(holds);
        let mut freed = Freed::default();
        let mut trash = Vec::new();
        let mut stayed = Vec::new();
        for path in strays {
            match self.move_out(&path) {
                Ok(out) => trash.push(out),
                Err(error) => {
                    self.has_strays.store(true, Ordering::Release);
                    failed.get_or_insert(error);
                }
            }
        }
        for record in swept {
            let bytes = self.layout.disk_bytes(&record);
            match self.throw_away(&record) {
                Ok(out) => {
                    freed.add(&record, bytes);
                    trash.push(out);
                }
                Err(error) => {
                    failed.get_or_insert(error);
                    stayed.push(record);
                }
            }
        }
        if !stayed.is_empty() {
            // Layers that stayed on disk need their records, or no later sweep would find them.
            self.index.update(|_, change| {
                let records = stayed.into_iter().map(|record| (record.key, Some(record)));
                change.layers.extend(records);
                Ok(())
            })?;
        }
        drop(moves);
        // This takes the most time, so it runs without locks.
        drop(trash);
        failed.map_or(Ok((result, freed)), Err)
    }

    /// Moves a layer that is no longer in the index to a scratch directory, to be removed later.
    fn throw_away(&self, record: &LayerRecord) -> Result<Scratch> {
        if let Some(blob) = record.blob {
            let shared = self
                .state()
                .layers
                .values()
                .any(|other| other.blob == record.blob);
            if !shared {
                let path = self.layout.blob(&blob);
                remove_path(&path).map_err(|error| Error::at("removing", &path, error))?;
            }
        }
        // Before the unmount, so that pending reads of missing data cannot block it.
        self.tell_removal(record);
        self.unmount(&record.key)?;
        self.move_out(&self.layout.layer(&record.key))
    }

    fn move_out(&self, layer: &Path) -> Result<Scratch> {
        let out = self.layout.scratch("trash")?;
        match fs::rename(layer, out.path().join(FS)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::at("removing", layer, error))
            }
            _ => Ok(out),
        }
    }

    /// Returns layers on disk that could be neither recorded nor moved back, because the disk was full. Excludes the
    /// layers in `swept`.
    fn strays(
        &self,
        holds: &HashMap<Digest, usize>,
        swept: &[LayerRecord],
    ) -> Result<Vec<PathBuf>> {
        if !self.has_strays.load(Ordering::Acquire) {
            return Ok(Vec::new());
        }
        let dir = self.layout.layers();
        let failed = |error| Error::at("listing", &dir, error);
        let state = self.state();
        let needed = referenced(&state);
        let mut found = Vec::new();
        let mut awaited = false;
        for entry in fs::read_dir(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(key) = Digest::from_hex(&entry.file_name().to_string_lossy()) else {
                continue;
            };
            let is_known = state.layers.contains_key(&key) || swept.iter().any(|it| it.key == key);
            if is_known || needed.contains(&key) {
                continue;
            }
            if holds.contains_key(&key) {
                // A running pull creates it again and records it.
                awaited = true;
            } else {
                found.push(entry.path());
            }
        }
        self.has_strays.store(awaited, Ordering::Release);
        Ok(found)
    }

    /// Moves a broken layer out of the store, even if images refer to it. Blocks.
    pub(crate) fn take_out(&self, key: Digest) -> Result<Scratch> {
        let _moves = self.moves.lock();
        let out = self.layout.scratch("broken")?;
        let record = self.state().layers.get(&key).cloned();
        self.index.update(|_, change| {
            change.layers.push((key, None));
            Ok(())
        })?;
        if let Some(record) = record {
            self.tell_removal(&record);
        }
        self.unmount(&key)?;
        match fs::rename(self.layout.layer(&key), out.path().join(FS)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::at("moving away", &self.layout.layer(&key), error))
            }
            _ => Ok(out),
        }
    }

    /// Restores a layer after [`Self::take_out`], unless it was replaced. Blocks.
    pub(crate) fn put_back(&self, taken: Scratch, record: LayerRecord) -> Result<()> {
        let _moves = self.moves.lock();
        let (from, to) = (taken.path().join(FS), self.layout.layer(&record.key));
        if to.exists() || !from.exists() {
            return Ok(());
        }
        fs::rename(&from, &to).map_err(|error| Error::at("restoring", &to, error))?;
        self.index.update(|_, change| {
            change.layers.push((record.key, Some(record)));
            Ok(())
        })
    }

    /// Keeps a layer after [`Self::take_out`] while a lease holds it, because its mounts would lose their files.
    /// Blocks.
    pub(crate) fn retire(&self, taken: Scratch, key: Digest) -> Result<()> {
        if !is_leased(&self.state(), &key) {
            return Ok(());
        }
        let unique = format!("{}-{:016x}", key.hex(), rand::random::<u64>());
        let to = self.layout.replaced().join(unique);
        fs::rename(taken.path(), &to).map_err(|error| Error::at("keeping", &to, error))
    }

    /// Removes replaced layers that no lease holds any more. Blocks.
    pub(crate) fn sweep_replaced(&self) -> Result<()> {
        let dir = self.layout.replaced();
        for entry in fs::read_dir(&dir).map_err(|error| Error::at("listing", &dir, error))? {
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            let hex = name.to_string_lossy();
            let key = Digest::from_hex(hex.split('-').next().unwrap_or(""));
            if key.is_ok_and(|key| is_leased(&self.state(), &key)) {
                continue;
            }
            let path = entry.path();
            remove_path(&path).map_err(|error| Error::at("removing", &path, error))?;
        }
        Ok(())
    }

    /// Returns the space that the removal of these images would free, without a grace period. Removes nothing.
    /// Blocks.
    pub(crate) fn would_free(&self, images: &[Digest], in_use: &HashSet<Digest>) -> Result<Freed> {
        let mut after = State::clone(&self.state());
        for id in images {
            after.images.remove(id);
        }
        let mut freed = Freed::default();
        let holds = self.holds.lock();
        for (key, record) in unneeded_layers(&after) {
            if !holds.contains_key(key) {
                freed.add(record, self.layout.disk_bytes(record));
            }
        }
        drop(holds);
        for (_, bytes) in self.broken_off(Duration::ZERO, in_use)? {
            freed.bytes += bytes;
        }
        Ok(freed)
    }

    /// Removes downloads that were interrupted longer than `grace` ago. Blocks.
    pub(crate) fn sweep_ingest(&self, grace: Duration, in_use: &HashSet<Digest>) -> Result<u64> {
        let mut freed = 0;
        for (path, bytes) in self.broken_off(grace, in_use)? {
            remove_path(&path).map_err(|error| Error::at("removing", &path, error))?;
            freed += bytes;
        }
        Ok(freed)
    }

    /// Returns the downloads that were interrupted longer than `grace` ago, with the disk space of each.
    fn broken_off(&self, grace: Duration, in_use: &HashSet<Digest>) -> Result<Vec<(PathBuf, u64)>> {
        let dir = self.layout.ingest();
        let mut found = Vec::new();
        for entry in fs::read_dir(&dir).map_err(|error| Error::at("listing", &dir, error))? {
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            let hex = name.to_string_lossy();
            let digest = Digest::from_hex(hex.split('.').next().unwrap_or(""));
            if digest.is_ok_and(|digest| in_use.contains(&digest)) {
                continue;
            }
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let age = metadata
                .modified()
                .ok()
                .and_then(|modified| SystemTime::now().duration_since(modified).ok())
                .unwrap_or_default();
            if age >= grace {
                found.push((entry.path(), metadata.blocks() * 512));
            }
        }
        Ok(found)
    }
}

fn is_leased(state: &State, key: &Digest) -> bool {
    state
        .leases
        .values()
        .any(|lease| lease.layers.contains(key))
}

/// Returns the layers that no image and no lease refers to.
fn unneeded_layers(state: &State) -> impl Iterator<Item = (&Digest, &LayerRecord)> {
    let needed = referenced(state);
    state
        .layers
        .iter()
        .filter(move |(key, _)| !needed.contains(key))
}

fn referenced(state: &State) -> HashSet<Digest> {
    let by_images = state.images.values().flat_map(|image| &image.layers);
    let by_leases = state.leases.values().flat_map(|lease| &lease.layers);
    by_images.chain(by_leases).copied().collect()
}

fn unneeded_documents(before: &State, after: &State) -> Vec<Digest> {
    let documents = |state: &State| -> HashSet<Digest> {
        state
            .images
            .values()
            .flat_map(|image| [image.id, image.manifest])
            .collect()
    };
    documents(before)
        .difference(&documents(after))
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use orlop_testkit::Scratch as Ground;

    use super::*;

    #[test]
    fn a_layer_that_could_not_be_recorded_goes_with_the_next_sweep() {
        let ground = Ground::new();
        let store = Store::open(&ground.path("images"), None).unwrap();
        let [stray, held] = [b"stray", b"held!"].map(|name| Digest::of(name));
        let dirs = [stray, held].map(|key| store.layout.layer(&key));
        for dir in &dirs {
            fs::create_dir_all(dir.join(FS)).unwrap();
        }
        let hold = store.hold(held);
        let sweep = || {
            store
                .update_and_sweep(Duration::ZERO, |_, _| Ok(()))
                .unwrap()
        };
        sweep();
        assert!(dirs[0].exists(), "nobody has told of it");
        store.has_strays.store(true, Ordering::Release);
        sweep();
        assert_eq!([dirs[0].exists(), dirs[1].exists()], [false, true]);
        drop(hold);
        sweep();
        assert!(!dirs[1].exists(), "nobody waits for it any more");
        assert_eq!(fs::read_dir(store.layout.tmp()).unwrap().count(), 0);
    }
}
