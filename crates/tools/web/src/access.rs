//! Access control. A browser presents the token once, in the first URL, and a session cookie from then on. The Host and
//! Origin headers show whether another site sent a request.

use std::net::IpAddr;
use std::path::PathBuf;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Context, SHA256};
use http::header::{COOKIE, HeaderName, HeaderValue, ORIGIN};
use http::{HeaderMap, Uri};
use orlop_listen::{Host, Listener};

/// Maximum length of a token.
const LONGEST_TOKEN: u64 = 4 << 10;

/// Header with the relation of the requesting site (Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The token that the first URL must contain.
#[derive(Debug, Clone)]
pub enum Token {
    /// This token.
    Given(String),
    /// The content of a file, read at each request.
    File(PathBuf),
}

impl Token {
    /// Generates a random token.
    pub fn random() -> Self {
        Self::Given(orlop_text::hex::encode(&rand::random::<[u8; 32]>()))
    }

    /// Returns the current token. `None` if the file cannot be read or is empty: then every login is refused.
    async fn now(&self) -> Option<Vec<u8>> {
        let path = match self {
            Self::Given(token) => return Some(token.clone().into_bytes()),
            Self::File(path) => path.clone(),
        };
        let read = orlop_pool::blocking(move || {
            let read = orlop_fs::read_file(&path, LONGEST_TOKEN);
            read.inspect_err(|error| {
                tracing::warn!(path = %path.display(), %error, "cannot read the token file; logins fail");
            })
        });
        let read = read.await.ok()?.ok()?;
        let token = read.trim_ascii();
        (!token.is_empty()).then(|| token.to_vec())
    }
}

/// Access control of one server.
#[derive(Debug)]
pub(crate) struct Access {
    token: Token,
    /// Random key of this server: sessions end with it.
    key: [u8; 32],
    cookie: String,
    is_tls: bool,
    /// Listening address; `None` for a unix socket.
    address: Option<IpAddr>,
    /// Host names that are allowed in addition to the address.
    names: Vec<String>,
}

/// Reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The Host header is unknown, as in a DNS rebinding attack.
    #[error(
        "the Host header of the request is not a name of this server; use the address that it \
         listens on, localhost, or a name that it was started with"
    )]
    Host,
    /// A page of another site sent it.
    #[error("the request comes from another site")]
    Origin,
    /// It has no session.
    #[error(
        "no session; open the address with ?token= that the server printed or saved when it started"
    )]
    Stranger,
    /// It has a wrong token.
    #[error("wrong token; use the address that the server printed or saved when it last started")]
    WrongToken,
}

impl Access {
    pub(crate) fn new(token: Token, names: Vec<String>, listener: &Listener, is_tls: bool) -> Self {
        let address = listener.tcp_address();
        Self {
            token,
            key: rand::random(),
            cookie: match address {
                Some(address) => format!("orlop_web_{}", address.port()),
                None => "orlop_web".to_owned(),
            },
            is_tls,
            address: address.map(|address| address.ip()),
            names,
        }
    }

    /// Checks that the request was sent to this server, and by its own page.
    pub(crate) fn check_site(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = Host::of(uri, headers).map_err(|_| Refusal::Host)?;
        let host = host.filter(|host| self.is_ours(host));
        let host = host.ok_or(Refusal::Host)?.as_str();
        for origin in headers.get_all(ORIGIN) {
            let origin = origin.to_str().map_err(|_| Refusal::Origin)?;
            let own = origin
                .strip_prefix("http://")
                .or(origin.strip_prefix("https://"));
            if !own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
                return Err(Refusal::Origin);
            }
        }
        Ok(())
    }

    /// Checks that a request for data comes from a page of this server, or from no page. Browsers treat other ports of
    /// a machine as the same site.
    pub(crate) fn check_api(headers: &HeaderMap) -> Result<(), Refusal> {
        let from = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
        match from {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => Err(Refusal::Origin),
        }
    }

    /// Checks the token and returns the session cookie.
    pub(crate) async fn login(&self, shown: &str) -> Result<HeaderValue, Refusal> {
        let token = self.token.now().await.ok_or(Refusal::WrongToken)?;
        if !is_same(shown.as_bytes(), &token) {
            return Err(Refusal::WrongToken);
        }
        let secure = if self.is_tls { "; Secure" } else { "" };
        let cookie = format!(
            "{}={}; HttpOnly; SameSite=Strict; Path=/{secure}",
            self.cookie,
            self.session(&token)
        );
        HeaderValue::try_from(cookie).map_err(|_| Refusal::WrongToken)
    }

    /// Returns the URL with the token, or without it if the token is in a file.
    pub(crate) fn first_address(&self, address: &str) -> String {
        match &self.token {
            Token::Given(token) => format!("{address}?token={token}"),
            Token::File(_) => address.to_owned(),
        }
    }

    /// Checks that the request has a session.
    pub(crate) async fn check_session(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let cookies = headers.get_all(COOKIE).iter();
        let cookies = cookies.filter_map(|cookies| cookies.to_str().ok());
        let mut cookies = cookies.flat_map(|cookies| cookies.split(';'));
        let shown = cookies.find_map(|cookie| {
            let (name, value) = cookie.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        });
        let shown = shown.ok_or(Refusal::Stranger)?;
        let token = self.token.now().await.ok_or(Refusal::Stranger)?;
        if is_same(shown.as_bytes(), self.session(&token).as_bytes()) {
            return Ok(());
        }
        Err(Refusal::Stranger)
    }

    /// Returns the value of the cookie. It does not reveal the token, and ends with the server or the token.
    fn session(&self, token: &[u8]) -> String {
        let mut digest = Context::new(&SHA256);
        digest.update(&self.key);
        digest.update(token);
        orlop_text::hex::encode(digest.finish().as_ref())
    }

    /// Returns whether the host is allowed. An IP address cannot be redirected, but a name can.
    fn is_ours(&self, host: &Host<'_>) -> bool {
        let Some(ip) = host.address() else {
            return host.is_named(&self.names);
        };
        match self.address {
            Some(address) => ip == address || ip.is_loopback() || address.is_unspecified(),
            None => ip.is_loopback(),
        }
    }
}

