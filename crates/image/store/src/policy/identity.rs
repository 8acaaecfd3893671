//! `signedIdentity`: the image name that a signature must be made for.

use super::json::{At, Fields, Wrong};
use crate::reference::Named;
use crate::{Reference, Repository};

/// The image name that a signature must be made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SignedIdentity {
    /// The requested name.
    MatchExact,
    /// The requested name; if that has a digest, any name of the same repository.
    MatchRepoDigestOrExact,
    /// Any name of the same repository.
    MatchRepository,
    /// Any name: only the digest identifies the image. Other implementations do not have this type.
    MatchDigest,
    /// This name.
    ExactReference(Named),
    /// Any name of this repository.
    ExactRepository(Repository),
    /// Like [`Self::MatchRepoDigestOrExact`], after the prefix of the requested name is replaced.
    RemapIdentity {
        prefix: String,
        signed_prefix: String,
    },
}

impl SignedIdentity {
    /// Parses the identity of a requirement, or returns the default.
    pub(super) fn parse_or_default(fields: &mut Fields) -> Result<Self, Wrong> {
        match fields.take("signedIdentity") {
            Some(value) => Self::parse(value),
            None => Ok(Self::MatchRepoDigestOrExact),
        }
    }

    pub(crate) fn parse(value: At) -> Result<Self, Wrong> {
        let mut fields = value.fields()?;
        let kind = fields.required("type")?;
        let place = kind.place.clone();
        let identity = match kind.text()?.as_str() {
            "matchExact" => Self::MatchExact,
            "matchRepoDigestOrExact" => Self::MatchRepoDigestOrExact,
            "matchRepository" => Self::MatchRepository,
            "matchDigest" => Self::MatchDigest,
            "exactReference" => {
                let (place, named) = name(fields.required("dockerReference")?)?;
                if named.is_name_only() {
                    return Err(Wrong::new(&place, "must have a tag or digest"));
                }
                Self::ExactReference(named)
            }
            "exactRepository" => {
                let (place, named) = name(fields.required("dockerRepository")?)?;
                if !named.is_name_only() {
                    return Err(Wrong::new(&place, "must have neither tag nor digest"));
                }
                Self::ExactRepository(named.repository)
            }
            "remapIdentity" => Self::RemapIdentity {
                prefix: prefix(fields.required("prefix")?)?,
                signed_prefix: prefix(fields.required("signedPrefix")?)?,
            },
            other => {
                let problem = format!("unknown identity type {other:?}");
                return Err(Wrong::new(&place, problem));
            }
        };
        fields.finish()?;
        Ok(identity)
    }

    /// Checks whether a signature for `signed` is valid for the image requested as `asked`. The error is the reason
    /// why not.
    pub(crate) fn accepts(&self, asked: Option<&Reference>, signed: &str) -> Result<(), String> {
        if *self == Self::MatchDigest {
            return Ok(());
        }
        let signature: Named = Named::parse(signed).map_err(|reason| {
            format!("it is for {signed:?}, which is not an image name: {reason}")
        })?;
        let no_name = || "the image has no name on this node to compare with".to_owned();
        let asked = asked.map(Named::of);
        match self {
            Self::MatchDigest => Ok(()),
            Self::MatchExact => same(&signature, &asked.ok_or_else(no_name)?),
            Self::MatchRepoDigestOrExact => {
                exact_or_digest(&signature, &asked.ok_or_else(no_name)?)
            }
            Self::MatchRepository => {
                same_repository(&signature, &asked.ok_or_else(no_name)?.repository)
            }
            Self::ExactReference(named) => same(&signature, named),
            Self::ExactRepository(repository) => same_repository(&signature, repository),
            Self::RemapIdentity {
                prefix,
                signed_prefix,
            } => {
                let asked = asked.ok_or_else(no_name)?;
                exact_or_digest(&signature, &remap(asked, prefix, signed_prefix)?)
            }
        }
    }

    /// Checks whether a signature with a digest but no name is valid. The error is the reason why not.
    pub(crate) fn accepts_nameless(&self) -> Result<(), String> {
        if *self == Self::MatchDigest {
            return Ok(());
        }
        Err(
            "it contains only a digest and no repository, like the bundles of cosign; to accept \
             it, set \"signedIdentity\": {\"type\": \"matchDigest\"}"
                .to_owned(),
        )
    }
}

