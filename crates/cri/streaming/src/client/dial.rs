//! Connecting to a URL and upgrading the connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::uri::Scheme;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use super::error::ClientError;
use crate::body::read_body;
use crate::flow::{Limits, Transport};
use crate::protocol::{SPDY_UPGRADE, STREAM_PROTOCOL, WEBSOCKET_UPGRADE};
use crate::ws::{accept_key, fresh_key};

/// The protocol that carries the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// SPDY/3.1, which every runtime speaks.
    #[default]
    Spdy,
    /// WebSocket.
    WebSocket,
}

/// Options for connecting to servers.
#[derive(Clone)]
pub struct ClientOptions {
    /// The protocol that carries the streams.
    pub protocol: Protocol,
    /// TLS settings for https URLs.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The name in the server's certificate; by default the URL's host.
    pub server_name: Option<String>,
    /// Timeout of the server's response.
    pub timeout: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            protocol: Protocol::default(),
            tls: None,
            server_name: None,
            timeout: Duration::from_secs(30),
        }
    }
}

const STREAM_BYTES: usize = 1024 * 1024;
const CONNECTION_BYTES: usize = 8 * 1024 * 1024;
const MAX_STREAMS: usize = 16;
/// No idle timeout in practice: the client never closes an idle connection.
const NO_TIMEOUT: Duration = Duration::from_hours(365 * 24);
const MAX_REFUSAL: usize = 4096;

pub(super) const LIMITS: Limits = Limits {
    streams: MAX_STREAMS,
    stream_bytes: STREAM_BYTES,
    connection_bytes: CONNECTION_BYTES,
    idle: NO_TIMEOUT,
};

/// An upgraded connection and the protocol that the server selected.
pub(crate) struct Dialed {
    pub(crate) transport: Transport,
    pub(super) chosen: String,
}

/// Connects and requests an upgrade with one of `offers`.
pub(crate) async fn dial(
    url: &str,
    options: &ClientOptions,
    offers: &[&str],
) -> Result<Dialed, ClientError> {
    let bad_url = || ClientError::Url(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| bad_url())?;
    let authority = uri.authority().ok_or_else(bad_url)?;
    let secure = uri.scheme() == Some(&Scheme::HTTPS);
    if !secure && uri.scheme() != Some(&Scheme::HTTP) {
        return Err(bad_url());
    }
    let port = authority
        .port_u16()
        .unwrap_or(if secure { 443 } else { 80 });
    let host = authority
        .host()
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let address = authority.to_string();
    let all = async {
        let stream = TcpStream::connect((host.as_str(), port)).await;
        let stream = stream.map_err(|source| ClientError::Connect {
            address: address.clone(),
            source,
        })?;
        let _ = stream.set_nodelay(true);
        if !secure {
            return upgrade(stream, &uri, options.protocol, offers, Transport::from_tcp).await;
        }
        let tls = options.tls.clone().ok_or(ClientError::NoTls)?;
        let name = options.server_name.clone().unwrap_or_else(|| host.clone());
        let name = ServerName::try_from(name).map_err(|_| bad_url())?;
        let stream = tokio_rustls::TlsConnector::from(tls)
            .connect(name, stream)
            .await;
        let stream = stream.map_err(|source| ClientError::Connect {
            address: address.clone(),
            source,
        })?;
        upgrade(stream, &uri, options.protocol, offers, Transport::from_io).await
    };
    tokio::time::timeout(options.timeout, all)
        .await
        .map_err(|_| ClientError::Timeout(address.clone()))?
}

async fn upgrade<S>(
    stream: S,
    uri: &Uri,
    protocol: Protocol,
    offers: &[&str],
    into_transport: impl FnOnce(S) -> Transport,
) -> Result<Dialed, ClientError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(http_error)?;
    let connection = AbortOnDropHandle::new(tokio::spawn(connection.with_upgrades()));
    let key = fresh_key();
    let request = request(uri, protocol, offers, &key)?;
    let mut response = sender.send_request(request).await.map_err(http_error)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refused(response).await);
    }
    let chosen_by = match protocol {
        Protocol::Spdy => STREAM_PROTOCOL,
        Protocol::WebSocket => "Sec-WebSocket-Protocol",
    };
    let header = |name: &str| {
        let value = response
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let chosen = header(chosen_by);
    if !offers.contains(&chosen.as_str()) {
        return Err(ClientError::Protocol(chosen));
    }
    if protocol == Protocol::WebSocket && Some(header("Sec-WebSocket-Accept")) != accept_key(&key) {
        return Err(ClientError::Protocol(
            "a WebSocket handshake response that does not match the request".to_owned(),
        ));
    }
    let upgraded = hyper::upgrade::on(&mut response)
        .await
        .map_err(http_error)?;
    drop(connection);
    let parts = upgraded
        .downcast::<TokioIo<S>>()
        .map_err(|_| ClientError::Lost)?;
    let transport = into_transport(parts.io.into_inner()).with_leftover(parts.read_buf);
    Ok(Dialed { transport, chosen })
}

fn request(
    uri: &Uri,
    protocol: Protocol,
    offers: &[&str],
    key: &str,
) -> Result<Request<Empty<Bytes>>, ClientError> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let mut request = Request::builder()
        .uri(path)
        .header(HOST, host)
        .header(CONNECTION, "Upgrade");
    match protocol {
        Protocol::Spdy => {
            request = request.method(Method::POST).header(UPGRADE, SPDY_UPGRADE);
            for offer in offers {
                request = request.header(STREAM_PROTOCOL, *offer);
            }
        }
        Protocol::WebSocket => {
            request = request
                .method(Method::GET)
                .header(UPGRADE, WEBSOCKET_UPGRADE)
                .header("Sec-WebSocket-Version", "13")
                .header("Sec-WebSocket-Key", key)
                .header("Sec-WebSocket-Protocol", offers.join(", "));
        }
    }
    request.body(Empty::new()).map_err(http_error)
}

async fn refused(response: Response<Incoming>) -> ClientError {
    let status = response.status();
    let message = match read_body(response.into_body(), MAX_REFUSAL).await {
        Ok(body) => String::from_utf8_lossy(&body).trim().to_owned(),
        Err(_) => "(no readable message)".to_owned(),
    };
    ClientError::Refused { status, message }
}

fn http_error(error: impl std::error::Error + Send + Sync + 'static) -> ClientError {
    ClientError::Http(Box::new(error))
}
