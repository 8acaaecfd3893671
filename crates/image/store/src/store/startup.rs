//! Repairs the store at start: adopts or removes what an unclean stop left.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::index::Index;
use super::layout::{Layout, RECORD, remove_path};
use super::{Form, LayerRecord, unmount};
use crate::tape::check_lengths;
use crate::{Digest, Error, Result};

/// After an unclean stop, layers created within this time before the store's last write are checked.
const RECENT: Duration = Duration::from_hours(1);

/// Empties the scratch directory, then makes the index and the layer directories consistent. Forgets images that lost
/// a layer, so that they are pulled again. `used` is the time of the store's last write.
pub(super) fn mend(layout: &Layout, index: &Index, used: SystemTime) -> Result<()> {
    let unclean = layout.running().exists();
    fs::write(layout.running(), b"")
        .map_err(|error| Error::at("writing", &layout.running(), error))?;
    if unclean {
        tracing::info!(root = %layout.root().display(), "the image store was not closed cleanly; checking it");
    }
    for path in entries(&layout.tmp())? {
        remove_path(&path).map_err(|error| Error::at("removing", &path, error))?;
    }
    let found = layer_dirs(layout, index)?;
    remove_unknown_blobs(layout, index, &found)?;
    if unclean {
        remove_torn(layout, index, used)?;
    }
    index.update(|state, change| {
        for (key, record) in &found {
            if !state.layers.contains_key(key) {
                change.layers.push((*key, Some(record.clone())));
            }
        }
        let mut lost: Vec<Digest> = Vec::new();
        for (key, record) in &state.layers {
            if !is_there(layout, record)? {
                lost.push(*key);
            }
        }
        for key in &lost {
            tracing::warn!(layer = %key, "a layer is missing on disk");
            change.layers.push((*key, None));
        }
        let there = |key| {
            !lost.contains(key)
                && (state.layers.contains_key(key) || found.iter().any(|(found, _)| found == key))
        };
        for (id, image) in &state.images {
            if !image.layers.iter().all(there) {
                tracing::warn!(image = %id, tags = ?image.tags, "removed an image that lost a layer; pull it again");
                change.images.push((*id, None));
            }
        }
        Ok(())
    })?;
    let known = |key: &Digest| {
        let is_file = |record: &LayerRecord| record.form != Form::Files;
        index.state().layers.get(key).is_some_and(is_file)
    };
    unmount::sweep(&layout.mounts(), known)
}

/// Removes damaged layers. Layers are synced before they enter the index, so a power cut cannot tear one. If the disk
/// lost data anyway, the newest layers have short or missing files. Layers of containers stay, for `verify` to
/// repair.
fn remove_torn(layout: &Layout, index: &Index, used: SystemTime) -> Result<()> {
    let since = used
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .saturating_sub(RECENT)
        .as_secs();
    let state = index.state();
    let leased: HashSet<&Digest> = state
        .leases
        .values()
        .flat_map(|lease| &lease.layers)
        .collect();
    for (key, record) in &state.layers {
        // Damage to an image file shows when it is mounted.
        if record.created < since || !record.replayable || record.form != Form::Files {
            continue;
        }
        let (tape, root) = (layout.layer_tape(key), layout.layer_fs(key));
        let Err(error) = check_lengths(&tape, &root) else {
            continue;
        };
        if leased.contains(key) {
            tracing::warn!(layer = %key, %error, "a layer is damaged and in use; `orlop image verify --repair` repairs it");
            continue;
        }
        tracing::warn!(layer = %key, %error, "removing a damaged layer");
        let path = layout.layer(key);
        remove_path(&path).map_err(|error| Error::at("removing", &path, error))?;
    }
    Ok(())
}

/// Returns layer directories that are missing in the index, if their record is valid. Removes all others.
fn layer_dirs(layout: &Layout, index: &Index) -> Result<Vec<(Digest, LayerRecord)>> {
    let mut unknown = Vec::new();
    for path in entries(&layout.layers())? {
        let key = path
            .file_name()
            .and_then(|name| Digest::from_hex(std::str::from_utf8(name.as_bytes()).ok()?).ok());
        if key.is_some_and(|key| index.state().layers.contains_key(&key)) {
            continue;
        }
        let text = match orlop_fs::read_file(path.join(RECORD), orlop_fs::SMALL_FILE) {
            Ok(text) => Some(text),
            Err(error) if is_absence(&error) => None,
            Err(error) => return Err(Error::at("reading", &path.join(RECORD), error)),
        };
        let record = text
            .and_then(|text| serde_json::from_slice::<LayerRecord>(&text).ok())
            .filter(|record| Some(record.key) == key);
        let there = record.as_ref().map(|record| is_there(layout, record));
        if let (Some(record), Some(true)) = (record, there.transpose()?) {
            unknown.push((record.key, record));
        } else {
            tracing::warn!(path = %path.display(), "removing a layer directory that has no record");
            remove_path(&path).map_err(|error| Error::at("removing", &path, error))?;
        }
    }
    Ok(unknown)
}

/// Removes kept compressed layers that belong to no layer.
fn remove_unknown_blobs(
    layout: &Layout,
    index: &Index,
    found: &[(Digest, LayerRecord)],
) -> Result<()> {
    let paths = entries(&layout.blobs())?;
    let state = index.state();
    let records = state
        .layers
        .values()
        .chain(found.iter().map(|(_, record)| record));
    let known: Vec<_> = records
        .filter_map(|record| record.blob)
        .map(|blob| layout.blob(&blob))
        .collect();
    for path in paths.iter().filter(|path| !known.contains(path)) {
        remove_path(path).map_err(|error| Error::at("removing", path, error))?;
    }
    Ok(())
}

/// Returns whether a layer's files exist. A disk error is not taken for absence.
fn is_there(layout: &Layout, record: &LayerRecord) -> Result<bool> {
    let path = match record.form {
        Form::Files => layout.layer_fs(&record.key),
        Form::Erofs(_) => layout.layer_image(&record.key),
        Form::Lazy(_) => layout.layer(&record.key).join(orlop_lazy::IMAGE),
    };
    match fs::metadata(&path) {
        Ok(found) => Ok(found.is_dir() == (record.form == Form::Files)),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(Error::at("checking", &path, error)),
    }
}

fn is_absence(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

fn entries(dir: &Path) -> Result<Vec<std::path::PathBuf>> {
    fs::read_dir(dir)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect()
        })
        .map_err(|error| Error::at("listing", dir, error))
}
