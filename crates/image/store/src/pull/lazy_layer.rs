//! Decides from the manifest and its index how a layer can be pulled lazily.

use orlop_toc::{Claim, Compression, Limits, Toc, soci};

use crate::manifest::{Descriptor, Manifest};
use crate::registry::{Keyring, Remote};
use crate::{Digest, Error};

/// The way to pull a layer lazily.
#[derive(Debug, Clone)]
pub(crate) struct Lazily {
    pub(super) way: Way,
    /// Key of the layer, unless its content depends on the layers below.
    pub(super) key: Digest,
    /// Whether to pull it lazily if it is not stored.
    pub(super) may_begin: bool,
    /// Credentials for its registry.
    pub(super) keyring: Keyring,
}

#[derive(Debug, Clone)]
pub(super) enum Way {
    /// The table of contents is part of the layer.
    Claim(Claim),
    /// The table of contents is a separate blob.
    Soci(Digest, Toc),
}

impl Lazily {
    /// Returns the lazy form that the manifest or a SOCI index describes for a layer.
    pub(super) fn of(
        blob: &Descriptor,
        diff_id: &Digest,
        index: Option<&soci::Manifest>,
    ) -> Option<Self> {
        let way = by_claim(blob).or_else(|| by_index(blob, index?))?;
        let table = match &way {
            Way::Claim(claim) => claim.digests(),
            Way::Soci(ztoc, _) => format!("SOCI {ztoc}"),
        };
        // The archive is not hashed, so a different table of contents must lead to a different layer.
        let name = format!("a lazy layer: {} {diff_id} {table}", blob.digest);
        let key = Digest::of(name.as_bytes());
        Some(Self {
            way,
            key,
            may_begin: false,
            keyring: Keyring::default(),
        })
    }

    /// Returns its key if its content depends on the layers below.
    pub(super) fn above(&self, chain_id: &Digest) -> Digest {
        Digest::chain(Some(chain_id), &self.key)
    }
}

fn by_claim(blob: &Descriptor) -> Option<Way> {
    let compression = if blob.media_type.ends_with("zstd") {
        Compression::Zstd
    } else {
        Compression::Gzip
    };
    let annotation = |name: &str| blob.annotations.get(name).map(String::as_str);
    match Claim::of(compression, annotation) {
        Ok(claim) => claim.map(Way::Claim),
        Err(error) => {
            tracing::info!(layer = %blob.digest, %error, "pulling a layer completely instead of lazily");
            None
        }
    }
}

fn by_index(blob: &Descriptor, index: &soci::Manifest) -> Option<Way> {
    let layer = orlop_toc::Digest::parse(&blob.digest.to_string())?;
    match index.toc(layer, blob.size, &Limits::default()) {
        Ok(found) => {
            let (ztoc, toc) = found?;
            Some(Way::Soci(ztoc.to_string().parse().ok()?, toc))
        }
        Err(error) => {
            tracing::info!(layer = %blob.digest, %error, "pulling a layer completely instead of lazily");
            None
        }
    }
}

/// Fetches the SOCI index that an image's manifest names, if it is valid.
pub(super) async fn soci_index(remote: &Remote, manifest: &Manifest) -> Option<soci::Manifest> {
    let named = manifest.annotations.get(soci::INDEX_DIGEST)?;
    let found = async {
        let digest: Digest = named
            .parse()
            .map_err(|error| Error::invalid("the name of a SOCI index", error))?;
        let expected = orlop_toc::Digest::parse(named).ok_or_else(|| {
            Error::invalid("the name of a SOCI index", "it is not a sha256 digest")
        })?;
        let fetched = remote.manifest(named, Some(digest)).await?;
        let index = soci::Manifest::parse(&fetched.bytes, expected);
        index.map_err(|error| Error::invalid("a SOCI index", orlop_text::with_causes(&error)))
    };
    match found.await {
        Ok(index) => Some(index),
        Err(error) => {
            tracing::info!(index = named, %error, "pulling an image without its SOCI index");
            None
        }
    }
}
