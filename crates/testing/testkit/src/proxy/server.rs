//! The proxy server, on its own thread and reactor, so that blocking tests can use it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, RANGE, TRANSFER_ENCODING, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream};

use crate::http::{self, Answer};
use crate::proxy::bandwidth::Line;
use crate::proxy::body::{self, Body};
use crate::proxy::door::{Door, Guard, Verdict};
use crate::proxy::fault::{Fault, Rule};
use crate::proxy::fetched::Fetched;
use crate::proxy::range;
use crate::serve::Background;

/// A request to the proxy.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its method.
    pub method: Method,
    /// Path with the query.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Status of the response; 0 if the connection was cut.
    pub status: u16,
}

/// A proxy in front of a registry, stopped on drop.
#[derive(Debug)]
pub struct FaultProxy {
    shared: Arc<Shared>,
    /// `None` while the proxy is away.
    accepting: Mutex<Option<Background>>,
    /// Holds the address while nobody listens. It never listens itself.
    _address: TcpSocket,
}

#[derive(Debug)]
struct Shared {
    own: SocketAddr,
    upstream: Option<SocketAddr>,
    rules: Mutex<Vec<Rule>>,
    guard: Mutex<Guard>,
    seen: Mutex<Vec<Seen>>,
    fetched: Mutex<Vec<Fetched>>,
    line: Arc<Line>,
    crowd: Arc<Crowd>,
}

/// Number of concurrent requests.
#[derive(Debug, Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A request in progress, until its response is sent or its connection ends.
pub(super) struct Present(Arc<Crowd>);

impl Present {
    fn enter(crowd: &Arc<Crowd>) -> Self {
        let now = crowd.now.fetch_add(1, Ordering::SeqCst) + 1;
        crowd.most.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(crowd))
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FaultProxy {
    /// Starts a proxy that passes everything on until rules are added.
    pub fn before(upstream: SocketAddr) -> Self {
        Self::launch(Some(upstream))
    }

    /// Starts a server without a registry: requests without a rule get 404.
    pub fn alone() -> Self {
        Self::launch(None)
    }

    fn launch(upstream: Option<SocketAddr>) -> Self {
        let address = TcpSocket::new_v4().expect("make a socket");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        address
            .set_reuseaddr(true)
            .and_then(|()| address.bind(any))
            .expect("find a free port");
        let shared = Arc::new(Shared {
            own: address.local_addr().expect("a bound socket has an address"),
            upstream,
            rules: Mutex::default(),
            guard: Mutex::default(),
            seen: Mutex::default(),
            fetched: Mutex::default(),
            line: Arc::default(),
            crowd: Arc::default(),
        });
        Self {
            accepting: Mutex::new(Some(Shared::listen(&shared))),
            shared,
            _address: address,
        }
    }

    /// Closes all connections and refuses new ones, as if nothing listened.
    pub fn leave(&self) {
        drop(lock(&self.accepting).take());
    }

    /// Listens again at the same address.
    pub fn come_back(&self) {
        let mut accepting = lock(&self.accepting);
        if accepting.is_none() {
            *accepting = Some(Shared::listen(&self.shared));
        }
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.shared.own
    }

    /// Returns its host in image references.
    pub fn host(&self) -> String {
        self.shared.own.to_string()
    }

    /// Returns an image reference in it.
    pub fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.shared.own)
    }

    /// Adds a rule; the first matching rule applies.
    pub fn rule(&self, rule: Rule) {
        lock(&self.shared.rules).push(rule);
    }

    /// Removes all rules.
    pub fn heal(&self) {
        lock(&self.shared.rules).clear();
    }

    /// Sets the access control.
    pub fn guard(&self, door: Door) {
        *lock(&self.shared.guard) = Guard::of(door);
    }

    /// Expires all issued tokens.
    pub fn expire_tokens(&self) {
        lock(&self.shared.guard).expire();
    }

    /// Limits the total bytes per second of all connections; `None` removes the limit.
    pub fn bandwidth(&self, bytes_per_second: Option<u64>) {
        self.shared.line.set(bytes_per_second);
    }

    /// Returns the blob requests so far, with the bytes sent.
    pub fn fetched(&self) -> Vec<Fetched> {
        lock(&self.shared.fetched).clone()
    }

    /// Returns the bytes of a blob sent so far, in all responses with its content.
    pub fn sent_of(&self, digest: &str) -> u64 {
        let fetched = self.fetched();
        let of_it = fetched.iter().filter(|one| one.digest == digest);
        let content = of_it.filter(|one| matches!(one.status, 200 | 206));
        content.map(Fetched::sent).sum()
    }

    /// Clears the records of requests.
    pub fn forget(&self) {
        lock(&self.shared.seen).clear();
        lock(&self.shared.fetched).clear();
    }

    /// Returns all requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }

    /// Returns the maximum number of concurrent requests.
    pub fn most_at_once(&self) -> usize {
        self.shared.crowd.most.load(Ordering::SeqCst)
    }

    /// Returns the number of requests with this method whose path contains `path`.
    pub fn count(&self, method: Method, path: &str) -> usize {
        let seen = lock(&self.shared.seen);
        seen.iter()
            .filter(|s| s.method == method && s.path.contains(path))
            .count()
    }
}

