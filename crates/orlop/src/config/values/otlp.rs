//! Where a collector listens.

use std::fmt;
use std::str::FromStr;

use super::text::text_value;

/// The port that OpenTelemetry's collectors have for OTLP over HTTP.
const DEFAULT_PORT: u16 = 4318;

/// The path that the OTLP specification gives traces.
const DEFAULT_PATH: &str = "/v1/traces";

/// A collector, as `http://HOST[:PORT][/PATH]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtlpEndpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
}

impl FromStr for OtlpEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{text:?} is no collector: {why}");
        let rest = text
            .strip_prefix("http://")
            .ok_or_else(|| wrong("write http://HOST:PORT; TLS is a collector's on this node"))?;
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let uri: http::Uri = format!("http://{authority}/")
            .parse()
            .map_err(|_| wrong("it has no valid host"))?;
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| wrong("it has no host"))?;
        if authority.contains('@') {
            return Err(wrong("it may not carry a password"));
        }
        let path = match path {
            "" | "/" => DEFAULT_PATH.to_owned(),
            path if path.bytes().all(|byte| byte.is_ascii_graphic()) => path.to_owned(),
            _ => return Err(wrong("its path has characters that no path has")),
        };
        Ok(Self {
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(DEFAULT_PORT),
            path,
        })
    }
}

impl fmt::Display for OtlpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}{}", self.host, self.port, self.path)
    }
}

text_value!(OtlpEndpoint, "http address");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_as_collectors_have_it() {
        let shown = |text: &str| text.parse::<OtlpEndpoint>().map(|to| to.to_string());
        assert_eq!(
            shown("http://127.0.0.1").unwrap(),
            "http://127.0.0.1:4318/v1/traces"
        );
        assert_eq!(shown("http://[::1]:9/x").unwrap(), "http://[::1]:9/x");
        for wrong in [
            "",
            "127.0.0.1:4318",
            "https://a",
            "http://",
            "http://a:b@c",
            "http://a/ b",
        ] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }
}
