//! `/exec`, `/attach` and `/portForward`, proxied to the runtime's streaming server. If an older
//! runtime does not support WebSocket, the agent translates it to SPDY, as a kubelet does. `/run`
//! needs no stream.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use orlop_kuberuntime::manager::{ExecStreams, PodView, RequestError};
use orlop_streaming::client::{ClientError, ClientOptions};
use orlop_streaming::read_body;
use orlop_streaming::translate::{Behind, SessionStreams, Translation, is_translated};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::answer::{self, Answer};
use super::query::Query;
use crate::shared::Shared;

/// Timeout of the upgrade, on the runtime's and the client's side.
const SETUP: Duration = Duration::from_secs(30);
const MAX_REFUSAL: usize = 64 << 10;
/// Timeout of a `/run` command.
const RUN: Duration = Duration::from_mins(2);

/// The kind of stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Exec,
    Attach,
    PortForward,
}

/// Connects a client with the runtime.
pub(super) async fn answer(
    shared: &Shared,
    verb: Verb,
    pod: &PodView,
    container: &str,
    query: &Query,
    request: Request<Incoming>,
) -> Answer {
    let (url, behind) = match url(shared, verb, pod, container, query).await {
        Ok(found) => found,
        Err(answer) => return *answer,
    };
    let idle = shared.configuration().streaming_connection_idle_timeout;
    let joined = if is_translated(request.headers(), behind) {
        translate(&url, request, behind, idle).await
    } else {
        join(&url, request, idle).await
    };
    match joined {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!(pod = pod.name, %error, "cannot forward a stream to the runtime");
            let text = format!("error connecting to the runtime's streaming server: {error}\n");
            answer::text(StatusCode::BAD_GATEWAY, text)
        }
    }
}

async fn url(
    shared: &Shared,
    verb: Verb,
    pod: &PodView,
    container: &str,
    query: &Query,
) -> Result<(String, Behind), Box<Answer>> {
    let refuse = |text: &str| Box::new(answer::text(StatusCode::BAD_REQUEST, text));
    let manager = shared.manager();
    let mut streams = ExecStreams {
        stdin: query.is_true(&["input", "stdin"]),
        stdout: query.is_true(&["output", "stdout"]),
        stderr: query.is_true(&["error", "stderr"]),
        tty: query.is_true(&["tty"]),
    };
    if streams.tty {
        // A terminal has a single output stream.
        streams.stderr = false;
    }
    if verb != Verb::PortForward && !(streams.stdin || streams.stdout || streams.stderr) {
        return Err(refuse(
            "you must specify at least 1 of stdin, stdout, stderr\n",
        ));
    }
    let found = match verb {
        Verb::Exec => {
            let command = query.all("command");
            if command.is_empty() {
                return Err(refuse("you must specify a command\n"));
            }
            manager
                .exec_url(&pod.uid, container, command, streams)
                .await
                .map(|url| (url, session(streams)))
        }
        Verb::Attach => manager
            .attach_url(&pod.uid, container, streams)
            .await
            .map(|(url, given)| (url, session(given))),
        Verb::PortForward => {
            let ports: Result<Vec<i32>, _> = query
                .all("port")
                .iter()
                .chain(&query.all("ports"))
                .flat_map(|text| text.split(','))
                .map(str::parse)
                .collect();
            let ports = ports.map_err(|_| refuse("a port must be a number\n"))?;
            let url = manager.port_forward_url(&pod.uid, ports).await;
            url.map(|url| (url, Behind::PortForward))
        }
    };
    found.map_err(|error| Box::new(answer::failure(&error)))
}

fn session(streams: ExecStreams) -> Behind {
    Behind::Session(SessionStreams {
        stdin: streams.stdin,
        stdout: streams.stdout,
        stderr: streams.stderr,
        tty: streams.tty,
    })
}

/// Translates between WebSocket on the client's side and SPDY on the runtime's.
async fn translate(
    url: &str,
    mut request: Request<Incoming>,
    behind: Behind,
    idle: Duration,
) -> Result<Answer, io::Error> {
    let options = ClientOptions {
        timeout: SETUP,
        ..ClientOptions::default()
    };
    let prepared = Translation::prepare(&mut request, url, behind, &options, idle).await;
    let (reply, session) = match prepared {
        Ok(translation) => translation.split(),
        Err(ClientError::Refused { status, message }) => {
            return Ok(answer::text(status, format!("{message}\n")));
        }
        Err(error) => {
            let cause = std::error::Error::source(&error);
            let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
            return Err(io::Error::other(format!("{error}{cause}")));
        }
    };
    tokio::spawn(session);
    let (parts, body) = reply.into_parts();
    let body = read_body(body, MAX_REFUSAL).await?;
    Ok(Response::from_parts(parts, answer::whole(body)))
}

