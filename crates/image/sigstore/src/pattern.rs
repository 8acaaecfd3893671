//! Patterns of names.

/// A pattern that must match a complete name. `*` matches any characters except `/` and `@`; `**` at the end matches
/// any characters. All other characters match themselves.
///
/// So an attacker who may choose a part of a name, for example a branch, cannot imitate another name: that would
/// require one of the two characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    /// The literal parts between the stars.
    pieces: Vec<String>,
    /// Whether the pattern ends with `**`.
    open: bool,
}

/// Maximum length of a pattern.
const MAX_BYTES: usize = 1024;
/// Maximum number of stars, which limits the time of a match.
const MAX_STARS: usize = 16;

impl Pattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("it is longer than {MAX_BYTES} bytes"));
        }
        let (body, open) = match text.strip_suffix("**") {
            Some(body) => (body, true),
            None => (text, false),
        };
        if body.contains("**") || body.ends_with('*') && open {
            return Err("\"**\" is allowed only at its end".to_owned());
        }
        if body.replace('*', "").is_empty() {
            return Err("it would accept every signer".to_owned());
        }
        let pieces: Vec<String> = body.split('*').map(str::to_owned).collect();
        if pieces.len() > MAX_STARS + 1 {
            return Err(format!("it has more than {MAX_STARS} wildcards"));
        }
        Ok(Self {
            text: text.to_owned(),
            pieces,
            open,
        })
    }

    /// Returns the pattern's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reports whether a name matches.
    pub fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.pieces.split_first() else {
            return false;
        };
        let Some(start) = name.strip_prefix(first.as_str()) else {
            return false;
        };
        // Possible ends of the match so far; no position is checked twice for one piece.
        let mut ends = vec![name.len() - start.len()];
        for piece in rest {
            let mut next: Vec<usize> = Vec::new();
            // The next position to check, and the limit of the current star.
            let (mut from, mut stop) = (0, None);
            for end in ends {
                let stop = match stop {
                    Some(stop) if end <= stop => stop,
                    _ => *stop.insert(
                        name[end..]
                            .find(['/', '@'])
                            .map_or(name.len(), |at| end + at),
                    ),
                };
                for at in end.max(from)..=stop {
                    from = at + 1;
                    if name.is_char_boundary(at) && name[at..].starts_with(piece.as_str()) {
                        next.push(at + piece.len());
                    }
                }
            }
            ends = next;
        }
        if self.open {
            return !ends.is_empty();
        }
        ends.last() == Some(&name.len())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_matched_as_documented() {
        let workflow = "https://github.com/org/*/.github/workflows/release.yml@refs/tags/v*";
        for (pattern, name, matches) in [
            ("a@b.example", "a@b.example", true),
            ("a@b.example", "aa@b.example", false),
            ("a@b.example", "a@b.example.org", false),
            ("a@b.example", "A@b.example", false),
            ("*@b.example", "who.ever@b.example", true),
            ("*@b.example", "@b.example", true),
            ("*@b.example", "x@y@b.example", false),
            ("*@b.example", "x/y@b.example", false),
            ("*@b.example", "x@b.example.org", false),
            ("*@*b", "x@bbab", true),
            ("a*a*a", "aaa", true),
            ("a*a*a", "aa", false),
            ("a*b*c", "axbxbxc", true),
            ("a.c", "abc", false),
            ("a[b]", "ab", false),
            (
                workflow,
                "https://github.com/org/repo/.github/workflows/release.yml@refs/tags/v1.2",
                true,
            ),
            (
                workflow,
                "https://github.com/org/repo/.github/workflows/release.yml@refs/tags/v1/2",
                false,
            ),
            (
                workflow,
                "https://github.com/org/a/b/.github/workflows/release.yml@refs/tags/v1",
                false,
            ),
            (
                workflow,
                "https://github.com/org/evil/.github/workflows/x.yml@refs/heads/a/.github/workflows/release.yml@refs/tags/v1",
                false,
            ),
            (
                workflow,
                "https://github.com/evil/repo/.github/workflows/release.yml@refs/tags/v1",
                false,
            ),
            (
                "https://github.com/org/**",
                "https://github.com/org/repo/x@refs/heads/main",
                true,
            ),
            ("https://github.com/org/**", "https://github.com/org/", true),
            ("https://github.com/org/**", "https://github.com/org", false),
            (
                "https://github.com/org/**",
                "https://github.com/orga/x",
                false,
            ),
            ("x-*/**", "x-é/y", true),
            ("é*", "ééé", true),
        ] {
            let read = Pattern::parse(pattern).unwrap();
            assert_eq!(read.matches(name), matches, "{pattern} {name}");
        }
    }

    #[test]
    fn patterns_that_mean_nothing_or_everything_are_refused() {
        for (text, complaint) in [
            ("", "every signer"),
            ("*", "every signer"),
            ("**", "every signer"),
            ("***", "at its end"),
            ("a***", "at its end"),
            ("a**b", "at its end"),
            (&"a*".repeat(17), "more than 16 wildcards"),
            (&"a".repeat(1025), "longer than 1024 bytes"),
        ] {
            let error = Pattern::parse(text).unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    #[test]
    fn no_name_takes_long() {
        let pattern = Pattern::parse(&(("a*").repeat(16) + "b")).unwrap();
        let name = "a".repeat(2048);
        let start = Instant::now();
        assert!(!pattern.matches(&name));
        assert!(start.elapsed() < Duration::from_millis(500));
    }

    /// A slow reference implementation.
    fn slowly(pattern: &[char], name: &[char]) -> bool {
        match pattern {
            [] => name.is_empty(),
            ['*', '*'] => true,
            ['*', rest @ ..] => {
                slowly(rest, name)
                    || matches!(name, [first, after @ ..] if !"/@".contains(*first) && slowly(pattern, after))
            }
            [one, rest @ ..] => {
                matches!(name, [first, after @ ..] if first == one && slowly(rest, after))
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_fast_is_right(pattern in "[ab/@é]{0,3}(\\*[ab/@]{1,2}){0,4}(\\*\\*)?", name in "[ab/@é]{0,12}") {
            if let Ok(read) = Pattern::parse(&pattern) {
                let chars: Vec<char> = pattern.chars().collect();
                let name_chars: Vec<char> = name.chars().collect();
                prop_assert_eq!(read.matches(&name), slowly(&chars, &name_chars));
            }
        }
    }
}
