//! Identifiers of pods and containers: 64 hexadecimal digits, as every CRI client expects.

use std::fmt;
use std::sync::Arc;

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Generates a random identifier.
            pub fn random() -> Self {
                Self(orlop_text::hex::encode(&rand::random::<[u8; 32]>()).into())
            }

            /// Parses an identifier read from disk; `None` if it is not one of the daemon's.
            pub fn parse(text: &str) -> Option<Self> {
                let ours = text.len() == 64
                    && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
                ours.then(|| Self(text.into()))
            }

            /// Returns the identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0[..12])
            }
        }
    };
}

id_type!(
    /// A pod sandbox's identifier.
    PodId
);
id_type!(
    /// A container's identifier.
    ContainerId
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_are_parsed_back_and_differ() {
        let id = PodId::random();
        assert_eq!(PodId::parse(id.as_str()), Some(id.clone()));
        assert_ne!(id, PodId::random());
    }

    #[test]
    fn foreign_names_are_not_ids() {
        for name in [
            "",
            "abc",
            "../../etc",
            &"g".repeat(64),
            &"A".repeat(64),
            &"a".repeat(65),
        ] {
            assert_eq!(ContainerId::parse(name), None, "{name}");
        }
    }
}
