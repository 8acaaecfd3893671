//! What a signature says: the "simple signing" document of cosign.

use super::json::{At, Wrong};
use crate::Digest;

/// The only type of document that is a signature of an image.
const TYPE: &str = "cosign container image signature";

/// What was signed. Worth something only once the signature of its bytes is verified.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The manifest or index.
    pub(crate) digest: Digest,
    /// The name that it is signed for.
    pub(crate) reference: String,
}

impl Payload {
    /// Reads the document. What it calls critical must be understood whole; the rest may be
    /// anything.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Wrong> {
        let mut document = At::parse(bytes)?.fields()?;
        let mut critical = document.required("critical")?.fields()?;
        // cosign writes null where it has nothing to say.
        if let Some(optional) = document.take("optional")
            && !optional.is_null()
        {
            optional.fields()?;
        }
        document.finish()?;
        let kind = critical.required("type")?;
        let place = kind.place.clone();
        let kind = kind.text()?;
        if kind != TYPE {
            return Err(Wrong::new(&place, format!("{kind:?} is not {TYPE:?}")));
        }
        let mut image = critical.required("image")?.fields()?;
        let digest = image.required("docker-manifest-digest")?;
        let place = digest.place.clone();
        let digest = digest.text()?.parse();
        let digest = digest.map_err(|error| Wrong::new(&place, error))?;
        image.finish()?;
        let mut identity = critical.required("identity")?.fields()?;
        let reference = identity.required("docker-reference")?.text()?;
        identity.finish()?;
        critical.finish()?;
        Ok(Self { digest, reference })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn parse(critical: &str, rest: &str) -> Result<Payload, Wrong> {
        Payload::parse(format!(r#"{{"critical":{{{critical}}}{rest}}}"#).as_bytes())
    }

    fn parts() -> [String; 3] {
        [
            format!(r#""type":"{TYPE}""#),
            format!(r#""image":{{"docker-manifest-digest":"{DIGEST}"}}"#),
            r#""identity":{"docker-reference":"a.example/app"}"#.to_owned(),
        ]
    }

    #[test]
    fn what_cosign_writes_is_read() {
        for rest in [
            "",
            r#","optional":null"#,
            r#","optional":{"creator":"x","timestamp":1}"#,
        ] {
            let payload = parse(&parts().join(","), rest).unwrap();
            assert_eq!(payload.digest.to_string(), DIGEST);
            assert_eq!(payload.reference, "a.example/app");
        }
    }

    #[test]
    fn anything_else_is_refused_with_its_place() {
        let all = parts().join(",");
        for (critical, rest, complaint) in [
            (all.clone(), r#","x":1"#, "x: there is no field"),
            (
                all.clone(),
                r#","optional":1"#,
                "optional: must be an object",
            ),
            (
                all.clone() + r#","x":1"#,
                "",
                "critical.x: there is no field",
            ),
            (
                all.clone() + r#","type":"y""#,
                "",
                r#""type" is there twice"#,
            ),
            (parts()[1..].join(","), "", r#"critical: "type" is missing"#),
            (
                all.replace("container image", "blob"),
                "",
                "critical.type: \"cosign blob signature\" is not",
            ),
            (
                all.replace("sha256:", "md5:"),
                "",
                "critical.image.docker-manifest-digest: ",
            ),
            (
                all.replace(r#""a.example/app""#, "7"),
                "",
                "critical.identity.docker-reference: must be a string, not a number",
            ),
        ] {
            let error = parse(&critical, rest).unwrap_err().to_string();
            assert!(
                error.starts_with(complaint) || error.contains(complaint),
                "{error}"
            );
        }
        for text in ["", "[]", "null", "{", "\u{0}", "{} {}"] {
            Payload::parse(text.as_bytes()).unwrap_err();
        }
        let deep = "[".repeat(100_000);
        Payload::parse(deep.as_bytes()).unwrap_err();
    }
}