/// Compares in constant time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    verify_slices_are_equal(one, other).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(address: Option<&str>, names: &[&str]) -> Access {
        Access {
            token: Token::Given("secret".into()),
            key: [7; 32],
            cookie: "orlop_web_1".into(),
            is_tls: false,
            address: address.map(|address| address.parse().unwrap()),
            names: names.iter().map(|&name| name.into()).collect(),
        }
    }

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_its_own_names_and_addresses_are_served() {
        let check = |access: &Access, host: &str| {
            let checked = access.check_site(&Uri::from_static("/"), &headers(&[("host", host)]));
            checked.is_ok()
        };
        let local = access(Some("127.0.0.1"), &["Node.Example"]);
        for good in [
            "127.0.0.1:1",
            "localhost",
            "LOCALHOST:9",
            "[::1]:1",
            "node.example:1",
        ] {
            assert!(check(&local, good), "{good}");
        }
        for bad in [
            "evil.example",
            "127.0.0.1.evil.example:1",
            "localhost.evil.example",
            "10.0.0.1:1",
            "user@localhost",
            "",
        ] {
            assert!(!check(&local, bad), "{bad}");
        }
        let open = access(Some("0.0.0.0"), &[]);
        assert!(check(&open, "10.0.0.1:1") && !check(&open, "evil.example"));
        assert!(check(&access(None, &[]), "localhost:8080"));
        let two = headers(&[("host", "localhost"), ("host", "localhost")]);
        assert!(local.check_site(&Uri::from_static("/"), &two).is_err());
        let none = local.check_site(&Uri::from_static("/"), &HeaderMap::new());
        assert_eq!(none, Err(Refusal::Host));
        let whole = Uri::from_static("http://localhost/");
        let named = headers(&[("host", "localhost")]);
        assert!(local.check_site(&whole, &named).is_err());
    }

    #[test]
    fn other_sites_are_refused() {
        let access = access(Some("127.0.0.1"), &[]);
        let check = |origin: &str| {
            let headers = headers(&[("host", "localhost:1"), ("origin", origin)]);
            access.check_site(&Uri::from_static("/"), &headers)
        };
        assert_eq!(check("http://localhost:1"), Ok(()));
        for other in [
            "http://localhost:2",
            "null",
            "http://evil.example",
            "localhost:1",
        ] {
            assert_eq!(check(other), Err(Refusal::Origin), "{other}");
        }
        let from = |site: &str| Access::check_api(&headers(&[("sec-fetch-site", site)])).is_ok();
        assert!(
            from("same-origin") && from("none") && Access::check_api(&HeaderMap::new()).is_ok()
        );
        assert!(!from("cross-site") && !from("same-site"));
    }

    #[tokio::test]
    async fn the_cookie_is_not_the_token_and_no_other_one_will_do() {
        let access = access(None, &[]);
        assert_eq!(access.login("secre").await, Err(Refusal::WrongToken));
        assert_eq!(access.login("").await, Err(Refusal::WrongToken));
        let cookie = access.login("secret").await.unwrap();
        let cookie = cookie.to_str().unwrap();
        assert!(!cookie.contains("secret"));
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"));
        let value = cookie.split(';').next().unwrap();
        let check = async |cookies: &str| {
            let headers = headers(&[("cookie", cookies)]);
            access.check_session(&headers).await.is_ok()
        };
        assert!(check(&format!("other=1; {value}")).await);
        assert!(!check(&value.replace("web_1", "web_2")).await);
        assert!(!check("orlop_web_1=secret").await);
        assert!(!check("orlop_web_1=").await);
        let mut next = self::access(None, &[]);
        next.key = [8; 32];
        let headers = headers(&[("cookie", value)]);
        assert!(
            next.check_session(&headers).await.is_err(),
            "another server's"
        );
    }

    #[tokio::test]
    async fn a_token_is_read_from_its_file_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let mut access = access(None, &[]);
        access.token = Token::File(path.clone());
        assert!(access.login("").await.is_err(), "there is none");
        std::fs::write(&path, " \n").unwrap();
        assert!(access.login("").await.is_err(), "an empty one is none");
        std::fs::write(&path, "first\n").unwrap();
        let cookie = access.login("first").await.unwrap();
        let value = cookie.to_str().unwrap().split(';').next().unwrap();
        let headers = headers(&[("cookie", value)]);
        assert!(access.check_session(&headers).await.is_ok());
        std::fs::write(&path, "second\n").unwrap();
        assert!(access.check_session(&headers).await.is_err());
    }
}