/// Requests the same upgrade from the runtime, and joins both connections.
async fn join(
    url: &str,
    mut request: Request<Incoming>,
    idle: Duration,
) -> Result<Answer, io::Error> {
    let bad = || {
        io::Error::other(format!(
            "cannot use the runtime's streaming address {url:?}"
        ))
    };
    let uri: Uri = url.parse().map_err(|_| bad())?;
    if uri.scheme() != Some(&Scheme::HTTP) {
        let text = format!(
            "the runtime's streaming address {url:?} is not http, which is the only supported \
             scheme"
        );
        return Err(io::Error::other(text));
    }
    let authority = uri.authority().ok_or_else(bad)?.clone();
    let host = authority
        .host()
        .trim_start_matches('[')
        .trim_end_matches(']');
    let port = authority.port_u16().unwrap_or(80);
    let path = uri
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();

    let setup = async {
        let stream = TcpStream::connect((host, port)).await?;
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a stream to the runtime failed");
            }
        });
        let mut onward = Request::builder().method(request.method()).uri(path);
        if let Some(headers) = onward.headers_mut() {
            copy_headers(request.headers(), headers);
            let host = HeaderValue::from_str(authority.as_str()).map_err(io::Error::other)?;
            headers.insert(HOST, host);
        }
        let onward = onward
            .body(Empty::<Bytes>::new())
            .map_err(io::Error::other)?;
        sender.send_request(onward).await.map_err(io::Error::other)
    };
    let mut response = timeout(SETUP, setup)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let status = response.status();
        let body = read_body(response.into_body(), MAX_REFUSAL).await;
        let body = body.unwrap_or_default();
        let mut refusal = Response::new(answer::whole(body));
        *refusal.status_mut() = status;
        return Ok(refusal);
    }
    let mut reply = Response::new(answer::whole(Bytes::new()));
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    for (name, value) in response.headers() {
        reply.headers_mut().append(name, value.clone());
    }
    let theirs = hyper::upgrade::on(&mut response);
    let ours = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let both = timeout(SETUP, async { tokio::try_join!(ours, theirs) }).await;
        match both {
            Ok(Ok((ours, theirs))) => {
                pump(TokioIo::new(ours), TokioIo::new(theirs), idle).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "a client disconnected during its upgrade"),
            Err(_) => tracing::debug!("a client did not complete its upgrade in time"),
        }
    });
    Ok(reply)
}

/// Copies the headers that concern the stream, but not the client's connection.
fn copy_headers(from: &HeaderMap, to: &mut HeaderMap) {
    for (name, value) in from {
        let stream = *name == CONNECTION
            || *name == UPGRADE
            || name.as_str().starts_with("sec-websocket-")
            || name.as_str().starts_with("x-stream-protocol-");
        if stream {
            to.append(name, value.clone());
        }
    }
}

/// Copies bytes in both directions until one side ends, or nothing was copied for `idle`.
async fn pump<A, B>(one: A, other: B, idle: Duration)
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let begin = Instant::now();
    let moved = Arc::new(AtomicU64::new(0));
    let (one_in, one_out) = tokio::io::split(one);
    let (other_in, other_out) = tokio::io::split(other);
    let silence = async {
        loop {
            let last = begin + Duration::from_millis(moved.load(Ordering::Relaxed));
            if last.elapsed() >= idle {
                return;
            }
            sleep_until(last + idle).await;
        }
    };
    tokio::select! {
        () = silence => tracing::info!(?idle, "closed an idle stream"),
        _ = async {
            tokio::join!(
                carry(one_in, other_out, begin, &moved),
                carry(other_in, one_out, begin, &moved),
            )
        } => {}
    }
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    begin: Instant,
    moved: &AtomicU64,
) {
    let mut buffer = vec![0; 32 << 10];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(length) => {
                let now = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
                moved.store(now, Ordering::Relaxed);
                if to.write_all(&buffer[..length]).await.is_err() || to.flush().await.is_err() {
                    break;
                }
            }
        }
    }
    let _ = to.shutdown().await;
}

/// Runs a command and answers with its complete output.
pub(super) async fn run(shared: &Shared, pod: &PodView, container: &str, query: &Query) -> Answer {
    // `cmd` is one text split at blanks, as in the kubelet; `command` gives the arguments one by
    // one.
    let mut command = query.all("command");
    if command.is_empty() {
        let text = query.get("cmd").unwrap_or_default();
        command = text.split_ascii_whitespace().map(str::to_owned).collect();
    }
    if command.is_empty() {
        return answer::text(StatusCode::BAD_REQUEST, "cmd is missing\n");
    }
    let manager = shared.manager();
    match manager
        .run_in_container(&pod.uid, container, command, RUN)
        .await
    {
        Ok(done) => {
            let mut output = done.stdout;
            output.extend_from_slice(&done.stderr);
            let output = String::from_utf8_lossy(&output).into_owned();
            if done.exit_code == 0 {
                answer::text(StatusCode::OK, output)
            } else {
                let text = format!(
                    "{output}command terminated with exit code {}\n",
                    done.exit_code
                );
                answer::text(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        }
        Err(error @ RequestError::Runtime(_)) => {
            answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))
        }
        Err(error) => answer::failure(&error),
    }
}
