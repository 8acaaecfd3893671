//! Credentials of a caller for a registry.

use std::fmt;

use orlop_credentials::{decoded, host_of, same_registry};

use crate::{Error, Result};

/// Credentials as a CRI client sends them. Never printed.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// User name, used with `password`.
    pub username: String,
    /// Password, used with `username`.
    pub password: String,
    /// Base64 of `username:password`, an alternative to both.
    pub auth: String,
    /// The registry that they are for; empty for the image's own.
    pub server_address: String,
    /// A refresh token, which is exchanged at the registry's token server.
    pub identity_token: String,
    /// A token that is sent as it is.
    pub registry_token: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("server_address", &self.server_address)
            .finish_non_exhaustive()
    }
}

/// Credentials in the form that the protocol requires.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Login {
    Basic { username: String, password: String },
    Identity(String),
    Token(String),
}

/// User name which means that the password is an identity token (Docker's convention).
const TOKEN_USER: &str = "<token>";

impl Credentials {
    /// Returns the form of these credentials; `None` if they are empty.
    pub(super) fn login(&self) -> Result<Option<Login>> {
        if !self.registry_token.is_empty() {
            return Ok(Some(Login::Token(self.registry_token.clone())));
        }
        if !self.identity_token.is_empty() {
            return Ok(Some(Login::Identity(self.identity_token.clone())));
        }
        let (username, password) = if !self.username.is_empty() {
            (self.username.clone(), self.password.clone())
        } else if !self.auth.is_empty() {
            decoded(&self.auth).ok_or_else(|| Error::Configuration {
                path: format!("credentials for {:?}", self.server_address),
                reason: "\"auth\" is not base64 of \"username:password\"".to_owned(),
            })?
        } else {
            return Ok(None);
        };
        Ok(Some(if username == TOKEN_USER {
            Login::Identity(password)
        } else {
            Login::Basic { username, password }
        }))
    }

    /// Returns whether they may be sent to `host`. `is_own` means that the host serves the image's own registry.
    pub(super) fn are_for(&self, host: &str, is_own: bool) -> bool {
        if self.server_address.is_empty() {
            return is_own;
        }
        same_registry(&host_of(&self.server_address), host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(credentials: &Credentials) -> Option<(String, String)> {
        match credentials.login().unwrap() {
            Some(Login::Basic { username, password }) => Some((username, password)),
            _ => None,
        }
    }

    #[test]
    fn every_form_of_login_is_understood() {
        let auth = |auth: &str| Credentials {
            auth: auth.to_owned(),
            ..Credentials::default()
        };
        let expected = Some(("user".to_owned(), "pa:ss".to_owned()));
        assert_eq!(basic(&auth("dXNlcjpwYTpzcw==")), expected);
        assert!(auth("!!").login().is_err());
        assert!(Credentials::default().login().unwrap().is_none());
    }

    #[test]
    fn credentials_stay_with_their_registry() {
        let own = Credentials::default();
        assert!(own.are_for("a.example", true));
        assert!(!own.are_for("mirror.example", false));
        let hub = Credentials {
            server_address: "https://index.docker.io/v1/".to_owned(),
            ..Credentials::default()
        };
        assert!(hub.are_for("registry-1.docker.io", true));
        assert!(!hub.are_for("a.example", true));
    }

    #[test]
    fn secrets_are_not_printed() {
        let credentials = Credentials {
            username: "u".to_owned(),
            password: "secret".to_owned(),
            registry_token: "secret".to_owned(),
            ..Credentials::default()
        };
        assert!(!format!("{credentials:?}").contains("secret"));
    }
}
