//! The signed content of a signature: the "simple signing" document of cosign, and of GPG signatures before it.

use super::json::{At, Wrong};
use crate::Digest;

/// The kind of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A document of cosign.
    Cosign,
    /// A document that is signed with GPG.
    Atomic,
}

impl Kind {
    /// Returns the type that the document must contain.
    fn name(self) -> &'static str {
        match self {
            Self::Cosign => "cosign container image signature",
            Self::Atomic => "atomic container signature",
        }
    }
}

/// The signed content. It can be trusted only after the signature of its bytes is verified.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The signed manifest or index.
    pub(crate) digest: Digest,
    /// The signed name.
    pub(crate) reference: String,
}

impl Payload {
    /// Parses the document. All critical fields must be known; the others are ignored.
    pub(crate) fn parse(kind: Kind, bytes: &[u8]) -> Result<Self, Wrong> {
        let mut document = At::parse(bytes)?.fields()?;
        let mut critical = document.required("critical")?.fields()?;
        match (kind, document.take("optional")) {
            // cosign writes null if there are no optional fields.
            (Kind::Cosign, None) => {}
            (Kind::Cosign, Some(optional)) if optional.is_null() => {}
            (_, Some(optional)) => drop(optional.fields()?),
            (Kind::Atomic, None) => return Err(Wrong::new("", "\"optional\" is missing")),
        }
        document.finish()?;
        let named = critical.required("type")?;
        let place = named.place.clone();
        let named = named.text()?;
        if named != kind.name() {
            let problem = format!("{named:?} is not {:?}", kind.name());
            return Err(Wrong::new(&place, problem));
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
        parse_as(Kind::Cosign, critical, rest)
    }

    fn parse_as(kind: Kind, critical: &str, rest: &str) -> Result<Payload, Wrong> {
        Payload::parse(
            kind,
            format!(r#"{{"critical":{{{critical}}}{rest}}}"#).as_bytes(),
        )
    }

    fn parts() -> [String; 3] {
        [
            format!(r#""type":"{}""#, Kind::Cosign.name()),
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
    fn what_is_signed_with_gpg_has_another_type_and_more_to_it() {
        let all = parts()
            .join(",")
            .replace("cosign container image", "atomic container");
        let rest = r#","optional":{"creator":"x","timestamp":1}"#;
        let payload = parse_as(Kind::Atomic, &all, rest).unwrap();
        assert_eq!(payload.digest.to_string(), DIGEST);
        for (critical, rest) in [
            (&all, ""),
            (&all, r#","optional":null"#),
            (&parts().join(","), rest),
        ] {
            parse_as(Kind::Atomic, critical, rest).unwrap_err();
        }
        parse(&all, rest).unwrap_err();
    }

    #[test]
    fn anything_else_is_refused_with_its_place() {
        let all = parts().join(",");
        for (critical, rest, complaint) in [
            (all.clone(), r#","x":1"#, "x: unknown field"),
            (
                all.clone(),
                r#","optional":1"#,
                "optional: must be an object",
            ),
            (all.clone() + r#","x":1"#, "", "critical.x: unknown field"),
            (
                all.clone() + r#","type":"y""#,
                "",
                r#"duplicate field "type""#,
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
            Payload::parse(Kind::Cosign, text.as_bytes()).unwrap_err();
        }
        let deep = "[".repeat(100_000);
        Payload::parse(Kind::Cosign, deep.as_bytes()).unwrap_err();
    }
}
