//! What the index knows about each thing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// A layer on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LayerRecord {
    /// Its name on disk: the diff id, or the chain id if the layer's look depends on the
    /// layers below it.
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
    /// Directories whose look is up to the layers below; empty if `key` is a chain id.
    #[serde(with = "latin1")]
    pub(crate) implicit: Vec<Vec<u8>>,
    /// Digest of the compressed layer, if that was kept too.
    pub(crate) blob: Option<Digest>,
    /// Whether the archive can be put together again from the files and the tape.
    pub(crate) replayable: bool,
    /// When it was unpacked, seconds since the epoch.
    pub(crate) created: u64,
    /// What it is on disk.
    #[serde(default)]
    pub(crate) form: Form,
}

impl LayerRecord {
    /// Whether parts of it may not be here yet.
    pub(crate) fn is_lazy(&self) -> bool {
        matches!(self.form, Form::Lazy(_))
    }

    /// Whether it was published as the file that it is.
    pub(crate) fn is_published(&self) -> bool {
        matches!(&self.form, Form::Erofs(sealed) if sealed.digest == Some(self.diff_id))
    }
}

/// What a layer is on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    /// A directory with its files.
    #[default]
    Files,
    /// A file that is mounted.
    Erofs(Sealed),
    /// The same while parts of it are not here yet.
    Lazy(Lazy),
}

/// A layer that is fetched while it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lazy {
    /// How long its file is.
    pub(crate) bytes: u64,
    /// The compressed layer, and how long that is.
    pub(crate) blob: Digest,
    pub(crate) blob_bytes: u64,
    /// An image of the repository that it was pulled from.
    pub(crate) repository: String,
}

/// How a layer that is one file is known again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    /// How long it is.
    pub(crate) bytes: u64,
    /// What the kernel measures of it, in hexadecimal digits, where it has sealed it (fs-verity).
    pub(crate) verity: Option<String>,
    /// Digest of the file, where there is no tape to check it by.
    #[serde(default)]
    pub(crate) digest: Option<Digest>,
}

/// An image: a configuration, its layers and its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageRecord {
    /// Digest of the configuration; of an artifact, of its manifest.
    pub(crate) id: Digest,
    /// Digest of the manifest that it was pulled by last.
    pub(crate) manifest: Digest,
    /// Keys of the layers, base first.
    pub(crate) layers: Vec<Digest>,
    /// `docker.io/library/busybox:latest`, …
    pub(crate) tags: BTreeSet<String>,
    /// `docker.io/library/busybox@sha256:…`, …
    pub(crate) digests: BTreeSet<String>,
    /// When it was pulled first, seconds since the epoch.
    pub(crate) created: u64,
    /// For whose pods it was pulled: the handlers whose guests pull the layers by themselves, and, without
    /// a name, all whose containers use those that are here.
    #[serde(default = "everybody")]
    pub(crate) handlers: BTreeSet<String>,
    /// Whether it has layers that were encrypted.
    #[serde(default)]
    pub(crate) is_encrypted: bool,
}

impl ImageRecord {
    /// Whether it is no image to run, but files; these have no configuration that could name them.
    pub(crate) fn is_artifact(&self) -> bool {
        self.id == self.manifest
    }

    /// Whether its layers are here.
    pub(crate) fn is_whole(&self) -> bool {
        self.handlers.contains("")
    }
}

/// Images of earlier versions are all here.
fn everybody() -> BTreeSet<String> {
    BTreeSet::from([String::new()])
}

/// A claim on an image's layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseRecord {
    /// The image.
    pub(crate) image: Digest,
    /// Keys of the layers, base first.
    pub(crate) layers: Vec<Digest>,
}

/// Paths are bytes; JSON has only text. One character per byte keeps them exact.
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
