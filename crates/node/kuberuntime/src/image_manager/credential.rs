//! Registry credentials.

use orlop_cri_api::v1::AuthConfig;
use orlop_kubelet_rules::hash::sha256;
use orlop_kubelet_rules::image::SecretRecord;
use serde::Serialize;

/// A registry credential and its origin.
#[derive(Clone, PartialEq)]
pub(crate) struct Credential {
    /// The credential in the form that the runtime expects.
    pub(crate) auth: AuthConfig,
    /// A hash of the credential.
    pub(super) hash: String,
    /// The pull secret that it comes from; `None` for a credential of the node.
    pub(crate) secret: Option<SecretRecord>,
}

#[derive(Serialize)]
struct Hashed<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    password: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    email: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    identitytoken: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    registrytoken: &'a str,
}

/// Hashes a credential as the kubelet does: over the JSON that Go writes.
pub(super) fn credential_hash(auth: &AuthConfig, email: &str) -> String {
    let hashed = Hashed {
        username: &auth.username,
        password: &auth.password,
        email,
        identitytoken: &auth.identity_token,
        registrytoken: &auth.registry_token,
    };
    let Ok(mut text) = serde_json::to_string(&hashed) else {
        return String::new();
    };
    for (plain, escaped) in [
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u{2028}", "\\u2028"),
        ("\u{2029}", "\\u2029"),
    ] {
        text = text.replace(plain, escaped);
    }
    sha256(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_kubelets() {
        let auth = AuthConfig {
            username: "u".to_owned(),
            password: "p&<".to_owned(),
            ..AuthConfig::default()
        };
        // printf '{"username":"u","password":"p\\u0026\\u003c"}' | sha256sum
        assert_eq!(
            credential_hash(&auth, ""),
            "7d9a8e6c3eaf52133b6812a4c3f7db5da678989bcc6bb7bb2a37d1b540214ebe"
        );
        assert_ne!(credential_hash(&auth, "a@b"), credential_hash(&auth, ""));
    }
}
