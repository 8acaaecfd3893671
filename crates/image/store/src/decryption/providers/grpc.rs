//! Key providers that are gRPC services on this machine: ocicrypt's `keyprovider.KeyProviderService`.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use zeroize::Zeroizing;

use super::answer::{LONGEST_ANSWER, complaint};

const UNWRAP: &str = "/keyprovider.KeyProviderService/UnWrapKey";

/// Address of a service. It must be on this machine, because the service answers with keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Loopback(Vec<SocketAddr>),
    Socket(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text
            .strip_prefix("unix://")
            .or_else(|| text.strip_prefix("unix:"));
        if let Some(path) = path {
            let path = PathBuf::from(path);
            return if path.is_absolute() {
                Ok(Self::Socket(path))
            } else {
                Err(format!("the path in {text:?} is not absolute"))
            };
        }
        let malformed =
            || format!("{text:?} is not an address such as localhost:50051 or unix:///PATH");
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        let port: u16 = port.parse().map_err(|_| malformed())?;
        let at = |ip: IpAddr| SocketAddr::new(ip, port);
        // Not resolved by the hosts file or DNS.
        if host == "localhost" {
            let both = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            return Ok(Self::Loopback(both.map(at).to_vec()));
        }
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        match bare.unwrap_or(host).parse::<IpAddr>() {
            Ok(ip) if ip.is_loopback() => Ok(Self::Loopback(vec![at(ip)])),
            _ => Err(format!(
                "{text:?} is not on this machine, and keys would be sent to it unencrypted; use a \
                 proxy on localhost or a unix socket that encrypts the connection"
            )),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback(addresses) => match addresses.as_slice() {
                [one] => write!(f, "{one}"),
                [first, ..] => write!(f, "localhost:{}", first.port()),
                [] => f.write_str("localhost"),
            },
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The request and the response: JSON in one field.
#[derive(Clone, PartialEq, prost::Message)]
struct Protocol {
    #[prost(bytes = "vec", tag = "1")]
    json: Vec<u8>,
}

/// A connection over a Unix or TCP socket.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Address {
    /// Asks the service to unwrap a key. Returns its response, or the reason of the failure.
    pub(super) async fn ask(
        &self,
        question: Vec<u8>,
        patience: Duration,
    ) -> Result<Zeroizing<Vec<u8>>, String> {
        let asked = tokio::time::timeout(patience, self.unwrap(question)).await;
        let asked = asked.unwrap_or_else(|_| Err(format!("it did not answer within {patience:?}")));
        asked.map_err(|reason| format!("{self}: {reason}"))
    }

    async fn unwrap(&self, question: Vec<u8>) -> Result<Zeroizing<Vec<u8>>, String> {
        // The URL must have a host name, but the connection does not use it.
        let endpoint = Endpoint::from_static("http://localhost");
        let place = self.clone();
        let connect = tower::service_fn(move |_| {
            let place = place.clone();
            async move { place.connect().await.map(TokioIo::new) }
        });
        let channel = endpoint.connect_with_connector(connect).await;
        let channel = channel.map_err(|error| innermost(&error))?;
        let mut client = Grpc::new(channel).max_decoding_message_size(LONGEST_ANSWER);
        let not_ready = |error: tonic::transport::Error| innermost(&error);
        client.ready().await.map_err(not_ready)?;
        let request = Request::new(Protocol { json: question });
        let codec: ProstCodec<Protocol, Protocol> = ProstCodec::default();
        let said = client.unary(request, PathAndQuery::from_static(UNWRAP), codec);
        let said = said.await.map_err(|status| refusal(&status))?;
        let answer = Zeroizing::new(said.into_inner().json);
        orlop_encryption::answer(&answer).map_err(|malformed| malformed.to_string())
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Loopback(addresses) => Box::new(TcpStream::connect(addresses.as_slice()).await?),
            Self::Socket(path) => Box::new(UnixStream::connect(path).await?),
        })
    }
}

/// Returns the message of a service that refused to unwrap a key.
fn refusal(status: &Status) -> String {
    let said = complaint(status.message());
    match status.code() {
        Code::OutOfRange => format!("its response is too long: {said}"),
        Code::Unimplemented => format!("it is not a key provider: {said}"),
        code => format!("{code:?}: {said}"),
    }
}

/// Returns the root cause, because the outer errors only report that something failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback(text: &str) -> Vec<String> {
        match text.parse::<Address>().unwrap() {
            Address::Loopback(addresses) => addresses.iter().map(ToString::to_string).collect(),
            Address::Socket(path) => panic!("{path:?}"),
        }
    }

    #[test]
    fn keys_go_nowhere_but_to_this_machine() {
        assert_eq!(loopback("127.0.0.1:50051"), ["127.0.0.1:50051"]);
        assert_eq!(loopback("127.9.0.1:1"), ["127.9.0.1:1"]);
        assert_eq!(loopback("[::1]:7"), ["[::1]:7"]);
        assert_eq!(loopback("localhost:9"), ["127.0.0.1:9", "[::1]:9"]);
        for text in ["unix:///run/x.sock", "unix:/run/x.sock"] {
            let path = PathBuf::from("/run/x.sock");
            assert_eq!(text.parse(), Ok(Address::Socket(path)));
        }
        for (text, reason) in [
            ("10.0.0.1:50051", "unencrypted"),
            ("0.0.0.0:50051", "unencrypted"),
            ("vault.example:50051", "unencrypted"),
            ("localhost.example:1", "unencrypted"),
            ("[2001:db8::1]:1", "unencrypted"),
            ("[::ffff:127.0.0.1]:1", "unencrypted"),
            ("dns:///localhost:1", "unencrypted"),
            ("https://localhost:1", "unencrypted"),
            ("localhost", "such as localhost:50051"),
            ("localhost:", "such as localhost:50051"),
            ("localhost:65536", "such as localhost:50051"),
            ("", "such as localhost:50051"),
            ("unix:", "is not absolute"),
            ("unix:run/x.sock", "is not absolute"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[tokio::test]
    async fn one_that_never_answers_is_not_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let address: Address = address.parse().unwrap();
        let asked = address.ask(Vec::new(), Duration::from_millis(100)).await;
        let error = asked.unwrap_err();
        assert!(error.contains("did not answer within 100ms"), "{error}");
        drop(listener);
        let error = address.ask(Vec::new(), Duration::from_secs(5)).await;
        let error = error.unwrap_err();
        assert!(error.contains("refused"), "{error}");
        let address: Address = "unix:///nowhere/x.sock".parse().unwrap();
        let error = address.ask(Vec::new(), Duration::from_secs(5)).await;
        let error = error.unwrap_err();
        assert!(error.starts_with("/nowhere/x.sock: No such"), "{error}");
    }
}
