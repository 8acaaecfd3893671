//! SOCI index: an image manifest whose layers are ztocs.

use serde::Deserialize;

use crate::error::at_most;
use crate::toc::{Form, Toc};
use crate::{Digest, Error, Limits, Result};

/// The annotation with which an image manifest names its SOCI index, in version 2.
pub const INDEX_DIGEST: &str = "com.amazon.soci.index-digest";

/// The media type of a ztoc. Other blobs of an index describe prefetches.
const ZTOC: &str = "application/octet-stream";
const CONFIG_V1: &str = "application/vnd.amazon.soci.index.v1+json";
const CONFIG_V2: &str = "application/vnd.amazon.soci.index.v2+json";

/// Maximum size of a manifest (OCI distribution specification: 4 MiB).
const MANIFEST: u64 = 4 << 20;

/// The way in which an image and its index refer to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The index names the image as its subject: anyone who can push to the repository may have created it.
    V1,
    /// The image names the index.
    V2,
}

/// A SOCI index.
#[derive(Debug, Clone)]
pub struct Manifest {
    version: Version,
    subject: Option<Digest>,
    ztocs: Vec<Ztoc>,
}

#[derive(Debug, Clone)]
struct Ztoc {
    layer: Digest,
    digest: Digest,
    size: u64,
}

impl Manifest {
    /// Returns the artifact type of an index, which is also the media type of its config.
    pub fn artifact_type(version: Version) -> &'static str {
        match version {
            Version::V1 => CONFIG_V1,
            Version::V2 => CONFIG_V2,
        }
    }

    /// Parses an index and verifies its digest.
    pub fn parse(bytes: &[u8], expected: Digest) -> Result<Self> {
        at_most("bytes of a SOCI index", bytes.len() as u64, MANIFEST)?;
        let found = Digest::of(bytes);
        if found != expected {
            return Err(Error::Mismatch {
                what: "the SOCI index",
                expected,
                found,
            });
        }
        let json: Json<'_> = serde_json::from_slice(bytes).map_err(Error::Json)?;
        let version = match json.config.media_type {
            CONFIG_V1 => Version::V1,
            CONFIG_V2 => Version::V2,
            _ => return Err(Error::Soci("has an unknown version")),
        };
        let digest = |text| {
            Digest::parse(text).ok_or(Error::Soci("contains a blob without a sha256 digest"))
        };
        let mut ztocs = Vec::new();
        for blob in json.layers.iter().filter(|blob| blob.media_type == ZTOC) {
            let layer = blob.annotations.as_ref().and_then(|all| all.layer);
            let layer = layer.ok_or(Error::Soci("has a ztoc without a layer"))?;
            ztocs.push(Ztoc {
                layer: digest(layer)?,
                digest: digest(blob.digest)?,
                size: blob.size,
            });
        }
        Ok(Self {
            version,
            subject: json.subject.map(|blob| digest(blob.digest)).transpose()?,
            ztocs,
        })
    }

    /// Returns how the index is found.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the image that the index names as its subject, in version 1.
    pub fn subject(&self) -> Option<Digest> {
        self.subject
    }

    /// Returns the digest of the ztoc blob for a layer of `blob` bytes, and its table of contents. Returns `None` if
    /// the index has none for this layer.
    pub fn toc(&self, layer: Digest, blob: u64, limits: &Limits) -> Result<Option<(Digest, Toc)>> {
        let Some(ztoc) = self.ztocs.iter().find(|ztoc| ztoc.layer == layer) else {
            return Ok(None);
        };
        at_most("bytes of the table of contents", ztoc.size, limits.fetched)?;
        let toc = Toc {
            form: Form::Soci(ztoc.digest),
            range: 0..ztoc.size,
            payload: blob,
            blob,
        };
        Ok(Some((ztoc.digest, toc)))
    }
}

#[derive(Deserialize)]
struct Json<'a> {
    #[serde(borrow)]
    config: Blob<'a>,
    #[serde(borrow, default)]
    layers: Vec<Blob<'a>>,
    #[serde(borrow, default)]
    subject: Option<Blob<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    #[serde(default)]
    media_type: &'a str,
    digest: &'a str,
    size: u64,
    #[serde(borrow, default)]
    annotations: Option<Annotations<'a>>,
}

#[derive(Deserialize)]
struct Annotations<'a> {
    /// The digest of the ztoc's layer.
    #[serde(rename = "com.amazon.soci.image-layer-digest")]
    layer: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYER_DIGEST: &str = "com.amazon.soci.image-layer-digest";

    fn index(config: &str, more: &str) -> String {
        let layer = Digest::of(b"layer");
        let ztoc = Digest::of(b"ztoc");
        format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"{config}","digest":"{ztoc}","size":2}},
            "layers":[{{"mediaType":"{ZTOC}","digest":"{ztoc}","size":77,
            "annotations":{{"{LAYER_DIGEST}":"{layer}","x":"y"}}}},
            {{"mediaType":"application/vnd.amazon.soci.prefetch.v1+json","digest":"{ztoc}","size":5}}]{more}}}"#
        )
    }

    fn parse(text: &str) -> Result<Manifest> {
        Manifest::parse(text.as_bytes(), Digest::of(text.as_bytes()))
    }

    #[test]
    fn an_index_names_the_ztoc_of_a_layer() {
        let manifest = parse(&index(CONFIG_V2, "")).unwrap();
        assert_eq!(manifest.version(), Version::V2);
        assert_eq!(Manifest::artifact_type(Version::V2), CONFIG_V2);
        let limits = Limits::default();
        let (blob, toc) = manifest
            .toc(Digest::of(b"layer"), 1000, &limits)
            .unwrap()
            .unwrap();
        assert_eq!((blob, toc.range()), (Digest::of(b"ztoc"), 0..77));
        let other = manifest.toc(Digest::of(b"other"), 1000, &limits);
        assert!(other.unwrap().is_none());
        let limits = Limits {
            fetched: 76,
            ..limits
        };
        let refused = manifest.toc(Digest::of(b"layer"), 1000, &limits);
        assert!(matches!(refused, Err(Error::TooMuch { .. })));
    }

    #[test]
    fn an_index_of_version_1_names_its_image() {
        let image = Digest::of(b"image");
        let subject = format!(r#","subject":{{"mediaType":"m","digest":"{image}","size":1}}"#);
        let manifest = parse(&index(CONFIG_V1, &subject)).unwrap();
        assert_eq!(manifest.version(), Version::V1);
        assert_eq!(manifest.subject(), Some(image));
    }

    #[test]
    fn what_is_no_index_is_refused() {
        let good = index(CONFIG_V2, "");
        assert!(matches!(parse(&index("a", "")), Err(Error::Soci(_))));
        let no_layer = good.replace(LAYER_DIGEST, "z");
        assert!(matches!(parse(&no_layer), Err(Error::Soci(_))));
        assert!(matches!(parse("[]"), Err(Error::Json(_))));
        assert!(matches!(parse(&"[".repeat(100_000)), Err(Error::Json(_))));
        let other = Manifest::parse(good.as_bytes(), Digest::of(b"other"));
        assert!(matches!(other, Err(Error::Mismatch { .. })));
        let large = " ".repeat(MANIFEST as usize + 1);
        assert!(matches!(parse(&large), Err(Error::TooMuch { .. })));
    }
}
