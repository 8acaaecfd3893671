//! Checks by HTTP.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use http::{Request, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use orlop_streaming::read_body;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};

use super::lookup::connect;
use super::tls;

/// How many bytes of a response are read before the connection is closed.
const MAX_BODY: usize = 10 * 1024;
const MAX_REDIRECTS: usize = 10;

/// The target of an HTTP check.
#[derive(Debug, Clone)]
pub(crate) struct HttpTarget {
    pub(crate) secure: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) agent: &'static str,
}

/// The response of an HTTP check.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
}

impl HttpAnswer {
    /// Whether the status counts as success.
    pub(crate) fn is_fine(&self) -> bool {
        (200..400).contains(&self.status)
    }
}

/// Why there is no response.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    #[error("Get \"{url}\": {why}")]
    Failed { url: String, why: String },
    #[error("Get \"{url}\": server gave HTTP response to HTTPS client")]
    NotTls { url: String },
    #[error(
        "Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    )]
    Timeout { url: String },
}

/// Sends a GET request, following redirects on the same host.
pub(crate) async fn get(mut target: HttpTarget, limit: Duration) -> Result<HttpAnswer, HttpError> {
    let url = url(&target);
    let all = async {
        for _ in 0..MAX_REDIRECTS {
            let (answer, location) = once(&target).await?;
            match location.and_then(|to| redirected(&target, &to)) {
                Some(next) if (300..400).contains(&answer.status) => target = next,
                _ => return Ok(answer),
            }
        }
        Err(HttpError::Failed {
            url: url.clone(),
            why: format!("stopped after {MAX_REDIRECTS} redirects"),
        })
    };
    match tokio::time::timeout(limit, all).await {
        Ok(done) => done,
        Err(_) => Err(HttpError::Timeout { url: url.clone() }),
    }
}

async fn once(target: &HttpTarget) -> Result<(HttpAnswer, Option<String>), HttpError> {
    let fail = |why: String| HttpError::Failed {
        url: url(target),
        why,
    };
    let tcp = connect(bare(&target.host), target.port)
        .await
        .map_err(|e| fail(format!("dial tcp {}:{}: {e}", target.host, target.port)))?;
    if !target.secure {
        return exchange(tcp, target).await.map_err(fail);
    }
    let config = tls::config().ok_or_else(|| fail("TLS is not available".to_owned()))?;
    let name =
        ServerName::try_from(bare(&target.host).to_owned()).map_err(|e| fail(e.to_string()))?;
    match tokio_rustls::TlsConnector::from(config)
        .connect(name, tcp)
        .await
    {
        Ok(stream) => exchange(stream, target).await.map_err(fail),
        Err(error) if error.to_string().contains("InvalidContentType") => {
            Err(HttpError::NotTls { url: url(target) })
        }
        Err(error) => Err(fail(error.to_string())),
    }
}

async fn exchange<S>(stream: S, target: &HttpTarget) -> Result<(HttpAnswer, Option<String>), String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let text = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    let exchange = async move {
        let answer = sender.send_request(request(target)?).await.map_err(text)?;
        let status = answer.status().as_u16();
        let location = answer
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        // The body is read so that the server is not interrupted, then dropped.
        let _ = read_body(answer.into_body(), MAX_BODY).await;
        Ok((HttpAnswer { status }, location))
    };
    tokio::pin!(exchange);
    tokio::pin!(connection);
    tokio::select! {
        done = &mut exchange => done,
        ended = &mut connection => match ended {
            // The server closed the connection after its complete response.
            Ok(()) => exchange.await,
            Err(error) => Err(error.to_string()),
        },
    }
}

