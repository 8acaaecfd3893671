//! Cipher suites of TLS, by name.

use orlop_streaming::CipherSuite;

use super::text::text_value;

text_value!(CipherSuite, "cipher suite");