fn same(signature: &Named, wanted: &Named) -> Result<(), String> {
    if signature.is_name_only() {
        return Err(name_only(signature));
    }
    if signature != wanted {
        return Err(format!("it is for {signature}, not for {wanted}"));
    }
    Ok(())
}

fn same_repository(signature: &Named, wanted: &Repository) -> Result<(), String> {
    if signature.repository != *wanted {
        return Err(format!(
            "it is for {signature}, not for an image of {wanted}"
        ));
    }
    Ok(())
}

/// Compares the names, or only the repositories if the image was requested by digest: its tag may have differed when
/// it was signed.
fn exact_or_digest(signature: &Named, wanted: &Named) -> Result<(), String> {
    if signature.is_name_only() {
        return Err(name_only(signature));
    }
    if wanted.tag.is_none() {
        return same_repository(signature, &wanted.repository);
    }
    same(signature, wanted)
}

/// Returns the reason for a name without a tag, which cosign writes by default.
fn name_only(signature: &Named) -> String {
    format!(
        "it is for {signature} without a tag, like the signatures of cosign; to accept it, set \
         \"signedIdentity\": {{\"type\": \"matchRepository\"}}, or sign with \
         --sign-container-identity"
    )
}

fn remap(asked: Named, prefix: &str, signed_prefix: &str) -> Result<Named, String> {
    let name = asked.repository.to_string();
    let Some(rest) = name.strip_prefix(prefix) else {
        return Ok(asked);
    };
    if !(rest.is_empty() || rest.starts_with('/')) {
        return Ok(asked);
    }
    let remapped = format!("{signed_prefix}{rest}");
    let named = Named::parse(&remapped).ok();
    let named = named.filter(|named| named.to_string() == remapped);
    let named = named.ok_or_else(|| {
        format!("signedPrefix turns {name} into {remapped}, which is not a full image name")
    })?;
    Ok(Named {
        repository: named.repository,
        ..asked
    })
}

fn name(value: At) -> Result<(String, Named), Wrong> {
    let place = value.place.clone();
    let text = value.text()?;
    let named = Named::parse(&text);
    let named = named.map_err(|reason| Wrong::new(&place, format!("{text:?}: {reason}")))?;
    Ok((place, named))
}

