//! Namespaces of pods as they name files.

/// The longest name of a file that is looked for.
const LONGEST: usize = 253;

/// Whether a namespace can be the name of a file: one that leads nowhere else, and is not hidden.
pub(crate) fn is_plain(namespace: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    namespace.len() <= LONGEST && namespace.bytes().all(plain) && !namespace.starts_with('.')
}

/// As much of one as an error shows.
pub(crate) fn shown(namespace: &str) -> String {
    namespace.chars().take(LONGEST).collect()
}
