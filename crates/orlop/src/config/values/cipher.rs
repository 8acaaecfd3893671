//! Cipher suites of TLS, by name.

use orlop_stream::CipherSuite;

use super::text::text_value;

text_value!(CipherSuite, "cipher suite");
