//! Who is served what: each rule with a request that must fail. The endpoint is none: what is asked of it
//! fails, too, and says so.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure, and what is read is the server's own"
)]

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use orlop_listen::{Listener, Tls, TlsFiles, TlsRules, TlsTerms};
use orlop_web::{Token, Web, WebError, WebOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "0123456789abcdef";
const PATIENCE: Duration = Duration::from_secs(20);

/// A server of an endpoint that nobody serves.
struct Served {
    address: SocketAddr,
    cookie: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn options() -> WebOptions {
    WebOptions {
        endpoint: "unix:///nowhere/at/all.sock".parse().unwrap(),
        token: Token::Given(TOKEN.into()),
        names: vec!["node.example".into()],
        shows_environment: false,
        extras: None,
    }
}

impl Served {
    async fn start() -> Self {
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.tcp_address().unwrap();
        let web = Web::new(listener, None, options()).unwrap();
        assert_eq!(web.address(), format!("http://{address}/?token={TOKEN}"));
        let stop = CancellationToken::new();
        let task = tokio::spawn(web.serve(stop.clone()));
        let mut served = Self {
            address,
            cookie: String::new(),
            stop,
            task,
        };
        let answer = served.ask(&format!("GET /?token={TOKEN}"), &[]).await;
        let cookie = header(&answer, "set-cookie").unwrap();
        let cookie = cookie.split(';').next().unwrap();
        cookie.clone_into(&mut served.cookie);
        served
    }

    /// The head of a request of somebody who is let in, but for what is said otherwise.
    fn head(&self, request: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!("{request} HTTP/1.1\r\n");
        let given = |name: &str| {
            headers
                .iter()
                .any(|(its, _)| its.eq_ignore_ascii_case(name))
        };
        if !given("host") {
            let _ = write!(head, "Host: {}\r\n", self.address);
        }
        if !given("cookie") && !self.cookie.is_empty() {
            let _ = write!(head, "Cookie: {}\r\n", self.cookie);
        }
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head
    }

    async fn ask(&self, request: &str, headers: &[(&str, &str)]) -> String {
        let head = self.head(request, headers);
        self.send(&format!("{head}Connection: close\r\n\r\n")).await
    }

    async fn send(&self, text: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // It may be answered before it is read to the end.
        let _ = stream.write_all(text.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer))
            .await
            .unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn status(&self, request: &str, headers: &[(&str, &str)]) -> u16 {
        status(&self.ask(request, headers).await)
    }

    /// A stream of events, past its head.
    async fn stream(&self, path: &str) -> Stream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = self.head(&format!("GET {path}"), &[]);
        let done = stream.write_all(format!("{head}\r\n").as_bytes()).await;
        done.unwrap();
        let mut stream = Stream {
            stream,
            text: String::new(),
        };
        stream.until("\r\n\r\n").await;
        stream
    }
}

struct Stream {
    stream: TcpStream,
    text: String,
}

impl Stream {
    async fn until(&mut self, word: &str) {
        let mut buffer = [0; 4096];
        while !self.text.contains(word) {
            let read = timeout(PATIENCE, self.stream.read(&mut buffer)).await;
            let read = read
                .unwrap_or_else(|_| panic!("no {word:?} in {}", self.text))
                .unwrap();
            assert!(read > 0, "it ended without {word:?}: {}", self.text);
            self.text
                .push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    }
}

fn status(answer: &str) -> u16 {
    let word = answer.split(' ').nth(1).unwrap_or_default();
    word.parse().unwrap_or(0)
}

fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find_map(|(its, value)| its.eq_ignore_ascii_case(name).then_some(value))
}

#[tokio::test]
async fn the_token_becomes_a_cookie_and_leaves_the_address() {
    let served = Served::start().await;
    let answer = served
        .ask(&format!("GET /?token={TOKEN}"), &[("Cookie", "")])
        .await;
    assert_eq!(
        (status(&answer), header(&answer, "location")),
        (303, Some("/"))
    );
    let cookie = header(&answer, "set-cookie").unwrap();
    assert!(cookie.starts_with(&format!("orlop_web_{}=", served.address.port())));
    assert!(
        cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"),
        "{cookie}"
    );
    assert!(!cookie.contains(TOKEN) && header(&answer, "referrer-policy") == Some("no-referrer"));
    // Led here by another site: the cookie comes with the next step only.
    let led = [("Sec-Fetch-Site", "cross-site"), ("Cookie", "")];
    let answer = served.ask(&format!("GET /?token={TOKEN}"), &led).await;
    assert_eq!(
        (status(&answer), header(&answer, "refresh")),
        (200, Some("0; url=/"))
    );
    let wrong = served
        .ask("GET /?token=0123456789abcdee", &[("Cookie", "")])
        .await;
    assert_eq!((status(&wrong), header(&wrong, "set-cookie")), (403, None));
}

#[tokio::test]
async fn strangers_see_nothing() {
    let served = Served::start().await;
    for path in [
        "/",
        "/app/app.js",
        "/pods",
        "/api/live",
        "/api/images",
        "/api/none",
    ] {
        for cookie in ["", "orlop_web_1=x", "other=1"] {
            let status = served
                .status(&format!("GET {path}"), &[("Cookie", cookie)])
                .await;
            assert_eq!(status, 401, "{path} {cookie}");
        }
    }
    let as_cookie = format!("orlop_web_{}={TOKEN}", served.address.port());
    assert_eq!(served.status("GET /", &[("Cookie", &as_cookie)]).await, 401);
    let bearer = [("Cookie", ""), ("Authorization", "Bearer 0123456789abcdef")];
    assert_eq!(served.status("GET /", &bearer).await, 401);
    assert_eq!(served.status("GET /", &[]).await, 200);
}

#[tokio::test]
async fn nothing_is_changed() {
    let served = Served::start().await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        for path in ["/", "/api/pod/1", "/api/live"] {
            let answer = served
                .ask(&format!("{method} {path}"), &[("Content-Length", "0")])
                .await;
            assert_eq!(status(&answer), 405, "{method} {path}");
            assert_eq!(header(&answer, "allow"), Some("GET, HEAD"));
        }
    }
    let answer = served.ask("HEAD /", &[]).await;
    assert_eq!(status(&answer), 200);
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    assert_eq!(served.status("HEAD /api/live", &[]).await, 200);
}

