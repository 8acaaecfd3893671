//! in-toto statements: claims about artifacts.

use serde::Deserialize;

use crate::Refusal;

/// Maximum number of artifacts.
const MAX_SUBJECTS: usize = 64;

/// The type of statements, by version.
const TYPES: [&str; 2] = [
    "https://in-toto.io/Statement/v1",
    "https://in-toto.io/Statement/v0.1",
];

/// A signed statement. It is only trustworthy after its envelope is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The type of the claim.
    pub predicate_type: String,
    /// The artifacts that the claim is about.
    pub subjects: Vec<Subject>,
}

/// An artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The name, if it has one.
    pub name: Option<String>,
    /// Its digests, such as `sha256:…`.
    pub digests: Vec<String>,
}

impl Statement {
    /// The predicate type of cosign's image signatures.
    pub const COSIGN_SIGN: &str = "https://sigstore.dev/cosign/sign/v1";

    /// Parses a statement; ignores the contents of its predicate.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        const WHAT: &str = "the signed statement";
        let read: Raw =
            serde_json::from_slice(bytes).map_err(|error| Refusal::malformed(WHAT, error))?;
        if !TYPES.contains(&read.kind.as_str()) {
            let reason = format!("the statement type {:?} is not supported", read.kind);
            return Err(Refusal::malformed(WHAT, reason));
        }
        if read.subject.len() > MAX_SUBJECTS {
            let reason = format!("it is about more than {MAX_SUBJECTS} artifacts");
            return Err(Refusal::malformed(WHAT, reason));
        }
        let subjects = read.subject.into_iter().map(|one| {
            let digests = [("sha256", one.digest.sha256), ("sha512", one.digest.sha512)];
            let digests = digests.into_iter();
            Subject {
                name: one.name.filter(|name| !name.is_empty()),
                digests: digests
                    .filter_map(|(kind, digits)| Some(format!("{kind}:{}", digits?)))
                    .collect(),
            }
        });
        Ok(Self {
            predicate_type: read.predicate_type,
            subjects: subjects.collect(),
        })
    }
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "_type")]
    kind: String,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    subject: Vec<RawSubject>,
}

#[derive(Deserialize)]
struct RawSubject {
    name: Option<String>,
    digest: RawDigest,
}

/// The digest algorithms of images.
#[derive(Deserialize)]
struct RawDigest {
    sha256: Option<String>,
    sha512: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_is_of_is_read_and_the_rest_is_not() {
        let text = r#"{"_type":"https://in-toto.io/Statement/v1","predicateType":"x","predicate":{"a":[1]},
            "subject":[{"digest":{"sha256":"ab","gitCommit":"c"},"annotations":{}},{"name":"n","digest":{"sha512":"d"}}]}"#;
        let statement = Statement::parse(text.as_bytes()).unwrap();
        assert_eq!(statement.predicate_type, "x");
        let [first, second] = &statement.subjects[..] else {
            panic!("{statement:?}");
        };
        assert_eq!(first.digests, ["sha256:ab"]);
        assert_eq!((&first.name, &second.name), (&None, &Some("n".to_owned())));
        assert_eq!(second.digests, ["sha512:d"]);
        for text in [
            "",
            "[]",
            "{}",
            r#"{"_type":"x","predicateType":"x","subject":[]}"#,
            r#"{"_type":"https://in-toto.io/Statement/v1","predicateType":"x","predicateType":"y","subject":[]}"#,
            r#"{"_type":"https://in-toto.io/Statement/v1","predicateType":"x","subject":[{"digest":{"sha256":"a","sha256":"b"}}]}"#,
        ] {
            Statement::parse(text.as_bytes()).unwrap_err();
        }
        let deep = format!(r#"{{"predicate":{}"#, "[".repeat(100_000));
        Statement::parse(deep.as_bytes()).unwrap_err();
    }
}
