//! Names marked for removal: a dash before the name of an annotation, mount, device …

/// The name without its mark, if it has one.
pub fn removed(name: &str) -> Option<&str> {
    name.strip_prefix('-')
}

/// The name with a mark.
pub(crate) fn mark(name: &str) -> String {
    format!("-{name}")
}
