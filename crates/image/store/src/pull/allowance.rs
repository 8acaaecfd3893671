//! Limit of an image's total size: its downloaded layers and their unpacked content.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::Limits;
use crate::manifest::Manifest;
use crate::unpack::Spending;
use crate::{Error, Result};

/// The remaining size allowance of an image, shared by its layers.
#[derive(Debug)]
pub(crate) struct Allowance {
    what: String,
    limit: u64,
    left: AtomicU64,
}

/// The share that a layer has used. It is returned on drop, unless the layer is kept.
#[derive(Debug)]
pub(crate) struct Spent {
    from: Arc<Allowance>,
    bytes: AtomicU64,
}

impl Allowance {
    /// Returns the limit minus the layer sizes in the manifest. Fails if the manifest announces more than the limit.
    pub(super) fn of(what: &str, limits: &Limits, manifest: &Manifest) -> Result<Arc<Self>> {
        let sizes = manifest.layers.iter().map(|layer| layer.size);
        let announced = sizes.fold(0, u64::saturating_add);
        let limit = limits.image_bytes;
        let left = limit.checked_sub(announced).ok_or_else(|| {
            let layers = format!("the download size of {what} ({announced} bytes)");
            too_large(layers, limit)
        })?;
        Ok(Arc::new(Self {
            what: what.to_owned(),
            limit,
            left: AtomicU64::new(left),
        }))
    }

    /// Returns an empty share for one layer.
    pub(super) fn for_layer(self: &Arc<Self>) -> Spent {
        Spent {
            from: Arc::clone(self),
            bytes: AtomicU64::new(0),
        }
    }
}

impl Spent {
    /// Keeps the layer, and so the share that it uses.
    pub(super) fn keep(mut self) {
        *self.bytes.get_mut() = 0;
    }
}

impl Spending for Spent {
    fn spend(&self, bytes: u64) -> Result<()> {
        let take = |left: u64| left.checked_sub(bytes);
        let taken = self
            .from
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_err() {
            let what = format!("the size of {}, downloaded and unpacked,", self.from.what);
            return Err(too_large(what, self.from.limit));
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Spent {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        self.from.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

fn too_large(what: String, limit: u64) -> Error {
    Error::too_large(
        what,
        format!("{limit} bytes for one image (images.max_size)"),
    )
}