/// Parses a full registry, namespace or repository name.
fn prefix(value: At) -> Result<String, Wrong> {
    let place = value.place.clone();
    let text = value.text()?;
    // Names with this prefix must be in normalized form.
    let below = format!("{text}/x");
    let whole = Named::parse(&below).is_ok_and(|named| named.to_string() == below);
    if !whole {
        let problem = format!("{text:?} is not a prefix of a full image name");
        return Err(Wrong::new(&place, problem));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn parse(text: &str) -> Result<SignedIdentity, Wrong> {
        SignedIdentity::parse(At::parse(text.as_bytes())?)
    }

    fn accepts(identity: &str, asked: &str, signed: &str) -> bool {
        let asked: Reference = asked.parse().unwrap();
        parse(identity)
            .unwrap()
            .accepts(Some(&asked), signed)
            .is_ok()
    }

    #[test]
    fn names_are_compared_as_documented() {
        let by_digest = format!("a.io/b@{D}");
        let exact = r#"{"type":"matchExact"}"#;
        let default = r#"{"type":"matchRepoDigestOrExact"}"#;
        let repository = r#"{"type":"matchRepository"}"#;
        let reference = r#"{"type":"exactReference","dockerReference":"v.io/x:1"}"#;
        let of_repository = r#"{"type":"exactRepository","dockerRepository":"v.io/x"}"#;
        let remap = r#"{"type":"remapIdentity","prefix":"a.io/mirror","signedPrefix":"v.io"}"#;
        let host = r#"{"type":"remapIdentity","prefix":"a.io","signedPrefix":"v.io:5000/up"}"#;
        for (identity, asked, signed, accepted) in [
            (exact, "a.io/b:1", "a.io/b:1", true),
            (exact, "busybox", "docker.io/library/busybox:latest", true),
            (exact, "busybox", "busybox:latest", true),
            (exact, "a.io/b:1", "a.io/b:2", false),
            (exact, "a.io/b:1", "a.io/b", false),
            (exact, "a.io/b:latest", "a.io/b", false),
            (exact, "a.io/b:1", "a.io/c:1", false),
            (exact, &by_digest, "a.io/b:1", false),
            (exact, &by_digest, &by_digest, true),
            (default, "a.io/b:1", "a.io/b:1", true),
            (default, "a.io/b:1", "a.io/b:2", false),
            (default, "a.io/b:1", "a.io/b", false),
            (default, "a.io/b:1", &by_digest, false),
            (default, &by_digest, "a.io/b:1", true),
            (default, &by_digest, "a.io/b", false),
            (default, &by_digest, "a.io/c:1", false),
            (repository, "a.io/b:1", "a.io/b:2", true),
            (repository, "a.io/b:1", "a.io/b", true),
            (repository, "a.io/b:1", &by_digest, true),
            (repository, "a.io/b:1", "a.io/b/c", false),
            (repository, "a.io/b:1", "A.io/b", false),
            (repository, "a.io:5000/b:1", "a.io/b", false),
            (reference, "a.io/b:1", "v.io/x:1", true),
            (reference, "a.io/b:1", "v.io/x:2", false),
            (reference, "a.io/b:1", "v.io/x", false),
            (of_repository, "a.io/b:1", "v.io/x:7", true),
            (of_repository, "a.io/b:1", "v.io/x", true),
            (of_repository, "a.io/b:1", "a.io/b:1", false),
            (remap, "a.io/mirror/x:1", "v.io/x:1", true),
            (remap, "a.io/mirror/x:1", "a.io/mirror/x:1", false),
            (remap, "a.io/mirror/x:1", "v.io/x:2", false),
            (remap, "a.io/mirrored/x:1", "a.io/mirrored/x:1", true),
            (remap, "a.io/mirrored/x:1", "v.io/ed/x:1", false),
            (remap, &format!("a.io/mirror/x@{D}"), "v.io/x:7", true),
            (remap, "a.io/mirror:1", "v.io:1", false),
            (host, "a.io/x:1", "v.io:5000/up/x:1", true),
            (host, "a.io:5000/x:1", "a.io:5000/x:1", true),
            (exact, "a.io/b:1", "", false),
            (repository, "a.io/b:1", "not a name", false),
        ] {
            assert_eq!(
                accepts(identity, asked, signed),
                accepted,
                "{identity} {asked} {signed}"
            );
        }
    }

    #[test]
    fn an_image_without_a_name_needs_an_exact_identity() {
        let named = r#"{"type":"exactRepository","dockerRepository":"v.io/x"}"#;
        parse(named).unwrap().accepts(None, "v.io/x:1").unwrap();
        let matching = parse(r#"{"type":"matchRepository"}"#).unwrap();
        matching.accepts(None, "v.io/x:1").unwrap_err();
    }

    #[test]
    fn wrong_identities_are_refused_with_their_place() {
        for (text, complaint) in [
            (r#"{"type":"matchAnything"}"#, "type: unknown identity type"),
            (r#"{"type":"matchExact","x":1}"#, "x: unknown field"),
            (
                r#"{"type":"matchExact","dockerReference":"a:1"}"#,
                "dockerReference: ",
            ),
            (
                r#"{"type":"exactReference"}"#,
                r#""dockerReference" is missing"#,
            ),
            (
                r#"{"type":"exactReference","dockerReference":"a.io/b"}"#,
                "dockerReference: must have a tag",
            ),
            (
                r#"{"type":"exactRepository","dockerRepository":"a.io/b:1"}"#,
                "dockerRepository: must have neither",
            ),
            (
                r#"{"type":"exactRepository","dockerRepository":"A B"}"#,
                "dockerRepository: ",
            ),
            (
                r#"{"type":"remapIdentity","prefix":"busybox","signedPrefix":"v.io"}"#,
                "prefix: \"busybox\" is not",
            ),
            (
                r#"{"type":"remapIdentity","prefix":"a.io","signedPrefix":"v.io/x:1"}"#,
                "signedPrefix: ",
            ),
            (
                r#"{"type":"remapIdentity","prefix":"","signedPrefix":"v.io"}"#,
                "prefix: ",
            ),
            ("{}", r#""type" is missing"#),
            ("7", "must be an object, not a number"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