#[tokio::test]
async fn names_that_lead_here_for_an_attack_and_other_sites_are_refused() {
    let served = Served::start().await;
    let own = served.address.to_string();
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "192.0.2.1",
        "user@localhost",
    ] {
        for path in ["/", "/api/images", &format!("/?token={TOKEN}")] {
            let status = served
                .status(&format!("GET {path}"), &[("Host", host)])
                .await;
            assert_eq!(status, 421, "{host} {path}");
        }
    }
    for host in ["localhost:1", "node.example", &own] {
        assert_eq!(
            served.status("GET /", &[("Host", host)]).await,
            200,
            "{host}"
        );
    }
    let two =
        format!("GET / HTTP/1.1\r\nHost: {own}\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!([400, 421].contains(&status(&served.send(&two).await)));
    let origin = |origin: &'static str| [("Origin", origin)];
    for other in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        assert_eq!(
            served.status("GET /api/images", &origin(other)).await,
            403,
            "{other}"
        );
    }
    let same = format!("http://{own}");
    assert_ne!(
        served.status("GET /api/images", &[("Origin", &same)]).await,
        403
    );
    for site in ["cross-site", "same-site"] {
        let status = served
            .status("GET /api/live", &[("Sec-Fetch-Site", site)])
            .await;
        assert_eq!(status, 403, "{site}");
    }
}