fn request(target: &HttpTarget) -> Result<Request<Empty<Bytes>>, String> {
    let mut request = Request::builder()
        .uri(target.path.as_str())
        .body(Empty::new())
        .map_err(|e| e.to_string())?;
    let default_port = if target.secure { 443 } else { 80 };
    let host = if target.port == default_port {
        target.host.clone()
    } else {
        format!("{}:{}", bracketed(&target.host), target.port)
    };
    let headers = request.headers_mut();
    let value = |text: &str| HeaderValue::from_str(text).map_err(|e| e.to_string());
    headers.insert(HOST, value(&host)?);
    headers.insert(USER_AGENT, HeaderValue::from_static(target.agent));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    for (name, text) in &target.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|e| e.to_string())?;
        // A custom header replaces the default one.
        let ours = name == USER_AGENT || name == ACCEPT || name == HOST;
        if ours {
            headers.insert(name, value(text)?);
        } else {
            headers.append(name, value(text)?);
        }
    }
    Ok(request)
}

/// Returns the target of a redirect on the same host; a redirect to another host counts as the
/// response.
fn redirected(from: &HttpTarget, location: &str) -> Option<HttpTarget> {
    let mut next = from.clone();
    let to: Uri = location.parse().ok()?;
    if let Some(host) = to.host() {
        if host != bracketed(&from.host) {
            return None;
        }
        next.secure = to.scheme_str() == Some("https");
        next.port = to.port_u16().unwrap_or(if next.secure { 443 } else { 80 });
    }
    let path = to
        .path_and_query()
        .map_or("/", http::uri::PathAndQuery::as_str);
    next.path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    Some(next)
}

fn url(target: &HttpTarget) -> String {
    let scheme = if target.secure { "https" } else { "http" };
    let host = bracketed(&target.host);
    format!("{scheme}://{host}:{}{}", target.port, target.path)
}

fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers each connection with the next of `answers` and returns the requests.
    async fn server(answers: Vec<&'static str>) -> (u16, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut text = vec![0; 4096];
                let n = stream.read(&mut text).await.unwrap();
                asked.push(String::from_utf8_lossy(&text[..n]).into_owned());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            asked
        });
        (port, task)
    }

    fn target(port: u16) -> HttpTarget {
        HttpTarget {
            secure: false,
            host: "127.0.0.1".to_owned(),
            port,
            path: "/x".to_owned(),
            headers: vec![("X-One".to_owned(), "1".to_owned())],
            agent: "kube-probe/1.0",
        }
    }

    const SECOND: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn an_answer_counts_by_its_status() {
        for (answer, fine) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", true),
            (
                "HTTP/1.1 302 Found\r\nlocation: http://elsewhere.test/\r\ncontent-length: 0\r\n\r\n",
                true,
            ),
            ("HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", false),
            ("HTTP/1.0 500 No\r\n\r\nbye", false),
        ] {
            let (port, task) = server(vec![answer]).await;
            let got = get(target(port), SECOND).await.unwrap();
            assert_eq!(got.is_fine(), fine, "{answer}");
            let asked = task.await.unwrap().remove(0).to_lowercase();
            assert!(asked.starts_with("get /x http/1.1\r\n"), "{asked}");
            assert!(
                asked.contains("x-one: 1") && asked.contains("user-agent: kube-probe/"),
                "{asked}"
            );
        }
    }

    #[tokio::test]
    async fn a_redirect_on_the_host_is_followed() {
        let (port, task) = server(vec![
            "HTTP/1.1 302 Found\r\nlocation: /y?z\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n",
        ])
        .await;
        let got = get(target(port), SECOND).await.unwrap();
        assert_eq!(got.status, 503);
        assert!(task.await.unwrap()[1].starts_with("GET /y?z "));
    }

    #[tokio::test]
    async fn silence_and_plain_text_are_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let silent = get(target(port), Duration::from_millis(100)).await;
        assert!(
            matches!(silent, Err(HttpError::Timeout { .. })),
            "{silent:?}"
        );

        let (port, _task) = server(vec!["HTTP/1.1 400 Bad\r\ncontent-length: 0\r\n\r\n"]).await;
        let secure = HttpTarget {
            secure: true,
            ..target(port)
        };
        let plain = get(secure, SECOND).await;
        assert!(matches!(plain, Err(HttpError::NotTls { .. })), "{plain:?}");
    }
}
