//! A key provider as a gRPC service, as supported by ocicrypt. Its secret is one byte.

use std::convert::Infallible;
use std::future::pending;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::BoxFuture;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::serve::Background;

const SECRET: u8 = 0x2a;
const SERVICE: &str = "/keyprovider.KeyProviderService/";

/// Behaviour of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProviderManners {
    /// Responds correctly.
    #[default]
    Answers,
    /// Refuses with this message.
    Refuses(String),
    /// Responds with these bytes instead of JSON.
    Says(Vec<u8>),
    /// Never responds.
    Hangs,
    /// Responds that the service is unknown.
    IsAnother,
}

/// A running service, stopped on drop.
#[derive(Debug)]
pub struct KeyProvider {
    address: String,
    state: Arc<State>,
    _serving: Background,
}

#[derive(Debug, Default)]
struct State {
    manners: Mutex<ProviderManners>,
    unwrapped: AtomicUsize,
}

#[derive(Clone, PartialEq, Message)]
struct Protocol {
    #[prost(bytes = "vec", tag = "1")]
    json: Vec<u8>,
}

enum Listener {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl KeyProvider {
    /// Starts the service on a free loopback port.
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("find a free port");
        listener.set_nonblocking(true).expect("a listener");
        let address = listener.local_addr().expect("an address").to_string();
        Self::serve(address, move || {
            Listener::Tcp(tokio::net::TcpListener::from_std(listener).expect("a listener"))
        })
    }

    /// Starts the service on a unix socket.
    pub fn start_at(socket: &Path) -> Self {
        let listener = std::os::unix::net::UnixListener::bind(socket).expect("make a socket");
        listener.set_nonblocking(true).expect("a listener");
        let address = format!("unix://{}", socket.display());
        Self::serve(address, move || {
            Listener::Unix(tokio::net::UnixListener::from_std(listener).expect("a listener"))
        })
    }

    fn serve(address: String, listen: impl FnOnce() -> Listener + Send + 'static) -> Self {
        let state = Arc::new(State::default());
        let served = Arc::clone(&state);
        Self {
            address,
            state,
            _serving: Background::start(async move || accept(listen(), served).await),
        }
    }

    /// Returns the address in ocicrypt's format.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the configuration file that names it, for ocicrypt and for orlop.
    pub fn config(&self, name: &str) -> String {
        json!({ "key-providers": { name: { "grpc": self.address } } }).to_string()
    }

    /// Changes the behaviour.
    pub fn set(&self, manners: ProviderManners) {
        *self
            .state
            .manners
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = manners;
    }

    /// Returns the number of unwrap requests.
    pub fn unwrapped(&self) -> usize {
        self.state.unwrapped.load(Ordering::SeqCst)
    }

    /// Wraps or unwraps bytes.
    pub fn wrap(bytes: &[u8]) -> Vec<u8> {
        bytes.iter().map(|byte| byte ^ SECRET).collect()
    }
}

async fn accept(listener: Listener, state: Arc<State>) {
    loop {
        match &listener {
            Listener::Tcp(listener) => match listener.accept().await {
                Ok((client, _)) => talk(client, Arc::clone(&state)),
                Err(_) => return,
            },
            Listener::Unix(listener) => match listener.accept().await {
                Ok((client, _)) => talk(client, Arc::clone(&state)),
                Err(_) => return,
            },
        }
    }
}

fn talk(client: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, state: Arc<State>) {
    let service = hyper::service::service_fn(move |request: http::Request<_>| {
        let state = Arc::clone(&state);
        async move {
            let path = request.uri().path();
            let method = path.strip_prefix(SERVICE).unwrap_or_default().to_owned();
            let mut grpc = Grpc::new(ProstCodec::<Protocol, Protocol>::default());
            Ok::<_, Infallible>(grpc.unary(Call { state, method }, request).await)
        }
    });
    let connection =
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(client), service);
    tokio::spawn(connection);
}

struct Call {
    state: Arc<State>,
    method: String,
}

impl UnaryService<Protocol> for Call {
    type Response = Protocol;
    type Future = BoxFuture<'static, Result<Response<Protocol>, Status>>;

    fn call(&mut self, request: Request<Protocol>) -> Self::Future {
        let (state, method) = (Arc::clone(&self.state), self.method.clone());
        Box::pin(async move {
            let asked: Value = serde_json::from_slice(&request.into_inner().json)
                .map_err(|error| Status::invalid_argument(error.to_string()))?;
            if (method.as_str(), asked["op"].as_str()) != ("UnWrapKey", Some("keyunwrap")) {
                return Err(Status::unimplemented(method));
            }
            state.unwrapped.fetch_add(1, Ordering::SeqCst);
            let opened = turned(&asked["keyunwrapparams"]["annotation"])?;
            let answer = json!({ "keyunwrapresults": { "optsdata": opened } });
            let manners = state
                .manners
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            let json = match manners {
                ProviderManners::Answers => answer.to_string().into_bytes(),
                ProviderManners::Refuses(why) => return Err(Status::permission_denied(why)),
                ProviderManners::Says(bytes) => bytes,
                ProviderManners::Hangs => pending().await,
                ProviderManners::IsAnother => return Err(Status::unimplemented("no such service")),
            };
            Ok(Response::new(Protocol { json }))
        })
    }
}

/// Unwraps the base64 text in a JSON value.
fn turned(value: &Value) -> Result<String, Status> {
    let bytes = value
        .as_str()
        .and_then(|text| BASE64_STANDARD.decode(text).ok())
        .ok_or_else(|| Status::invalid_argument("nothing is given"))?;
    Ok(BASE64_STANDARD.encode(KeyProvider::wrap(&bytes)))
}
