//! Deserializes a text with a single document.

use serde::de::DeserializeOwned;

use crate::read::{Document, documents};
use crate::{Node, Position};

/// Reasons why a text cannot be deserialized.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not valid YAML.
    #[error("{at}: {why}")]
    Syntax {
        /// The position.
        at: Position,
        /// The error message.
        why: String,
    },
    /// It has no document.
    #[error("the document is empty")]
    Empty,
    /// It has several documents.
    #[error("{at}: only one document is allowed, but a second one begins here")]
    Several {
        /// The position of the second document.
        at: Position,
    },
    /// The value does not match the type.
    #[error(transparent)]
    Shape(#[from] serde_json::Error),
}

/// Deserializes a text with one document.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let value = one(documents(text))?.to_json();
    Ok(serde_json::from_value(value)?)
}

fn one(documents: Vec<Document>) -> Result<Node, Error> {
    let mut documents = documents.into_iter();
    let node = match documents.next() {
        Some(Document::Good(node)) => node,
        Some(Document::Bad(at, why)) => return Err(Error::Syntax { at, why }),
        None => return Err(Error::Empty),
    };
    match documents.next() {
        None => Ok(node),
        Some(Document::Good(second)) => Err(Error::Several { at: second.at }),
        Some(Document::Bad(at, why)) => Err(Error::Syntax { at, why }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Numbers = BTreeMap<String, u8>;

    fn complaint(text: &str) -> String {
        from_str::<Numbers>(text).unwrap_err().to_string()
    }

    #[test]
    fn one_document_is_a_value() {
        let expected = Numbers::from([("a".into(), 1), ("n".into(), 2)]);
        assert_eq!(from_str::<Numbers>("a: 1\nn: 2\n").unwrap(), expected);
        let json = r#"{"a": 1, "n": 2}"#;
        assert_eq!(from_str::<Numbers>(json).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(complaint("# nothing\n"), "the document is empty");
        assert!(complaint("a: 1\n---\na: 2\n").starts_with("line 3: only one document"));
        assert!(complaint("a: 1\nb: [\n").starts_with("line "));
        assert!(complaint("a: x\n").contains("expected u8"));
    }
}