impl Shared {
    /// Listens at its address until the returned value is dropped.
    fn listen(shared: &Arc<Self>) -> Background {
        let listener = TcpListener::bind(shared.own).expect("listen at an address of our own");
        let shared = Arc::clone(shared);
        Background::on_tcp(listener, move |stream| {
            converse(stream, Arc::clone(&shared))
        })
    }
}

async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    // Without delay, as in servers: the end of a short response need not wait for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| serve(shared.clone(), request));
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // Errors here are injected faults, or clients that left.
    let _ = connection.await;
}

/// Handles one request; an error cuts the connection.
async fn serve(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let present = Present::enter(&shared.crowd);
    let method = request.method().clone();
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |p| p.as_str())
        .to_owned();
    let headers = request.headers().clone();
    let result = shared.answer(request, &method, &path).await;
    let status = result
        .as_ref()
        .map_or(0, |response| response.status().as_u16());
    let mut gone = Arc::default();
    if let Ok(response) = &result {
        let fetched = Fetched::of(&method, &path, &headers, status, response.headers());
        if let Some(fetched) = fetched {
            gone = fetched.counter();
            lock(&shared.fetched).push(fetched);
        }
    }
    lock(&shared.seen).push(Seen {
        method,
        path,
        headers,
        status,
    });
    let line = Arc::clone(&shared.line);
    result.map(|response| response.map(|body| body::kept(body::sent(body, line, gone), present)))
}

