//! `WWW-Authenticate`: the authentication that a registry requires.

/// A registry's authentication challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
        error: Option<String>,
    },
}

/// Parses a header value, which may contain several challenges; prefers Bearer.
pub(crate) fn parse(header: &str) -> Option<Challenge> {
    let mut rest = header.trim();
    let mut basic = None;
    while !rest.is_empty() {
        let end = rest.find([' ', ',']).unwrap_or(rest.len());
        let scheme = &rest[..end];
        let (parameters, next) = parameters(rest[end..].trim_start());
        rest = next;
        if scheme.eq_ignore_ascii_case("bearer") {
            let get = |name: &str| {
                parameters
                    .iter()
                    .find(|(key, _)| key.eq_ignore_ascii_case(name))
                    .map(|(_, value)| value.clone())
            };
            return Some(Challenge::Bearer {
                realm: get("realm")?,
                service: get("service"),
                scope: get("scope"),
                error: get("error"),
            });
        }
        if scheme.eq_ignore_ascii_case("basic") {
            basic = Some(Challenge::Basic);
        }
        if scheme.is_empty() {
            break;
        }
    }
    basic
}

/// Parses `key=value` pairs up to the next scheme.
fn parameters(mut rest: &str) -> (Vec<(String, String)>, &str) {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        let Some((key, after)) = rest.split_once('=') else {
            return (found, "");
        };
        // A word before the key is the next scheme.
        if key.trim_end().contains([' ', ',']) || key.is_empty() {
            return (found, rest);
        }
        let (value, after) = if let Some(quoted) = after.strip_prefix('"') {
            quoted_text(quoted)
        } else {
            let end = after.find([',', ' ']).unwrap_or(after.len());
            (after[..end].to_owned(), &after[end..])
        };
        found.push((key.trim_end().to_owned(), value));
        rest = after;
    }
}

fn quoted_text(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, &text[at + 1..]),
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
            error: None,
        }
    }

    #[test]
    fn challenges_of_real_registries_are_read() {
        assert_eq!(
            parse(
                r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#
            ),
            Some(bearer(
                "https://auth.docker.io/token",
                Some("registry.docker.io"),
                Some("repository:a/b:pull,push")
            ))
        );
        assert_eq!(parse("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(
            parse("bearer realm=https://x/y , service=s"),
            Some(bearer("https://x/y", Some("s"), None))
        );
        assert_eq!(
            parse(r#"Basic realm="a \"b\"", Bearer realm="https://x""#),
            Some(bearer("https://x", None, None))
        );
        assert_eq!(parse("Negotiate"), None);
        assert_eq!(parse("Bearer service=x"), None);
    }

    proptest! {
        #[test]
        fn no_header_hangs_or_panics(text in "[Bearscilm =,\"\\\\]{0,60}") {
            let _ = parse(&text);
        }
    }
}