#[tokio::test]
async fn answers_tell_browsers_to_run_and_keep_nothing() {
    let served = Served::start().await;
    for path in ["/", "/app/app.js", "/api/images", "/none.txt", "/api/none"] {
        let answer = served.ask(&format!("GET {path}"), &[]).await;
        let policy = header(&answer, "content-security-policy").unwrap();
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(
                policy.split("; ").any(|one| one == rule),
                "{path}: {policy}"
            );
        }
        assert!(!policy.contains("unsafe"));
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(header(&answer, name), Some(value), "{path}");
        }
        assert_eq!(header(&answer, "access-control-allow-origin"), None);
        if path.starts_with("/api") {
            assert_eq!(header(&answer, "cache-control"), Some("no-store"), "{path}");
        }
    }
}

#[tokio::test]
async fn views_have_addresses_and_files_have_tags() {
    let served = Served::start().await;
    for path in ["/", "/pods", "/pod/0123", "/logs?container=1"] {
        let answer = served.ask(&format!("GET {path}"), &[]).await;
        assert_eq!(status(&answer), 200, "{path}");
        assert_eq!(
            header(&answer, "content-type"),
            Some("text/html; charset=utf-8")
        );
    }
    for path in [
        "/none.js",
        "/app/none.js",
        "/app/../Cargo.toml",
        "/app/..%2fCargo.toml",
        "/.git/config",
    ] {
        assert_eq!(
            served.status(&format!("GET {path}"), &[]).await,
            404,
            "{path}"
        );
    }
    let answer = served.ask("GET /app/app.js", &[]).await;
    assert_eq!(
        header(&answer, "content-type"),
        Some("text/javascript; charset=utf-8")
    );
    let tag = header(&answer, "etag").unwrap();
    let again = served
        .ask("GET /app/app.js", &[("If-None-Match", tag)])
        .await;
    assert_eq!(status(&again), 304);
}

#[tokio::test]
async fn heads_are_bounded() {
    let served = Served::start().await;
    let long = "x".repeat(20 << 10);
    assert_eq!(served.status("GET /", &[("X-Long", &long)]).await, 431);
    let short = "x".repeat(8 << 10);
    assert_eq!(served.status("GET /", &[("X-Long", &short)]).await, 200);
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_is_told_of_and_so_many_pages_are_served() {
    let served = Served::start().await;
    let mut pages = Vec::new();
    for _ in 0..8 {
        let mut page = served.stream("/api/live").await;
        page.until("event: gone\ndata: {\"why\":\"cannot connect")
            .await;
        pages.push(page);
    }
    let ninth = served.ask("GET /api/live", &[]).await;
    assert_eq!(status(&ninth), 503);
    assert!(ninth.contains("close one of them"), "{ninth}");
    pages.pop();
    for attempt in 0.. {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let page = served.stream("/api/live").await;
        if page.text.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(attempt < 100, "the closed page's place is not free");
    }
    assert_eq!(served.status("GET /api/images", &[]).await, 502);
    assert_eq!(served.status("GET /api/manifests", &[]).await, 501);
    assert_eq!(served.status("GET /api/logs", &[]).await, 400);
    let environment = served
        .ask("GET /api/pod/1/environment?container=2", &[])
        .await;
    assert_eq!(status(&environment), 403);
    assert!(environment.contains("--show-environment"));
}

#[tokio::test]
async fn told_to_stop_it_leaves_who_looks_and_its_port() {
    let served = Served::start().await;
    let mut page = served.stream("/api/live").await;
    page.until("event: gone").await;
    served.stop.cancel();
    timeout(PATIENCE, served.task).await.unwrap().unwrap();
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, page.stream.read_to_end(&mut rest))
        .await
        .unwrap();
    TcpStream::connect(served.address).await.unwrap_err();
}

