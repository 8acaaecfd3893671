//! Removal marks: a dash before the name of an annotation, mount, device …

/// Returns the name without its removal mark, if it has one.
pub fn removed(name: &str) -> Option<&str> {
    name.strip_prefix('-')
}

/// Adds a removal mark to a name.
pub(crate) fn mark(name: &str) -> String {
    format!("-{name}")
}
