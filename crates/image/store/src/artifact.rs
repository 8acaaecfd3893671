//! OCI artifacts such as models, configurations and charts. Their blobs are plain files that containers mount; an
//! artifact cannot be run.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use crate::manifest::{Descriptor, Document, Manifest};
use crate::media_type::{self, Kind};
use crate::{Digest, Error, Result};

/// Annotation with the file name of a blob.
const TITLE: &str = "org.opencontainers.image.title";
/// Annotation with the file name of a blob in CNCF's format for models.
const FILE_PATH: &str = "org.cncf.model.filepath";
/// Annotation of ORAS that marks a blob as the archive of a directory.
const UNPACK: &str = "io.deis.oras.content.unpack";

/// Maximum length of a path.
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;
/// Prefix of whiteouts, which would remove other files when the blob is used as a layer.
const WHITEOUT: &str = ".wh.";

/// An artifact, which containers mount and which has no root filesystem to run from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The artifact type.
    pub kind: String,
    /// Its layers, base first.
    pub(crate) layers: Vec<ArtifactLayer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArtifactLayer {
    pub(crate) blob: Digest,
    /// Path of the blob in the artifact, unless the blob is an archive.
    pub(crate) file: Option<String>,
}

impl Artifact {
    /// Returns the artifact that a manifest describes, or `None` if it describes an image.
    pub(crate) fn of(what: &str, manifest: &Manifest) -> Result<Option<Self>> {
        let kind = &manifest.config.media_type;
        if kind.is_empty() || media_type::kind(kind) != Kind::Other {
            return Ok(None);
        }
        let layers = manifest.layers.iter().map(|layer| {
            Ok(ArtifactLayer {
                blob: layer.digest,
                file: file(layer).map_err(|reason| Error::invalid(what, reason))?,
            })
        });
        let layers = layers.collect::<Result<Vec<_>>>()?;
        let mut files = BTreeSet::new();
        for file in layers.iter().filter_map(|layer| layer.file.as_ref()) {
            if !files.insert(file) {
                let problem = format!("two of its blobs have the file name {file:?}");
                return Err(Error::invalid(what, problem));
            }
        }
        let stated = manifest.artifact_type.as_ref();
        Ok(Some(Self {
            kind: stated.unwrap_or(kind).clone(),
            layers,
        }))
    }

    /// Parses the artifact from the bytes of its manifest.
    pub(crate) fn parse(what: &str, manifest: &[u8]) -> Result<Self> {
        let no_artifact = || Error::invalid(what, "its manifest is not an artifact manifest");
        match Document::parse(what, manifest, None)? {
            Document::Manifest(manifest) => Self::of(what, &manifest)?.ok_or_else(no_artifact),
            Document::Index(_) => Err(no_artifact()),
        }
    }
}

/// Returns the path of a blob, or `None` if the blob is an archive to unpack.
fn file(blob: &Descriptor) -> Result<Option<String>, String> {
    let annotation = |name| blob.annotations.get(name);
    if blob.is_encrypted() {
        return Err(format!("{} is encrypted", blob.digest));
    }
    let is_of_model = is_archive_of_model(&blob.media_type);
    let is_archive = is_of_model || media_type::kind(&blob.media_type) == Kind::Layer;
    let title = annotation(TITLE).or_else(|| annotation(FILE_PATH));
    let is_told = annotation(UNPACK).is_some_and(|told| told == "true");
    match title {
        _ if is_archive && (is_told || is_of_model) => Ok(None),
        None if is_archive => Ok(None),
        Some(title) => checked(title).map(Some),
        None => Ok(Some(blob.digest.hex())),
    }
}

/// Returns whether a media type is an archive in CNCF's format for models, which marks archives.
fn is_archive_of_model(media_type: &str) -> bool {
    let Some(rest) = media_type.strip_prefix("application/vnd.cncf.model.") else {
        return false;
    };
    [".tar", ".tar+gzip", ".tar+zstd"]
        .iter()
        .any(|end| rest.ends_with(end))
}

