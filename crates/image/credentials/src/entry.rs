//! An entry of a credentials file: user name, password, token.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;

/// The credentials of a registry. Never printed.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// User name, with `password`.
    pub username: String,
    /// Password, with `username`.
    pub password: String,
    /// Base64 of `username:password`, as an alternative to the two fields.
    pub auth: String,
    /// The user's address.
    pub email: String,
    /// A refresh token, which is exchanged at the registry's token server.
    #[serde(rename = "identitytoken")]
    pub identity_token: String,
    /// A token that is presented as it is.
    #[serde(rename = "registrytoken")]
    pub registry_token: String,
}

impl Entry {
    /// Decodes `auth`, which takes precedence over user name and password. An invalid value stays unchanged.
    #[must_use]
    pub fn opened(mut self) -> Self {
        if let Some((username, password)) = decoded(&self.auth) {
            (self.username, self.password) = (username, password);
            self.auth.clear();
        }
        self
    }

    /// Reports whether the entry has no credentials.
    pub(crate) fn is_empty(&self) -> bool {
        [
            &self.username,
            &self.password,
            &self.auth,
            &self.identity_token,
            &self.registry_token,
        ]
        .iter()
        .all(|part| part.is_empty())
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}

/// Decodes user name and password from base64 of `username:password`.
pub fn decoded(auth: &str) -> Option<(String, String)> {
    let auth = auth.trim();
    let bytes = STANDARD
        .decode(auth)
        .or_else(|_| STANDARD_NO_PAD.decode(auth))
        .ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (username, password) = text.split_once(':')?;
    // Some tools pad the password with zero bytes.
    Some((
        username.to_owned(),
        password.trim_end_matches('\0').to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_are_read_however_they_are_encoded() {
        let wanted = Some(("user".to_owned(), "pa:ss".to_owned()));
        assert_eq!(decoded("dXNlcjpwYTpzcw=="), wanted);
        assert_eq!(decoded("dXNlcjpwYTpzcw"), wanted);
        assert_eq!(decoded(" dXNlcjpwYTpzcw==\n"), wanted);
        assert_eq!(decoded(&STANDARD.encode("user:pa:ss\0\0")), wanted);
        assert_eq!(decoded("!!"), None);
        assert_eq!(decoded(""), None);
    }

    #[test]
    fn what_is_encoded_counts_more_than_what_stands_beside_it() {
        let entry = |auth: &str| Entry {
            username: "old".to_owned(),
            password: "old".to_owned(),
            auth: auth.to_owned(),
            ..Entry::default()
        };
        let opened = entry("dXNlcjpwYTpzcw==").opened();
        assert_eq!((&*opened.username, &*opened.password), ("user", "pa:ss"));
        assert_eq!(entry("!!").opened(), entry("!!"));
    }

    #[test]
    fn secrets_are_not_printed() {
        let entry = Entry {
            username: "secret".to_owned(),
            ..Entry::default()
        };
        assert!(!format!("{entry:?}").contains("secret"));
    }
}
