//! Verifies the data on disk against its digests.

use std::fs::File;
use std::io::Write;

use crate::digest::Hasher;
use crate::lazy;
use crate::store::{Form, LayerRecord, Sealed, Soundness, Store};
use crate::tape::play;
use crate::{Digest, Error, Result};

/// The result of [`crate::Images::verify`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of layers whose files match their digest.
    pub sound: usize,
    /// Number of layers that cannot be checked: their archive writes a file twice, so that it cannot be
    /// reconstructed.
    pub unchecked: usize,
    /// Damaged layers, and whether they were repaired.
    pub broken: Vec<BrokenLayer>,
    /// Layers that cannot get their SELinux label, so that no container can use them. They may be intact, so a new
    /// pull would not help.
    pub unlabelled: Vec<UnlabelledLayer>,
}

/// A layer that is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenLayer {
    /// The digest of its archive.
    pub diff_id: Digest,
    /// The problem.
    pub reason: String,
    /// Ids of the images that use it.
    pub images: Vec<Digest>,
    /// Whether it was pulled again.
    pub repaired: bool,
}

/// A layer that cannot get its SELinux label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlabelledLayer {
    /// The digest of its archive.
    pub diff_id: Digest,
    /// The error, and what to do about it.
    pub reason: String,
    /// Ids of the images that use it.
    pub images: Vec<Digest>,
}

/// Reads every file of a layer and compares the digest of the resulting archive. Blocks.
pub(crate) fn check(store: &Store, layer: &LayerRecord) -> Soundness {
    let root = match store.mounted(&layer.key, &layer.form) {
        Ok(root) => root,
        Err(error @ Error::Unlabelled { .. }) => {
            return Soundness::Unlabelled(orlop_text::with_causes(&error));
        }
        Err(error) => return Soundness::Broken(orlop_text::with_causes(&error)),
    };
    if !root.is_dir() {
        return Soundness::Broken("its directory is missing".to_owned());
    }
    match &layer.form {
        Form::Lazy(_) => return lazy::check(store, layer),
        Form::Erofs(Sealed {
            digest: Some(digest),
            ..
        }) => return check_file(store, layer, digest),
        _ => {}
    }
    if !layer.replayable {
        return Soundness::Unchecked;
    }
    match archive_digest(store, layer) {
        Ok(digest) if digest == layer.diff_id => Soundness::Sound,
        Ok(digest) => Soundness::Broken(format!("its files have the digest {digest}")),
        Err(error) => Soundness::Broken(orlop_text::with_causes(&error)),
    }
}

/// Checks a layer without a tape, which was lazy or is an unchanged image file. Its file must match the stored
/// digest.
fn check_file(store: &Store, layer: &LayerRecord, expected: &Digest) -> Soundness {
    let path = store.layout().layer_image(&layer.key);
    match File::open(&path).and_then(|file| expected.of_all_like(file)) {
        Ok(digest) if digest == *expected => Soundness::Sound,
        Ok(digest) => Soundness::Broken(format!("its file has the digest {digest}")),
        Err(error) => Soundness::Broken(format!("reading {}: {error}", path.display())),
    }
}

fn archive_digest(store: &Store, layer: &LayerRecord) -> Result<Digest> {
    let mut hasher = Hasher::like(Some(&layer.diff_id));
    write_archive(store, layer, &mut hasher)?;
    Ok(hasher.finish())
}

/// Writes a layer's archive. Blocks.
pub(crate) fn write_archive(
    store: &Store,
    layer: &LayerRecord,
    out: &mut impl Write,
) -> Result<()> {
    if store.layout().layer_toc(&layer.key).exists() {
        return Err(Error::Unsupported(format!(
            "layer {} was pulled lazily and has no archive",
            layer.diff_id
        )));
    }
    if layer.is_published() {
        let path = store.layout().layer_image(&layer.key);
        let copied = File::open(&path).and_then(|mut file| std::io::copy(&mut file, out));
        return copied
            .map(drop)
            .map_err(|error| Error::io(format!("exporting {}", path.display()), error));
    }
    if !layer.replayable {
        return Err(Error::Unsupported(format!(
            "the archive of layer {} writes a file twice and cannot be reassembled",
            layer.diff_id
        )));
    }
    play(
        &store.layout().layer_tape(&layer.key),
        &store.mounted(&layer.key, &layer.form)?,
        out,
    )
}
