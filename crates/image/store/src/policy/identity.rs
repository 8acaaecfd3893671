//! `signedIdentity`: for which name a signature must have been made.

use super::json::{At, Fields, Wrong};
use crate::reference::Named;
use crate::{Reference, Repository};

/// For which name a signature must have been made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SignedIdentity {
    /// The one that was asked for.
    MatchExact,
    /// The one that was asked for; if that has a digest, any of the same repository.
    MatchRepoDigestOrExact,
    /// Any of the same repository.
    MatchRepository,
    /// Any at all: the digest says which image it is. No other policy has this.
    MatchDigest,
    /// This one.
    ExactReference(Named),
    /// Any of this repository.
    ExactRepository(Repository),
    /// Like [`Self::MatchRepoDigestOrExact`], after the beginning of the name that was asked for
    /// was replaced.
    RemapIdentity {
        prefix: String,
        signed_prefix: String,
    },
}

impl SignedIdentity {
    /// What a requirement says of it, or the default.
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

    /// Whether a signature for `signed` will do for the image that was asked for as `asked`;
    /// says why not.
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

    /// Whether a signature for no name, but a digest, will do; says why not.
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

/// By its digest an image is what was asked for, whatever its tag was when it was signed.
fn exact_or_digest(signature: &Named, wanted: &Named) -> Result<(), String> {
    if signature.is_name_only() {
        return Err(name_only(signature));
    }
    if wanted.tag.is_none() {
        return same_repository(signature, &wanted.repository);
    }
    same(signature, wanted)
}

/// What cosign writes, unless it is told a name.
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

/// A registry, a namespace or a repository, in full.
fn prefix(value: At) -> Result<String, Wrong> {
    let place = value.place.clone();
    let text = value.text()?;
    // Below it there must be names that mean what they say.
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
