//! Address of a trace collector and the sampling rate.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use toml::Spanned;
use toml::de::DeValue;

use super::text::text_value;
use super::value::{Value, bad, mismatch};
use crate::config::section::BadValue;

/// Protocol for spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TraceProtocol {
    /// OTLP over HTTP.
    Http,
    /// OTLP over gRPC.
    Grpc,
}

impl TraceProtocol {
    /// Returns the default port of OpenTelemetry collectors for the protocol.
    fn port(self) -> u16 {
        match self {
            Self::Http => 4318,
            Self::Grpc => 4317,
        }
    }
}

/// Default path for traces over HTTP in the OTLP specification.
const DEFAULT_PATH: &str = "/v1/traces";

/// Address of a collector, as `http://HOST[:PORT][/PATH]` or `https://`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtlpEndpoint {
    pub(crate) is_tls: bool,
    host: String,
    port: Option<u16>,
    path: Option<String>,
}

impl OtlpEndpoint {
    /// Returns the URL that spans are sent to.
    pub(crate) fn url(&self, protocol: TraceProtocol) -> String {
        let (scheme, host) = (self.scheme(), &self.host);
        let port = self.port.unwrap_or(protocol.port());
        let path = self.path.as_deref().unwrap_or(DEFAULT_PATH);
        format!("{scheme}://{host}:{port}{path}")
    }

    /// Returns whether the collector is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        let address = host.parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    pub(crate) fn has_path(&self) -> bool {
        self.path.is_some()
    }

    fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }
}

impl FromStr for OtlpEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{text:?} is not a valid collector URL: {why}");
        let (is_tls, rest) = text
            .strip_prefix("https://")
            .map(|rest| (true, rest))
            .or_else(|| Some((false, text.strip_prefix("http://")?)))
            .ok_or_else(|| wrong("write http://HOST:PORT or https://HOST:PORT"))?;
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
            return Err(wrong("it must not contain a password"));
        }
        let path = match path {
            "" | "/" => None,
            path if path.bytes().all(|byte| byte.is_ascii_graphic()) => Some(path.to_owned()),
            _ => return Err(wrong("its path contains invalid characters")),
        };
        Ok(Self {
            is_tls,
            host: host.to_owned(),
            port: uri.port_u16(),
            path,
        })
    }
}

impl fmt::Display for OtlpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(self.path.as_deref().unwrap_or_default())
    }
}

text_value!(OtlpEndpoint, "http address");

/// A fraction, written as 0.01.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share(u32);

/// Denominator of a [`Share`].
const MILLION: u32 = 1_000_000;

impl Share {
    /// The whole.
    pub(crate) const ALL: Self = Self(MILLION);

    /// Returns the fraction in millionths.
    pub(crate) fn per_million(self) -> u32 {
        self.0
    }
}

impl Value for Share {
    fn kind() -> String {
        "number from 0 to 1".to_owned()
    }

    fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Self, BadValue> {
        let text = match value.get_ref() {
            DeValue::Float(number) => number.as_str(),
            DeValue::Integer(number) => number.as_str(),
            _ => return Err(mismatch::<Self>(value)),
        };
        let number: f64 = text.replace('_', "").parse().unwrap_or(f64::NAN);
        if !(0.0..=1.0).contains(&number) {
            let message = format!("{text} is out of range; it must be between 0 and 1");
            return Err(bad(value, message));
        }
        Ok(Self((number * f64::from(MILLION)).round() as u32))
    }

    fn to_toml(&self) -> String {
        format!("{:?}", f64::from(self.0) / f64::from(MILLION))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_as_collectors_have_it() {
        let url = |text: &str, protocol| {
            let to = text.parse::<OtlpEndpoint>()?;
            assert_eq!(to.to_string(), text);
            Ok::<_, String>(to.url(protocol))
        };
        for (text, protocol, expected) in [
            (
                "http://127.0.0.1",
                TraceProtocol::Http,
                "http://127.0.0.1:4318/v1/traces",
            ),
            (
                "https://a.example",
                TraceProtocol::Grpc,
                "https://a.example:4317/v1/traces",
            ),
            ("http://[::1]:9/x", TraceProtocol::Http, "http://[::1]:9/x"),
        ] {
            assert_eq!(url(text, protocol).unwrap(), expected);
        }
        for wrong in [
            "",
            "127.0.0.1:4318",
            "ftp://a",
            "http://",
            "http://a:b@c",
            "http://a/ b",
        ] {
            assert!(url(wrong, TraceProtocol::Http).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_stays_on_this_machine_is_known_by_its_host() {
        let is_loopback = |text: &str| text.parse::<OtlpEndpoint>().unwrap().is_loopback();
        assert!(is_loopback("http://localhost") && is_loopback("http://[::1]:9"));
        assert!(!is_loopback("http://127.0.0.1.example") && !is_loopback("http://10.0.0.1"));
    }

    #[test]
    fn a_share_is_read_as_it_is_written() {
        let read = |text: &str| {
            let table = toml::de::DeTable::parse(text).unwrap();
            Share::from_toml(table.get_ref().get("a").unwrap())
        };
        for (text, millionth, written) in [
            ("a = 0.01", 10_000, "0.01"),
            ("a = 1", 1_000_000, "1.0"),
            ("a = 0", 0, "0.0"),
            ("a = 1e-6", 1, "1e-6"),
        ] {
            let share = read(text).unwrap();
            assert_eq!((share.0, share.to_toml().as_str()), (millionth, written));
            assert_eq!(read(&format!("a = {written}")).unwrap(), share);
        }
        for wrong in [
            "a = 1.1", "a = -0.1", "a = nan", "a = inf", "a = '1'", "a = 2",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
