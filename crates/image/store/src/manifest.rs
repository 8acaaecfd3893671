//! OCI and Docker manifests and indexes from a registry.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::media_type::{self, Kind};
use crate::{Digest, Error, Platform, Result};

/// A document that a registry returned for a reference.
#[derive(Debug)]
pub(crate) enum Document {
    /// Images for several platforms.
    Index(Vec<Descriptor>),
    /// One image.
    Manifest(Box<Manifest>),
}

/// One image: its configuration and its layers, base first.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
    pub(crate) annotations: BTreeMap<String, String>,
    /// The artifact type, if it is not an image.
    pub(crate) artifact_type: Option<String>,
}

/// A typed pointer to content.
#[derive(Debug, Clone)]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) platform: Option<Platform>,
    pub(crate) urls: Vec<String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Manifest {
    /// Returns whether the manifest has encrypted layers.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.layers.iter().any(Descriptor::is_encrypted)
    }
}

impl Descriptor {
    /// Returns whether the descriptor is of an encrypted layer.
    pub(crate) fn is_encrypted(&self) -> bool {
        media_type::kind(&self.media_type) == Kind::EncryptedLayer
    }
}

impl Document {
    /// Parses a manifest or index. `content_type` decides only if the document itself does not contain its type.
    pub(crate) fn parse(what: &str, bytes: &[u8], content_type: Option<&str>) -> Result<Self> {
        let raw: RawDocument = serde_json::from_slice(bytes)
            .map_err(|error| Error::invalid(format!("manifest of {what}"), error))?;
        if raw.schema_version == Some(1) || raw.fs_layers.is_some() {
            return Err(Error::Unsupported(format!(
                "{what} uses Docker manifest schema 1, which is obsolete; push it again with a current tool"
            )));
        }
        // A document with two interpretations would be two images with one digest.
        if raw.manifests.is_some() && (raw.layers.is_some() || raw.config.is_some()) {
            return Err(Error::invalid(
                format!("manifest of {what}"),
                "it is both an index and a manifest",
            ));
        }
        let declared = raw
            .media_type
            .as_deref()
            .or(content_type)
            .map(media_type::kind);
        match (declared, raw.manifests, raw.config, raw.layers) {
            (Some(Kind::Manifest), Some(_), ..) | (Some(Kind::Index), None, ..) => {
                Err(Error::invalid(
                    format!("manifest of {what}"),
                    "its media type does not match its content",
                ))
            }
            (_, Some(entries), ..) => {
                let entries = entries
                    .into_iter()
                    .map(|raw| raw.into_descriptor(what))
                    .collect::<Result<_>>()?;
                Ok(Self::Index(entries))
            }
            (_, None, Some(config), Some(layers)) => Ok(Self::Manifest(Box::new(Manifest {
                config: config.into_descriptor(what)?,
                layers: layers
                    .into_iter()
                    .map(|raw| raw.into_descriptor(what))
                    .collect::<Result<_>>()?,
                annotations: raw.annotations.unwrap_or_default(),
                artifact_type: raw.artifact_type.filter(|stated| !stated.is_empty()),
            }))),
            _ => Err(Error::invalid(
                format!("manifest of {what}"),
                "it has neither manifests nor a config and layers",
            )),
        }
    }
}

