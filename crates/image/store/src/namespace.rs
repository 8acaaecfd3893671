//! Pod namespaces in file names.

/// Maximum length of a file name.
const LONGEST: usize = 253;

/// Returns whether a namespace is safe as a file name: it is no path and not hidden.
pub(crate) fn is_plain(namespace: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    namespace.len() <= LONGEST && namespace.bytes().all(plain) && !namespace.starts_with('.')
}

/// Shortens a namespace for an error message.
pub(crate) fn shown(namespace: &str) -> String {
    namespace.chars().take(LONGEST).collect()
}
