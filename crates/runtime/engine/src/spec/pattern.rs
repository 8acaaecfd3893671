//! Matching of names with patterns.

/// Whether a name matches a pattern in which `*` stands for any text.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = name.find(part) else {
            return false;
        };
        name = &name[at + part.len()..];
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_let_through_what_they_describe() {
        for (pattern, name, fits) in [
            ("a.b/c", "a.b/c", true),
            ("a.b/c", "a.b/cd", false),
            ("a.b/*", "a.b/cd", true),
            ("*", "anything", true),
            ("*.end", "x.end", true),
            ("*.end", "x.end.", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1c", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