#[tokio::test]
async fn a_socket_that_is_kept_is_served_by_the_next_one() {
    let listener = Arc::new(Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap());
    let address = listener.tcp_address().unwrap();
    for token in ["first", "second"] {
        let options = WebOptions {
            token: Token::Given(token.into()),
            ..options()
        };
        let web = Web::new(Arc::clone(&listener), None, options).unwrap();
        let stop = CancellationToken::new();
        let mut served = Served {
            address,
            cookie: String::new(),
            task: tokio::spawn(web.serve(stop.clone())),
            stop,
        };
        let login = format!("GET /?token={token}");
        assert_eq!(served.status(&login, &[]).await, 303);
        served.stop.cancel();
        timeout(PATIENCE, &mut served.task).await.unwrap().unwrap();
    }
    TcpStream::connect(address).await.unwrap();
    drop(listener);
    TcpStream::connect(address).await.unwrap_err();
}

#[tokio::test]
async fn other_machines_are_not_served_without_tls() {
    let listener = Listener::tcp("0.0.0.0:0".parse().unwrap()).unwrap();
    let refused = Web::new(listener, None, options()).err().unwrap();
    assert!(matches!(refused, WebError::Open(_)));
    let words = refused.to_string();
    orlop_testkit::assert_contains!(words, "certificate", "loopback");
}

/// A certificate of an authority that is made in the directory.
fn tls(dir: &Path) -> Arc<Tls> {
    let authority = orlop_testkit::tls::Authority::new(dir, "authority");
    let own = authority.issue("server", "IP:127.0.0.1");
    let files = TlsFiles {
        certificate: own.certificate,
        key: own.key,
        client_ca: None,
    };
    let rules = TlsRules {
        whom: "a browser",
        certificate_is_optional: true,
        terms: TlsTerms::default(),
    };
    Arc::new(Tls::load(files, rules).unwrap())
}

#[tokio::test]
async fn over_tls_the_cookie_goes_by_tls_alone() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::has_program("openssl"));
    let dir = tempfile::tempdir().unwrap();
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.tcp_address().unwrap();
    let web = Web::new(listener, Some(tls(dir.path())), options()).unwrap();
    let first = web.address();
    assert_eq!(first, format!("https://{address}/?token={TOKEN}"));
    let stop = CancellationToken::new();
    let task = tokio::spawn(web.serve(stop.clone()));
    let mut client = tokio::process::Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", &address.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let request =
        format!("GET /?token={TOKEN} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut input = client.stdin.take().unwrap();
    input.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let mut output = client.stdout.take().unwrap();
    let read = timeout(PATIENCE, output.read_to_string(&mut answer)).await;
    read.unwrap().unwrap();
    let cookie = header(&answer, "set-cookie").unwrap();
    assert!(cookie.ends_with("; Path=/; Secure"), "{cookie}");
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn on_a_unix_socket_the_address_has_the_token_and_the_cookie_needs_no_tls() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::has_program("openssl"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("web.sock");
    let listener = Listener::unix(&path, 0o600, None).unwrap();
    let web = Web::new(listener, Some(tls(dir.path())), options()).unwrap();
    let address = web.address();
    let (place, first) = address.split_once(' ').unwrap();
    assert_eq!(place, format!("unix://{}", path.display()));
    assert_eq!(first, format!("http://localhost/?token={TOKEN}"));
    let stop = CancellationToken::new();
    let task = tokio::spawn(web.serve(stop.clone()));
    let ask = async |request: String| {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let head = format!("GET {request}\r\nHost: localhost:8080\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
        read.unwrap().unwrap();
        answer
    };
    let target = first.strip_prefix("http://localhost").unwrap();
    let answer = ask(format!("{target} HTTP/1.1")).await;
    let cookie = header(&answer, "set-cookie").unwrap();
    assert!(cookie.ends_with("; Path=/"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let answer = ask(format!("/ HTTP/1.1\r\nCookie: {cookie}")).await;
    assert_eq!(status(&answer), 200);
    stop.cancel();
    task.await.unwrap();
}
