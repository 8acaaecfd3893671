//! Records of the index.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// A layer on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LayerRecord {
    /// Its name on disk: the diff id, or the chain id if its directory attributes depend on the layers below.
    pub(crate) key: Digest,
    /// Digest of its archive.
    pub(crate) diff_id: Digest,
    /// Bytes of the archive.
    pub(crate) archive_bytes: u64,
    /// Bytes of file content.
    pub(crate) bytes: u64,
    /// Bytes on disk.
    pub(crate) disk_bytes: u64,
    /// Inodes on disk.
    pub(crate) inodes: u64,
    /// Directories that take their attributes from the layers below; empty if `key` is a chain id.
    #[serde(with = "latin1")]
    pub(crate) implicit: Vec<Vec<u8>>,
    /// Digest of the compressed layer, if that is kept too.
    pub(crate) blob: Option<Digest>,
    /// Whether the archive can be reconstructed from the files and the tape.
    pub(crate) replayable: bool,
    /// Time when it was unpacked, in seconds since the epoch.
    pub(crate) created: u64,
    /// Its form on disk.
    #[serde(default)]
    pub(crate) form: Form,
}

impl LayerRecord {
    /// Returns whether parts of it may be missing on disk.
    pub(crate) fn is_lazy(&self) -> bool {
        matches!(self.form, Form::Lazy(_))
    }

    /// Returns whether the stored image file is the blob that was published.
    pub(crate) fn is_published(&self) -> bool {
        matches!(&self.form, Form::Erofs(sealed) if sealed.digest == Some(self.diff_id))
    }
}

/// The form of a layer on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    /// A directory with its files.
    #[default]
    Files,
    /// An EROFS image file that is mounted.
    Erofs(Sealed),
    /// An EROFS image file with parts that may be missing.
    Lazy(Lazy),
}

/// A layer that is downloaded while it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lazy {
    /// Size of its image file.
    pub(crate) bytes: u64,
    /// Digest and size of the compressed layer.
    pub(crate) blob: Digest,
    pub(crate) blob_bytes: u64,
    /// Reference of an image in the repository that it was pulled from.
    pub(crate) repository: String,
}

/// Properties that verify a layer's image file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    /// Size of the file.
    pub(crate) bytes: u64,
    /// Hexadecimal fs-verity digest, if the kernel has sealed the file.
    pub(crate) verity: Option<String>,
    /// Digest of the file, if there is no tape to check it with.
    #[serde(default)]
    pub(crate) digest: Option<Digest>,
}

/// An image: a configuration, its layers and its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageRecord {
    /// Digest of the configuration, or of the manifest for an artifact.
    pub(crate) id: Digest,
    /// Digest of the manifest of the last pull.
    pub(crate) manifest: Digest,
    /// Keys of the layers, base first.
    pub(crate) layers: Vec<Digest>,
    /// `docker.io/library/busybox:latest`, …
    pub(crate) tags: BTreeSet<String>,
    /// `docker.io/library/busybox@sha256:…`, …
    pub(crate) digests: BTreeSet<String>,
    /// Time of the first pull, in seconds since the epoch.
    pub(crate) created: u64,
    /// Runtime handlers whose guests pull the layers themselves. The empty name means that containers use the layers
    /// stored here.
    #[serde(default = "everybody")]
    pub(crate) handlers: BTreeSet<String>,
    /// Whether some of its layers were encrypted.
    #[serde(default)]
    pub(crate) is_encrypted: bool,
}

impl ImageRecord {
    /// Returns whether it is an artifact, which contains files and has no configuration as its id.
    pub(crate) fn is_artifact(&self) -> bool {
        self.id == self.manifest
    }

    /// Returns whether its layers are stored here.
    pub(crate) fn is_whole(&self) -> bool {
        self.handlers.contains("")
    }
}

/// Returns the default for records of earlier versions, which stored the layers of all images.
fn everybody() -> BTreeSet<String> {
    BTreeSet::from([String::new()])
}

/// A lease on an image's layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseRecord {
    /// The image.
    pub(crate) image: Digest,
    /// Keys of the layers, base first.
    pub(crate) layers: Vec<Digest>,
}

/// Encodes paths for JSON, one character per byte, because paths need not be UTF-8.
mod latin1 {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(paths: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(
            paths
                .iter()
                .map(|path| path.iter().map(|b| char::from(*b)).collect::<String>()),
        )
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Vec<u8>>, D::Error> {
        let bad = |_| serde::de::Error::custom("a path contains a character above U+00FF");
        Vec::<String>::deserialize(from)?
            .iter()
            .map(|path| {
                path.chars()
                    .map(u8::try_from)
                    .collect::<Result<_, _>>()
                    .map_err(bad)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_paths_byte_for_byte() {
        let record = LayerRecord {
            key: Digest::of(b"k"),
            diff_id: Digest::of(b"d"),
            archive_bytes: 0,
            bytes: 1,
            disk_bytes: 2,
            inodes: 3,
            implicit: vec![b"plain".to_vec(), vec![0xff, 0x80, b'/', b'a']],
            blob: None,
            replayable: true,
            created: 4,
            form: Form::Erofs(Sealed {
                bytes: 8192,
                verity: Some("f00d".to_owned()),
                digest: Some(Digest::of(b"e")),
            }),
        };
        let text = serde_json::to_vec(&record).unwrap();
        assert_eq!(
            serde_json::from_slice::<LayerRecord>(&text).unwrap(),
            record
        );
    }

    #[test]
    fn a_layer_of_an_earlier_version_is_a_directory() {
        let digest = Digest::of(b"k");
        let old = format!(
            r#"{{"key":"{digest}","diff_id":"{digest}","archive_bytes":1,"bytes":1,"disk_bytes":1,
            "inodes":1,"implicit":[],"blob":null,"replayable":true,"created":1}}"#
        );
        let record: LayerRecord = serde_json::from_str(&old).unwrap();
        assert_eq!(record.form, Form::Files);
    }
}
