//! The scopes of `transports.docker`, and which of them an image matches.

use crate::{Reference, Selector};

/// Returns the scopes that an image matches, the most specific first: the image itself, its repository, the
/// namespaces above that, the registry, the domains above the registry, all.
pub(crate) fn of(reference: &Reference) -> Vec<String> {
    let repository = reference.repository();
    // Paths and tags are case-sensitive.
    let domain = canonical(repository.domain());
    let mut name = format!("{domain}/{}", repository.path());
    let mut scopes = vec![match reference.selector() {
        Selector::Tag(tag) => format!("{name}:{tag}"),
        Selector::Digest(digest) => format!("{name}@{digest}"),
    }];
    while let Some(slash) = name.rfind('/') {
        scopes.push(name.clone());
        name.truncate(slash);
    }
    scopes.push(name);
    // Wildcards have no port; IPv6 addresses have no parent domain.
    let host = domain.split(':').next().unwrap_or(&domain);
    let above = host.match_indices('.').map(|(dot, _)| &host[dot + 1..]);
    scopes.extend(above.map(|domain| format!("*.{domain}")));
    scopes.push(String::new());
    scopes
}

/// Normalizes a scope for comparison. A scope that no image can match is an error, because it would protect nothing.
pub(crate) fn normal(scope: &str) -> Result<String, &'static str> {
    let rest = scope.strip_prefix("*.").unwrap_or(scope);
    let wildcard = rest.len() < scope.len();
    if rest.contains('*') {
        return Err("a wildcard must cover a whole domain, as in \"*.example.com\"");
    }
    if scope.contains("://") {
        return Err("a scope must not have a scheme; write \"registry.example.com/repository\"");
    }
    if wildcard && rest.contains(['/', ':', '@']) {
        return Err("a scope with a wildcard must be a domain without port and path");
    }
    if rest.starts_with('/') || rest.ends_with('/') || rest.contains("//") {
        return Err("a scope must not begin or end with a slash, or contain two slashes in a row");
    }
    if !scope.bytes().all(|byte| byte.is_ascii_graphic()) || scope == "*." {
        return Err("no image can have this name");
    }
    let host = scope.split('/').next().unwrap_or(scope);
    Ok(canonical(host) + &scope[host.len()..])
}

/// Returns the reason why no image matches a scope that [`normal`] has accepted. Other implementations accept such
/// scopes, so it is not an error.
pub(crate) fn unused(scope: &str) -> Option<String> {
    if scope.is_empty() {
        return None;
    }
    let below = match scope.strip_prefix("*.") {
        Some(domain) => format!("a.{domain}/a"),
        None => format!("{scope}/a"),
    };
    // A scope with a tag or digest is an image name itself.
    let names = [below.as_str(), scope].map(str::parse::<Reference>);
    if names
        .iter()
        .flatten()
        .any(|name| of(name).iter().any(|it| it == scope))
    {
        return None;
    }
    Some(match names {
        // A registry alone is not an image name, even if it can be parsed as one.
        [Err(error), own] if own.is_ok() || !scope.contains('/') => reason(error),
        [_, Err(error)] | [Err(error), _] => reason(error),
        [_, Ok(name)] => format!(
            "the full name of such an image begins with {}",
            name.repository()
        ),
    })
}

fn reason(error: crate::Error) -> String {
    match error {
        crate::Error::InvalidReference { reason, .. } => reason,
        other => other.to_string(),
    }
}

