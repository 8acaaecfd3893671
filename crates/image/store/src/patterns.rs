//! Name patterns with `*` at the start, the end or both.

/// Returns whether `name` matches a pattern with `*` at either end or both.
pub(crate) fn matches_pattern(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(pattern.trim_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_at_their_ends() {
        assert!(matches_pattern(
            "registry.k8s.io/pause*",
            "registry.k8s.io/pause:3.9"
        ));
        assert!(matches_pattern("*:stable", "a/b:stable"));
        assert!(matches_pattern("*pause*", "x/pause:1"));
        assert!(matches_pattern("a:1", "a:1"));
        assert!(!matches_pattern("a:1", "a:12"));
        assert!(!matches_pattern("*pause", "x/pause:1"));
    }
}
