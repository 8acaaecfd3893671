//! Conversion of configuration text to C strings.

use std::ffi::CString;

use crate::error::{Error, Result};

/// Returns a NUL-terminated copy; a NUL inside the text is an error.
pub(crate) fn c_string(text: impl Into<Vec<u8>>, what: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(format!("{what}: the value contains a NUL byte")))
}
