//! DSSE: a signed envelope around a statement.

use crate::Refusal;

/// What a statement's envelope says that it holds.
const STATEMENT: &str = "application/vnd.in-toto+json";

/// An envelope with one signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    pub(crate) kind: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

impl Envelope {
    /// The statement's bytes. Worth something only once the signature is verified.
    pub fn statement(&self) -> Result<&[u8], Refusal> {
        if self.kind == STATEMENT {
            return Ok(&self.payload);
        }
        let problem = format!("its envelope holds {:?}, not a statement", self.kind);
        Err(Refusal::Unsupported(problem))
    }

    /// What is signed: the payload and what it is, so that one can't be taken for another
    /// (the "pre-authentication encoding").
    pub(crate) fn message(&self) -> Vec<u8> {
        let (kind, payload) = (&self.kind, &self.payload);
        let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
        message.extend_from_slice(payload);
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lengths_stand_before_what_they_are_of() {
        let envelope = Envelope {
            kind: "http://example.com/HelloWorld".to_owned(),
            payload: b"hello world".to_vec(),
            signature: Vec::new(),
        };
        // The example of DSSE's specification.
        let message = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world";
        assert_eq!(envelope.message(), message);
        assert!(matches!(envelope.statement(), Err(Refusal::Unsupported(_))));
    }
}
