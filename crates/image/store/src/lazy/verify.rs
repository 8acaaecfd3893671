//! Verification of the data of a lazy layer on disk.

use std::os::unix::fs::FileExt;

use orlop_toc::Damaged;

use super::layer::{Contents, Layer};
use crate::Error;
use crate::store::{Form, LayerRecord, Soundness, Store};

/// Compares all chunks on disk with their digests. Blocks.
pub(crate) fn check(store: &Store, record: &LayerRecord) -> Soundness {
    let Form::Lazy(lazy) = &record.form else {
        return Soundness::Unchecked;
    };
    let dir = store.layout().layer(&record.key);
    let layer = match Layer::open(record.key, &dir, (lazy.blob, lazy.blob_bytes)) {
        Ok(layer) => layer,
        Err(error) => return Soundness::Broken(orlop_text::with_causes(&error)),
    };
    match compare(&layer) {
        Ok(Compared::Same) => Soundness::Sound,
        Ok(Compared::Unknown) => Soundness::Unchecked,
        Ok(Compared::Different(chunk)) => {
            Soundness::Broken(format!("chunk {chunk} does not match its digest"))
        }
        Err(error) => Soundness::Broken(orlop_text::with_causes(&error)),
    }
}

enum Compared {
    Same,
    /// The content that the digest covers is not stored.
    Unknown,
    Different(u32),
}

fn compare(layer: &Layer) -> Result<Compared, Error> {
    let failed = |error| Error::io("reading a layer", error);
    let damaged = |error: Damaged| Error::invalid("a table of contents", error);
    let Contents { index, plan } = &*layer.contents()?;
    let mut content = Vec::new();
    for (node, position) in plan.places() {
        let size = index
            .node(node)
            .map_err(damaged)?
            .map_or(0, |node| node.size);
        let stretches = plan.stretches(index, &(position..position.saturating_add(size)));
        let stretches = stretches.map_err(damaged)?;
        for stretch in stretches {
            let Some((number, _)) = stretch.from else {
                continue;
            };
            let parts = layer.parts();
            if !parts.has(stretch.image.clone()).map_err(failed)? {
                continue;
            }
            let chunk = index.chunk(number).map_err(damaged)?;
            let length = usize::try_from(stretch.image.end - stretch.image.start);
            content.resize(length.unwrap_or(0), 0);
            let image = parts.image();
            image
                .read_exact_at(&mut content, stretch.image.start)
                .map_err(failed)?;
            match chunk.and_then(|chunk| chunk.is_content(&content)) {
                None => return Ok(Compared::Unknown),
                Some(true) => {}
                Some(false) => return Ok(Compared::Different(number)),
            }
        }
    }
    Ok(Compared::Same)
}
