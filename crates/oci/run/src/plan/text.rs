//! Texts of the configuration as the kernel takes them.

use std::ffi::CString;

use crate::error::{Error, Result};

/// A terminated copy; the kernel cannot be told a NUL.
pub(crate) fn c_string(text: impl Into<Vec<u8>>, what: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(format!("{what}: the value contains a NUL byte")))
}