impl Shared {
    async fn answer(
        &self,
        request: Request<Incoming>,
        method: &Method,
        path: &str,
    ) -> io::Result<Response<Body>> {
        let fault = {
            let mut rules = lock(&self.rules);
            rules
                .iter_mut()
                .find_map(|rule| rule.takes(method, path).then(|| rule.fault.clone()))
        };
        match &fault {
            Some(Fault::Disconnect) => return Err(io::Error::other("told to disconnect")),
            Some(Fault::Reply {
                status,
                headers,
                body: bytes,
            }) => {
                return Ok(reply(*status, headers, bytes.clone()));
            }
            Some(Fault::Endless { status }) => {
                let mut response = reply(*status, &[], Vec::new());
                *response.body_mut() = body::endless();
                return Ok(response);
            }
            Some(Fault::Expire) => lock(&self.guard).expire(),
            _ => {}
        }
        let (parts, incoming) = request.into_parts();
        let sent = incoming
            .collect()
            .await
            .map_err(io::Error::other)?
            .to_bytes();
        let authorization = parts
            .headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        if parts.uri.path() == "/token" {
            let query = parts.uri.query().unwrap_or_default();
            let form = String::from_utf8_lossy(&sent);
            let (status, body) = lock(&self.guard).token(authorization, query, &form);
            let json = [("content-type".to_owned(), "application/json".to_owned())];
            return Ok(reply(status, &json, body.into_bytes()));
        }
        let own = self.own.to_string();
        let verdict = lock(&self.guard).judge(&own, parts.uri.path(), authorization);
        if let Verdict::Challenge(challenge) = verdict {
            let headers = [(WWW_AUTHENTICATE.as_str().to_owned(), challenge)];
            return Ok(reply(401, &headers, Vec::new()));
        }
        let Some(upstream) = self.upstream else {
            return Ok(reply(404, &[], Vec::new()));
        };
        let asked = range::asked(&parts.headers);
        let instead = asked
            .as_ref()
            .and_then(|asked| range::instead(asked, fault.as_ref()));
        let mut onward = Request::builder().method(method).uri(path);
        for (name, value) in &parts.headers {
            // Credentials for the proxy are not sent to the registry.
            let ours = name == AUTHORIZATION && lock(&self.guard).is_shut();
            let ignored = name == RANGE && matches!(fault, Some(Fault::IgnoreRange));
            let value = match &instead {
                Some(instead) if name == RANGE => instead,
                _ => value,
            };
            if !ours && !ignored {
                onward = onward.header(name, value);
            }
        }
        let onward = onward.body(Full::from(sent)).map_err(io::Error::other)?;
        if fault.is_none() && method == Method::GET {
            let answer = http::open(upstream, onward).await;
            let mut answer = answer.map_err(io::Error::other)?.map(body::passed);
            answer.headers_mut().remove(TRANSFER_ENCODING);
            return Ok(answer);
        }
        let answer = http::send(upstream, onward)
            .await
            .map_err(io::Error::other)?;
        Ok(spoil(answer, fault, method, asked))
    }
}

/// Passes a response on, with its fault.
fn spoil(
    answer: Answer,
    fault: Option<Fault>,
    method: &Method,
    asked: Option<Range<u64>>,
) -> Response<Body> {
    let length = answer.body.len();
    let bytes = answer.body;
    let mut headers = answer.headers;
    headers.remove(TRANSFER_ENCODING);
    if method != Method::HEAD {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    let body = match fault {
        Some(Fault::Truncate { after }) => body::truncated(bytes, after),
        Some(Fault::Stall { after, hold }) => body::stalled(bytes, after, hold),
        Some(Fault::Slow { bytes_per_second }) => body::slow(bytes, bytes_per_second),
        Some(Fault::Corrupt { offset }) => body::whole(changed(&bytes, Some(offset))),
        Some(Fault::Damage { at }) => {
            let start = range::answered(&headers).map_or(0, |(range, _)| range.start);
            let at = at
                .checked_sub(start)
                .and_then(|at| usize::try_from(at).ok());
            body::whole(changed(&bytes, at))
        }
        Some(Fault::ShiftedRange { .. }) => {
            if let Some(asked) = asked {
                range::pretend(&mut headers, asked.start);
            }
            body::whole(bytes)
        }
        Some(Fault::Header { name, value }) => {
            headers.insert(name, value.parse().expect("a header value"));
            body::whole(bytes)
        }
        _ => body::whole(bytes),
    };
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    *response.headers_mut() = headers;
    response
}

/// Returns the bytes with one of them changed, if the offset is within them.
fn changed(bytes: &Bytes, at: Option<usize>) -> Bytes {
    let mut changed = bytes.to_vec();
    if let Some(byte) = at.and_then(|at| changed.get_mut(at)) {
        *byte ^= 0x20;
    }
    changed.into()
}

fn reply(status: u16, headers: &[(String, String)], bytes: Vec<u8>) -> Response<Body> {
    let mut builder = Response::builder().status(status);
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    builder
        .body(body::whole(Bytes::from(bytes)))
        .expect("a rule names valid headers")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
