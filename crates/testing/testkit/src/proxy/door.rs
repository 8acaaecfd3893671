//! Access control of the proxy: none, a password, or tokens from its own server.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::registry::Login;

/// Access control in front of the registry.
#[derive(Debug, Default)]
pub enum Door {
    /// No authentication.
    #[default]
    Open,
    /// Basic authentication.
    Basic(Login),
    /// Bearer tokens, issued at the proxy's own `/token`.
    Bearer(TokenRules),
}

/// Rules of the token server.
#[derive(Debug, Default)]
pub struct TokenRules {
    /// Required login; without one, every client gets a token.
    pub login: Option<Login>,
    /// Identity (refresh) token that is accepted instead of a login.
    pub identity_token: Option<String>,
    /// Number of requests after which a token expires.
    pub requests_per_token: Option<usize>,
}

/// Access control with the issued tokens.
#[derive(Debug, Default)]
pub(super) struct Guard {
    door: Door,
    issued: HashMap<String, Issued>,
}

#[derive(Debug)]
struct Issued {
    scope: String,
    left: usize,
}

/// Decision about a request.
pub(super) enum Verdict {
    Enter,
    Challenge(String),
}

impl Guard {
    pub(super) fn of(door: Door) -> Self {
        Self {
            door,
            issued: HashMap::new(),
        }
    }

    /// Expires all tokens.
    pub(super) fn expire(&mut self) {
        self.issued.clear();
    }

    /// Returns whether credentials of a request are for the proxy, not for the registry.
    pub(super) fn is_shut(&self) -> bool {
        !matches!(self.door, Door::Open)
    }

    pub(super) fn judge(&mut self, own: &str, path: &str, authorization: Option<&str>) -> Verdict {
        match &self.door {
            Door::Open => Verdict::Enter,
            Door::Basic(login) if authorization == Some(login.basic().as_str()) => Verdict::Enter,
            Door::Basic(_) => Verdict::Challenge("Basic realm=\"testkit\"".to_owned()),
            Door::Bearer(_) => self.judge_token(own, path, authorization),
        }
    }

    fn judge_token(&mut self, own: &str, path: &str, authorization: Option<&str>) -> Verdict {
        let wanted = repository_of(path).map(|name| format!("repository:{name}:pull"));
        let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
        if let Some(issued) = token.and_then(|token| self.issued.get_mut(token)) {
            let covers = wanted.as_ref().is_none_or(|wanted| {
                issued
                    .scope
                    .split(' ')
                    .any(|scope| scope.starts_with(wanted.as_str()))
            });
            if covers && issued.left > 0 {
                issued.left -= 1;
                return Verdict::Enter;
            }
        }
        let scope = wanted
            .map(|scope| format!(",scope=\"{scope}\""))
            .unwrap_or_default();
        let stale = if token.is_some() {
            ",error=\"invalid_token\""
        } else {
            ""
        };
        Verdict::Challenge(format!(
            "Bearer realm=\"http://{own}/token\",service=\"testkit\"{scope}{stale}"
        ))
    }

    /// Returns status and body of the token server's response.
    pub(super) fn token(
        &mut self,
        authorization: Option<&str>,
        query: &str,
        form: &str,
    ) -> (u16, String) {
        let Door::Bearer(rules) = &self.door else {
            return (404, "no token server here".to_owned());
        };
        let asked: Vec<(String, String)> = parameters(query).chain(parameters(form)).collect();
        let value = |key: &str| {
            asked
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, v)| v.as_str())
        };
        if !rules.admit(authorization, value) {
            return (
                401,
                json!({ "errors": [{ "code": "UNAUTHORIZED" }] }).to_string(),
            );
        }
        let token = BASE64_STANDARD.encode(rand::random::<[u8; 18]>());
        let scope = value("scope").unwrap_or_default().to_owned();
        let left = rules.requests_per_token.unwrap_or(usize::MAX);
        self.issued.insert(token.clone(), Issued { scope, left });
        // Both names are in use; so is a lifetime, though this server counts requests.
        let answer = json!({ "token": token, "access_token": token, "expires_in": 300 });
        (200, answer.to_string())
    }
}

impl TokenRules {
    /// Checks the credentials of a token request.
    fn admit<'a>(
        &self,
        authorization: Option<&str>,
        value: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        let by_refresh = value("grant_type") == Some("refresh_token")
            && self.identity_token.is_some()
            && value("refresh_token") == self.identity_token.as_deref();
        let by_login = self.login.as_ref().is_some_and(|login| {
            let by_form = value("grant_type") == Some("password")
                && value("username") == Some(&login.user)
                && value("password") == Some(&login.password);
            by_form || authorization == Some(login.basic().as_str())
        });
        let open = self.login.is_none() && self.identity_token.is_none();
        by_refresh || by_login || open
    }
}

/// Returns the repository in a path of the distribution protocol.
fn repository_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/v2/")?;
    let end = ["/manifests/", "/blobs/", "/tags/", "/referrers/"]
        .iter()
        .filter_map(|part| rest.rfind(part))
        .max()?;
    Some(&rest[..end])
}

/// Returns the decoded pairs of a query or a form.
fn parameters(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((decoded(name), decoded(value)))
    })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).unwrap_or(b'?')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_found_in_a_path() {
        assert_eq!(repository_of("/v2/a/b/manifests/1"), Some("a/b"));
        assert_eq!(repository_of("/v2/blobs/x/blobs/sha256:0"), Some("blobs/x"));
        assert_eq!(repository_of("/v2/"), None);
    }

    #[test]
    fn forms_are_decoded() {
        let pairs: Vec<_> = parameters("scope=repository%3Aa%2Fb%3Apull&x=1+2").collect();
        assert_eq!(pairs[0].1, "repository:a/b:pull");
        assert_eq!(pairs[1].1, "1 2");
    }
}
