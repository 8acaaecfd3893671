//! Client of a trace collector.

use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE};
use http_body_util::{BodyExt as _, Limited};
use orlop_pool::Place;
use prost::Message as _;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Certificate, Client, ClientBuilder, Url};

use super::message::{ExportRequest, ExportResponse};
use crate::config::Traces;
use crate::config::values::TraceProtocol;

/// Timeout of a request. Spans of a request that times out are lost.
const LIMIT: Duration = Duration::from_secs(5);

/// Maximum length of a response.
const LONGEST_ANSWER: usize = 64 << 10;

/// Maximum size of a file with headers or certificates.
const LONGEST_FILE: u64 = 1 << 20;

/// The method of `opentelemetry.proto.collector.trace.v1`.
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// A configured collector.
#[derive(Debug)]
pub(crate) struct Collector {
    url: Url,
    protocol: TraceProtocol,
    client: Client,
    headers: HeaderMap,
}

impl Collector {
    /// Returns the configured collector, if any. Blocks on files.
    pub(crate) fn of(traces: &Traces) -> anyhow::Result<Option<Self>> {
        static PROVIDER: Once = Once::new();
        let Some(to) = &traces.otlp else {
            return Ok(None);
        };
        // Another part of the process may have installed a provider already; it works as well.
        PROVIDER
            .call_once(|| drop(rustls::crypto::aws_lc_rs::default_provider().install_default()));
        let mut url: Url = to
            .url(traces.protocol)
            .parse()
            .with_context(|| format!("cannot send traces to {to}"))?;
        if traces.protocol == TraceProtocol::Grpc {
            url.set_path(GRPC_PATH);
        }
        let mut headers = match &traces.headers_file {
            Some(path) => read_headers(path)?,
            None => HeaderMap::new(),
        };
        let kind = match traces.protocol {
            TraceProtocol::Http => "application/x-protobuf",
            TraceProtocol::Grpc => "application/grpc",
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if traces.protocol == TraceProtocol::Grpc {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        let builder = || {
            let mut builder = Client::builder()
                .dns_resolver(Names)
                .user_agent(concat!("orlop/", env!("CARGO_PKG_VERSION")))
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                .connect_timeout(LIMIT)
                .timeout(LIMIT)
                .pool_max_idle_per_host(1);
            if to.is_loopback() {
                builder = builder.no_proxy();
            }
            if traces.protocol == TraceProtocol::Grpc {
                builder = builder.http2_prior_knowledge();
            }
            builder
        };
        let client = client(builder, to.is_tls, traces.ca.as_deref());
        Ok(Some(Self {
            client: client.with_context(|| format!("cannot send traces to {to}"))?,
            url,
            protocol: traces.protocol,
            headers,
        }))
    }

    /// Sends spans. Returns how many the collector rejected, and why.
    pub(super) async fn send(&self, request: &ExportRequest) -> anyhow::Result<Rejected> {
        let body = match self.protocol {
            TraceProtocol::Http => request.encode_to_vec().into(),
            TraceProtocol::Grpc => framed(request)?,
        };
        let asking = self.client.post(self.url.clone());
        let asking = asking.headers(self.headers.clone()).body(body);
        let answer = asking.send().await.map_err(of_client)?;
        let status = answer.status();
        if !status.is_success() {
            bail!("the collector returned {status}");
        }
        let answer: http::Response<reqwest::Body> = answer.into();
        let (head, body) = answer.into_parts();
        #[expect(
            clippy::disallowed_methods,
            reason = "within a limit; trailers are wanted, too"
        )]
        let body = Limited::new(body, LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| anyhow!("cannot read the response: {error}"))?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        let bytes = body.to_bytes();
        let answer = match self.protocol {
            TraceProtocol::Http => bytes,
            TraceProtocol::Grpc => {
                judge(&head.headers, &trailers)?;
                // The payload after the flag and the length of the message.
                bytes
                    .get(5..)
                    .map(Bytes::copy_from_slice)
                    .unwrap_or_default()
            }
        };
        // The spans were accepted, so an invalid response body does not matter.
        let answer = ExportResponse::decode(answer).unwrap_or_default();
        let partly = answer.partial_success.unwrap_or_default();
        Ok(Rejected {
            spans: usize::try_from(partly.rejected_spans).unwrap_or(0),
            why: partly.error_message.chars().take(200).collect(),
        })
    }
}

