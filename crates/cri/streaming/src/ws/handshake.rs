//! Keys of the WebSocket handshake.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Fixed by RFC 6455, section 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns the server's reply to a client's key; `None` if the key is not 16 bytes in base64.
pub(crate) fn accept_key(key: &str) -> Option<String> {
    let decoded = STANDARD.decode(key).ok()?;
    if decoded.len() != 16 {
        return None;
    }
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes());
    hash.update(GUID.as_bytes());
    Some(STANDARD.encode(hash.finish()))
}

/// Generates a key for a client.
pub(crate) fn fresh_key() -> String {
    STANDARD.encode(rand::random::<[u8; 16]>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard_is_answered_as_it_says() {
        assert_eq!(
            accept_key("dGhlIHNhbXBsZSBub25jZQ==").as_deref(),
            Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        );
        assert_eq!(accept_key("c2hvcnQ="), None);
        assert_eq!(accept_key("not base64 at all"), None);
        assert!(accept_key(&fresh_key()).is_some());
    }
}