/// Normalizes a host: lower case, without the default port of HTTPS.
fn canonical(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    match host.strip_suffix(":443") {
        Some(name) => name.to_owned(),
        None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(text: &str) -> Vec<String> {
        of(&text.parse().unwrap())
    }

    #[test]
    fn a_host_is_the_same_however_it_is_written() {
        assert_eq!(of_text("A.example:443/x:1"), of_text("a.example/x:1"));
        assert_eq!(normal("A.example:443/x").unwrap(), "a.example/x");
        assert_ne!(of_text("a.example:5000/x:1"), of_text("a.example/x:1"));
        for other in [
            "a.example:0443/x",
            "a.example:+443/x",
            "10.5/x",
            "010.0.0.5/x",
            "1.2.3.0x4/x",
        ] {
            assert!(other.parse::<Reference>().is_err(), "{other}");
        }
        for fine in [
            "10.0.0.5/x",
            "10.0.0.5:5000/x",
            "a.example:443/x",
            "a1.2b/x",
            "localhost:5000/x",
        ] {
            assert!(fine.parse::<Reference>().is_ok(), "{fine}");
        }
    }

    #[test]
    fn the_most_specific_scope_comes_first() {
        assert_eq!(
            of_text("registry.example.com:5000/team/app:1"),
            [
                "registry.example.com:5000/team/app:1",
                "registry.example.com:5000/team/app",
                "registry.example.com:5000/team",
                "registry.example.com:5000",
                "*.example.com",
                "*.com",
                "",
            ]
        );
        assert_eq!(
            of_text("busybox"),
            [
                "docker.io/library/busybox:latest",
                "docker.io/library/busybox",
                "docker.io/library",
                "docker.io",
                "*.io",
                "",
            ]
        );
        let digest = format!("sha256:{}", "a".repeat(64));
        assert_eq!(
            of_text(&format!("localhost/app:1@{digest}")),
            [
                &format!("localhost/app@{digest}"),
                "localhost/app",
                "localhost",
                "",
            ]
        );
        assert_eq!(
            of_text("[::1]:5000/app:x"),
            ["[::1]:5000/app:x", "[::1]:5000/app", "[::1]:5000", ""]
        );
    }

    #[test]
    fn the_case_of_a_host_does_not_lead_past_its_scope() {
        assert_eq!(
            normal("Registry.Example/App").unwrap(),
            "registry.example/App"
        );
        let scopes = of_text("REGISTRY.example/app:Tag");
        assert_eq!(scopes[0], "registry.example/app:Tag");
        assert!(scopes.contains(&"registry.example".to_owned()));
    }

    #[test]
    fn scopes_that_no_image_falls_under_are_told() {
        let digest = format!("a.example/b@sha256:{}", "a".repeat(64));
        for good in [
            "",
            "a.example",
            "a.example:5000",
            "localhost",
            "localhost/b",
            "[::1]:5000",
            "*.example",
            "*.a.example",
            "a.example/b",
            "a.example/b/c:Tag",
            "docker.io/library/busybox",
            "docker.io/library",
            &digest,
        ] {
            assert_eq!(unused(&normal(good).unwrap()), None, "{good}");
        }
        for (bad, why) in [
            ("a.example/Team", "lower case"),
            ("a.example/b:-x", "tag"),
            ("a.example/b@sha256:12", "digest"),
            ("a.example:99999", "port"),
            ("a.example:0443/b", "port"),
            ("a_b.example", "host name"),
            ("*.a_b.example", "host name"),
            ("[::1", "']'"),
            ("10.5", "address"),
            ("busybox", "begins with docker.io/library/busybox"),
            ("team/app", "begins with docker.io/team/app"),
            ("index.docker.io", "begins with docker.io/"),
        ] {
            let told = unused(&normal(bad).unwrap());
            let told = told.unwrap_or_else(|| panic!("{bad} is used"));
            assert!(told.contains(why), "{bad}: {told}");
        }
    }

    #[test]
    fn scopes_that_no_image_falls_under_are_wrong() {
        for good in [
            "",
            "*.example.com",
            "a.example",
            "a:5000",
            "a/b/c:1",
            "*.io",
        ] {
            assert_eq!(normal(good).as_deref(), Ok(good));
        }
        for bad in [
            "*",
            "*.",
            "example*.com",
            "a.*.com",
            "*.*.com",
            "*.a.example/b",
            "*.a.example:5000",
            "https://a.example",
            "a.example/",
            "/a",
            "a//b",
            "a b",
            "a\n",
            "ä.example",
        ] {
            assert!(normal(bad).is_err(), "{bad:?}");
        }
    }
}