/// Spans that the collector rejected.
pub(super) struct Rejected {
    pub(super) spans: usize,
    pub(super) why: String,
}

fn client(
    builder: impl Fn() -> ClientBuilder,
    is_tls: bool,
    authority: Option<&Path>,
) -> anyhow::Result<Client> {
    if !is_tls {
        // A node without any certificates sends traces, too.
        return Ok(builder().tls_certs_only([]).build()?);
    }
    let Some(path) = authority else {
        return builder().build().map_err(of_client);
    };
    let pem = read(path)?;
    let authorities = Certificate::from_pem_bundle(&pem)
        .with_context(|| format!("{} contains no PEM certificates", path.display()))?;
    if authorities.is_empty() {
        bail!("{} contains no PEM certificates", path.display());
    }
    builder()
        .tls_certs_only(authorities)
        .build()
        .map_err(of_client)
}

/// Parses headers, one `name: value` per line. Empty lines and lines that begin with `#` are ignored.
fn read_headers(path: &Path) -> anyhow::Result<HeaderMap> {
    let text = String::from_utf8(read(path)?)
        .map_err(|_| anyhow!("{} is not valid UTF-8", path.display()))?;
    let mut headers = HeaderMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        // The value may be a secret, so the message does not show it.
        let wrong = || anyhow!("{}, line {number}: write `name: value`", path.display());
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = value.trim().parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    orlop_fs::read_file(path, LONGEST_FILE)
        .with_context(|| format!("cannot read {}", path.display()))
}

/// Frames a gRPC message: the flag for no compression, the length, the message.
fn framed(request: &ExportRequest) -> anyhow::Result<Bytes> {
    let length = u32::try_from(request.encoded_len()).context("the request has too many spans")?;
    let mut frame = BytesMut::with_capacity(5 + length as usize);
    frame.put_u8(0);
    frame.put_u32(length);
    request.encode(&mut frame)?;
    Ok(frame.freeze())
}

/// Evaluates the gRPC status, which is in the headers if there is no body.
fn judge(headers: &HeaderMap, trailers: &HeaderMap) -> anyhow::Result<()> {
    let status = |map: &HeaderMap| tonic::Status::from_header_map(map);
    let status = status(trailers).or_else(|| status(headers));
    let Some(status) = status else {
        bail!("the collector sent no gRPC status; check that the endpoint supports OTLP over gRPC");
    };
    if status.code() != tonic::Code::Ok {
        let why: String = status.message().chars().take(200).collect();
        bail!("the collector returned {:?}: {why}", status.code());
    }
    Ok(())
}

/// Formats the error with its causes, without the URL, which the log line has already.
fn of_client(error: reqwest::Error) -> anyhow::Error {
    error.without_url().into()
}

/// Resolves names outside the reactor's thread pool, which panics if it cannot start a thread.
struct Names;

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        static LOOKING_UP: Place =
            Place::new("looking up the address of the trace collector", 2, 2, 16);
        Box::pin(async move {
            let found = orlop_pool::look_up(&LOOKING_UP, name.as_str(), 0).await?;
            let found: Addrs = Box::new(found.into_iter());
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_lines_and_a_wrong_one_is_told_without_its_value() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("headers");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_headers(&path)
        };
        let headers = read("# who we are\n\nauthorization: Bearer a:b\nX-Scope: one\n").unwrap();
        assert_eq!(headers["authorization"], "Bearer a:b");
        assert_eq!(headers["x-scope"], "one");
        assert!(headers["authorization"].is_sensitive());
        for wrong in ["a: b\nsecret", "a: b\na b: secret", "a: b\na: secret\u{7f}"] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("line 2"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn how_a_call_ended_is_in_its_trailers_or_else_in_its_headers() {
        let map = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs.iter().map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            });
            pairs.collect::<HeaderMap>()
        };
        let (ok, none) = (map(&[("grpc-status", "0")]), map(&[]));
        let away = map(&[("grpc-status", "14"), ("grpc-message", "no room")]);
        assert!(judge(&none, &ok).is_ok());
        assert!(judge(&ok, &none).is_ok());
        let error = judge(&none, &away).unwrap_err().to_string();
        assert!(error.contains("Unavailable: no room"), "{error}");
        assert!(judge(&none, &none).is_err());
    }
}
