//! The proxy itself: one thread with a reactor of its own, so that it serves blocking tests too.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, RANGE, TRANSFER_ENCODING, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;

use crate::http::{self, Answer};
use crate::proxy::body::{self, Body};
use crate::proxy::door::{Door, Guard, Verdict};
use crate::proxy::fault::{Fault, Rule};

/// A request that came by.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its method.
    pub method: Method,
    /// Its path, with the query.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// The status that it got; 0 where the connection was cut instead.
    pub status: u16,
}

/// A proxy in front of a registry; dropping it ends it.
#[derive(Debug)]
pub struct FaultProxy {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    own: SocketAddr,
    upstream: Option<SocketAddr>,
    rules: Mutex<Vec<Rule>>,
    guard: Mutex<Guard>,
    seen: Mutex<Vec<Seen>>,
    crowd: Arc<Crowd>,
}

/// Requests that are being answered.
#[derive(Debug, Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// One request, until the last byte of its answer has gone or its connection has.
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
    /// A proxy that passes everything on until told otherwise.
    pub fn before(upstream: SocketAddr) -> Self {
        Self::launch(Some(upstream))
    }

    /// A server with nothing behind it: what no rule answers is 404.
    pub fn alone() -> Self {
        Self::launch(None)
    }

    fn launch(upstream: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("find a free port");
        listener
            .set_nonblocking(true)
            .expect("make a socket non-blocking");
        let shared = Arc::new(Shared {
            own: listener
                .local_addr()
                .expect("a bound socket has an address"),
            upstream,
            rules: Mutex::default(),
            guard: Mutex::default(),
            seen: Mutex::default(),
            crowd: Arc::default(),
        });
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn({
            let shared = shared.clone();
            move || {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("start a reactor")
                    .block_on(async {
                        tokio::select! {
                            () = accept(listener, shared) => {}
                            _ = stopped => {}
                        }
                    });
            }
        });
        Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.shared.own
    }

    /// Its name in image references.
    pub fn host(&self) -> String {
        self.shared.own.to_string()
    }

    /// An image reference in it.
    pub fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.shared.own)
    }

    /// Adds a rule; of those that take a request, the first added wins.
    pub fn rule(&self, rule: Rule) {
        lock(&self.shared.rules).push(rule);
    }

    /// Drops all rules.
    pub fn heal(&self) {
        lock(&self.shared.rules).clear();
    }

    /// Guards the registry.
    pub fn guard(&self, door: Door) {
        *lock(&self.shared.guard) = Guard::of(door);
    }

    /// All that came by so far.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }

    /// The most requests that were being answered at the same time.
    pub fn most_at_once(&self) -> usize {
        self.shared.crowd.most.load(Ordering::SeqCst)
    }

    /// How many requests of `method` had `path` in their path.
    pub fn count(&self, method: Method, path: &str) -> usize {
        let seen = lock(&self.shared.seen);
        seen.iter()
            .filter(|s| s.method == method && s.path.contains(path))
            .count()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("hand over a socket");
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let shared = shared.clone();
        // Ends with the reactor, thus with the proxy.
        tokio::spawn(async move {
            let service = service_fn(move |request| serve(shared.clone(), request));
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            // An error here is a fault that was asked for, or a client that left.
            let _ = connection.await;
        });
    }
}

/// Answers one request; an error cuts the connection.
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
    lock(&shared.seen).push(Seen {
        method,
        path,
        headers,
        status,
    });
    result.map(|response| response.map(|body| body::kept(body, present)))
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
        let mut onward = Request::builder().method(method).uri(path);
        for (name, value) in &parts.headers {
            // The door's keys are not the registry's.
            let ours = name == AUTHORIZATION && lock(&self.guard).is_shut();
            let ignored = name == RANGE && matches!(fault, Some(Fault::IgnoreRange));
            if !ours && !ignored {
                onward = onward.header(name, value);
            }
        }
        let onward = onward.body(Full::from(sent)).map_err(io::Error::other)?;
        let answer = http::send(upstream, onward)
            .await
            .map_err(io::Error::other)?;
        Ok(spoil(answer, fault, method))
    }
}

/// Passes an answer on, with its fault.
fn spoil(answer: Answer, fault: Option<Fault>, method: &Method) -> Response<Body> {
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
        Some(Fault::Corrupt { offset }) => {
            let mut changed = bytes.to_vec();
            if let Some(byte) = changed.get_mut(offset) {
                *byte ^= 0x20;
            }
            body::whole(changed.into())
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