/// Picks the entry of an index that runs best on `platform`.
pub(crate) fn choose<'a>(
    what: &str,
    entries: &'a [Descriptor],
    platform: &Platform,
) -> Result<&'a Descriptor> {
    let images = || {
        entries.iter().filter(|entry| {
            matches!(
                media_type::kind(&entry.media_type),
                Kind::Manifest | Kind::Index
            )
        })
    };
    let best = images()
        .filter_map(|entry| {
            let rank = entry
                .platform
                .as_ref()
                .and_then(|offered| platform.rank(offered))?;
            Some((rank, entry))
        })
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, entry)| entry);
    // An entry without a platform is used only if no other entry matches.
    let unnamed = || images().find(|entry| entry.platform.is_none());
    best.or_else(unnamed).ok_or_else(|| {
        let mut offered: Vec<String> = images()
            .filter_map(|entry| entry.platform.as_ref())
            .map(ToString::to_string)
            .collect();
        offered.retain(|name| name != "unknown/unknown");
        Error::Unsupported(format!(
            "{what} has no variant for {platform}; it offers: {}",
            if offered.is_empty() {
                "nothing".to_owned()
            } else {
                offered.join(", ")
            }
        ))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDocument {
    schema_version: Option<u64>,
    media_type: Option<String>,
    fs_layers: Option<serde::de::IgnoredAny>,
    manifests: Option<Vec<RawDescriptor>>,
    config: Option<RawDescriptor>,
    layers: Option<Vec<RawDescriptor>>,
    annotations: Option<BTreeMap<String, String>>,
    artifact_type: Option<String>,
}

/// A descriptor before its digest is parsed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawDescriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    platform: Option<RawPlatform>,
    #[serde(default)]
    urls: Option<Vec<String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct RawPlatform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: Option<String>,
}

impl RawDescriptor {
    fn into_descriptor(self, what: &str) -> Result<Descriptor> {
        let digest = self
            .digest
            .parse()
            .map_err(|error| Error::invalid(format!("manifest of {what}"), error))?;
        Ok(Descriptor {
            media_type: self.media_type,
            digest,
            size: self.size,
            platform: self.platform.map(|raw| {
                Platform::new(
                    &raw.os,
                    &raw.architecture,
                    raw.variant.as_deref().unwrap_or(""),
                )
            }),
            urls: self.urls.unwrap_or_default(),
            annotations: self.annotations.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u8) -> Digest {
        Digest::of(&[n])
    }

    fn entry(n: u8, platform: &str) -> String {
        let mut parts = platform.split('/');
        format!(
            r#"{{"mediaType":"{}","size":1,"digest":"{}","platform":{{"os":"{}","architecture":"{}","variant":"{}"}}}}"#,
            media_type::OCI_MANIFEST,
            digest(n),
            parts.next().unwrap_or(""),
            parts.next().unwrap_or(""),
            parts.next().unwrap_or("")
        )
    }

    fn pick(platforms: &[&str], host: &str) -> Result<Digest> {
        let entries: Vec<String> = platforms
            .iter()
            .enumerate()
            .map(|(n, p)| entry(n as u8, p))
            .collect();
        let text = format!(
            r#"{{"schemaVersion":2,"mediaType":"{}","manifests":[{}]}}"#,
            media_type::OCI_INDEX,
            entries.join(",")
        );
        let Document::Index(entries) = Document::parse("x", text.as_bytes(), None)? else {
            panic!("not an index")
        };
        choose("x", &entries, &host.parse()?).map(|entry| entry.digest)
    }

    #[test]
    fn the_best_variant_is_chosen_wherever_it_stands() {
        let offers = [
            "linux/arm/v5",
            "linux/arm/v7",
            "linux/arm/v6",
            "linux/amd64",
            "windows/amd64",
        ];
        assert_eq!(pick(&offers, "linux/arm/v7").unwrap(), digest(1));
        assert_eq!(pick(&offers, "linux/arm/v6").unwrap(), digest(2));
        assert_eq!(pick(&offers, "linux/amd64").unwrap(), digest(3));
    }

    #[test]
    fn no_variant_for_the_host_names_what_there_is() {
        let error = pick(&["linux/arm64", "unknown/unknown"], "linux/amd64").unwrap_err();
        assert_eq!(
            error.to_string(),
            "unsupported image: x has no variant for linux/amd64; it offers: linux/arm64"
        );
    }

    #[test]
    fn odd_documents_are_refused_with_a_reason() {
        for (text, reason) in [
            (r#"{"schemaVersion":1,"fsLayers":[]}"#, "schema 1"),
            (
                r#"{"schemaVersion":2,"manifests":[],"layers":[]}"#,
                "both an index and a manifest",
            ),
            (r#"{"schemaVersion":2}"#, "neither"),
            (
                r#"{"mediaType":"application/vnd.oci.image.index.v1+json","config":{"digest":"x","size":1},"layers":[]}"#,
                "does not match its content",
            ),
            (
                r#"{"config":{"digest":"sha256:zz","size":1},"layers":[]}"#,
                "not a sha256 or sha512 digest",
            ),
            (
                r#"{"config":{"digest":"sha256:zz","size":-1},"layers":[]}"#,
                "invalid value",
            ),
            ("[[[[", "malformed"),
            ("<html>", "malformed"),
        ] {
            let error = Document::parse("x", text.as_bytes(), None).unwrap_err();
            assert!(error.to_string().contains(reason), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_document_panics(
            text in r#"(\{|\}|\[|\]|,|:|"(schemaVersion|mediaType|config|layers|manifests|digest|size|platform)"|-?[0-9]{1,25}|null){0,40}"#
        ) {
            let _ = Document::parse("x", text.as_bytes(), None);
        }
    }
}