/// Validates a path that must stay within the artifact.
fn checked(title: &str) -> Result<String, String> {
    let path = title.trim_start_matches('/');
    let wrong = |why: &str| Err(format!("{title:?} is not a valid file name: {why}"));
    if path.len() > LONGEST_PATH {
        return wrong("it is too long");
    }
    if path.is_empty() || path.ends_with('/') || path.contains('\0') {
        return wrong("it is empty, ends with a slash or contains a NUL byte");
    }
    let mut clean = Vec::new();
    for part in Path::new(path).components() {
        let Component::Normal(name) = part else {
            return wrong("it must not begin with \".\" or contain \"..\"");
        };
        // The title was valid UTF-8.
        let name = name.to_str().unwrap_or_default();
        if name.len() > LONGEST_NAME {
            return wrong("it is too long");
        }
        if name.starts_with(WHITEOUT) {
            return wrong("it is a whiteout, which would remove another file");
        }
        clean.push(name);
    }
    Ok(clean.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const EMPTY: &str = "application/vnd.oci.empty.v1+json";
    const TAR: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

    fn layer(kind: &str, content: &str, annotations: &Value) -> Value {
        json!({ "mediaType": kind, "digest": Digest::of(content.as_bytes()).to_string(), "size": 1,
            "annotations": annotations })
    }

    fn manifest(config: &str, layers: &[Value]) -> Manifest {
        let text = json!({ "schemaVersion": 2, "artifactType": "application/vnd.x",
            "config": { "mediaType": config, "digest": Digest::of(b"{}").to_string(), "size": 2 },
            "layers": layers });
        match Document::parse("x", text.to_string().as_bytes(), None) {
            Ok(Document::Manifest(manifest)) => *manifest,
            other => panic!("{other:?}"),
        }
    }

    fn files(layers: &[Value]) -> Result<Vec<Option<String>>> {
        let artifact = Artifact::of("x", &manifest(EMPTY, layers))?;
        let layers = artifact.expect("an artifact").layers;
        Ok(layers.into_iter().map(|layer| layer.file).collect())
    }

    #[test]
    fn only_what_has_no_image_s_configuration_is_an_artifact() {
        for config in [
            "",
            media_type::OCI_CONFIG,
            "application/vnd.wasm.config.v0+json",
            TAR,
        ] {
            assert_eq!(
                Artifact::of("x", &manifest(config, &[])).unwrap(),
                None,
                "{config}"
            );
        }
        let artifact = Artifact::of("x", &manifest(EMPTY, &[])).unwrap().unwrap();
        assert_eq!(artifact.kind, "application/vnd.x");
        let mut untyped = manifest("application/vnd.cncf.helm.config.v1+json", &[]);
        untyped.artifact_type = None;
        let kind = Artifact::of("x", &untyped).unwrap().unwrap().kind;
        assert_eq!(kind, "application/vnd.cncf.helm.config.v1+json");
    }

    #[test]
    fn blobs_are_files_by_their_titles_and_archives_only_where_they_are() {
        let model = "application/vnd.cncf.model.weight.v1";
        let found = files(&[
            layer("text/plain", "a", &json!({ TITLE: "a.txt" })),
            layer(TAR, "b", &json!({ TITLE: "/dir//b.bin" })),
            layer(TAR, "c", &json!({ TITLE: "dir", UNPACK: "true" })),
            layer(TAR, "d", &json!({})),
            layer("text/plain", "e", &json!({ TITLE: "e", UNPACK: "true" })),
            layer("x", "f", &json!(null)),
            layer(&format!("{model}.raw"), "g", &json!({ FILE_PATH: "w/g" })),
            layer(
                &format!("{model}.tar+zstd"),
                "h",
                &json!({ FILE_PATH: "w/h" }),
            ),
            layer(
                "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
                "i",
                &json!({ TITLE: "i.tgz" }),
            ),
        ]);
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(
            found.unwrap(),
            [
                some("a.txt"),
                some("dir/b.bin"),
                None,
                None,
                some("e"),
                Some(Digest::of(b"f").hex()),
                some("w/g"),
                None,
                some("i.tgz"),
            ]
        );
    }

    #[test]
    fn names_that_lead_elsewhere_or_take_others_away_are_refused() {
        let long = "x".repeat(256);
        let deep = "x/".repeat(2048) + "x";
        for title in [
            "",
            "/",
            "..",
            "../x",
            "a/../x",
            "./x",
            "dir/",
            "a\0b",
            ".wh.x",
            "a/.wh..wh..opq",
            &long,
            &deep,
        ] {
            let error = files(&[layer("x", "a", &json!({ TITLE: title }))]).unwrap_err();
            assert!(
                error.to_string().contains("is not a valid file name"),
                "{title:?}: {error}"
            );
        }
        let twice = [
            layer("x", "a", &json!({ TITLE: "a" })),
            layer("x", "b", &json!({ TITLE: "/a" })),
        ];
        let error = files(&twice).unwrap_err().to_string();
        assert!(error.contains("two of its blobs"), "{error}");
        let secret = layer(&format!("{TAR}+encrypted"), "a", &json!({ TITLE: "a" }));
        let error = files(&[secret]).unwrap_err().to_string();
        assert!(error.contains("encrypted"), "{error}");
    }
}
