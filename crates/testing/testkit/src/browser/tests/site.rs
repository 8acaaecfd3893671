//! A small site with a strict policy, a valid page, and an invalid one.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::serve::Server;

/// The site, served until dropped.
pub(super) struct Site(Server);

impl Site {
    pub(super) fn start() -> Self {
        Self(Server::start(answer))
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.0.address())
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

const GOOD: &str =
    "<!doctype html><html lang=en><head><title>Good</title><link rel=icon href=data:,>
    <link rel=stylesheet href=/style.css><script type=module src=/app.js></script></head>
    <body><main><h1>Good</h1><p id=host></p>
    <label>Name <input id=name></label>
    <button id=first>First</button> <button id=second>Second</button>
    <p id=said role=status></p></main></body></html>";

/// Page with a script that the policy forbids, an image without a description, and a field without a label.
const BAD: &str = "<!doctype html><html lang=en><head><title>Bad</title><link rel=icon href=data:,>
    <link rel=stylesheet href=/style.css></head>
    <body><main><h1>Bad</h1><script>document.title = 'Inline'</script>
    <img src=/dot.svg><input id=nameless></main></body></html>";

const STYLE: &str = "body { background: #ffffff; color: #000000; }
    @media (prefers-color-scheme: dark) { body { background: #101010; color: #f0f0f0; } }";

const APP: &str = "
    const said = document.getElementById('said');
    document.getElementById('host').textContent = location.hostname;
    for (const button of document.querySelectorAll('button'))
        button.addEventListener('click', () => {
            said.textContent = button.textContent + ' ' + document.getElementById('name').value;
        });
    addEventListener('keydown', event => {
        if (event.key === 'Escape') setTimeout(() => { throw new Error('planted'); });
        if (event.key === 'F' && event.shiftKey) fetch('http://elsewhere.test/').catch(() => {});
    });
    ";

/// Page whose screenshot is always large.
const NOISE: &str =
    "<!doctype html><html lang=en><head><title>Noise</title><link rel=icon href=data:,>
    <script type=module src=/noise.js></script></head><body><canvas></canvas></body></html>";

const NOISE_SCRIPT: &str = "
    const canvas = document.querySelector('canvas');
    [canvas.width, canvas.height] = [innerWidth, innerHeight];
    const context = canvas.getContext('2d');
    const pixels = context.createImageData(canvas.width, canvas.height);
    for (let at = 0; at < pixels.data.length; at++)
        pixels.data[at] = at % 4 === 3 ? 255 : 256 * Math.random();
    context.putImageData(pixels, 0, 0);
    canvas.dataset.done = 'yes';
    ";

const DOT: &str = "<svg xmlns='http://www.w3.org/2000/svg' width='8' height='8'><rect width='8' height='8'/></svg>";

async fn answer(mut stream: TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 16 << 10 {
        let Ok(byte) = stream.read_u8().await else {
            return;
        };
        head.push(byte);
    }
    let head = String::from_utf8_lossy(&head);
    let (status, kind, body) = match head.split(' ').nth(1) {
        Some("/good") => ("200 OK", "text/html", GOOD),
        Some("/bad") => ("200 OK", "text/html", BAD),
        Some("/style.css") => ("200 OK", "text/css", STYLE),
        Some("/app.js") => ("200 OK", "text/javascript", APP),
        Some("/noise") => ("200 OK", "text/html", NOISE),
        Some("/noise.js") => ("200 OK", "text/javascript", NOISE_SCRIPT),
        Some("/dot.svg") => ("200 OK", "image/svg+xml", DOT),
        _ => ("404 Not Found", "text/plain", "no such page"),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}; charset=utf-8\r\ncontent-length: {}\r\n\
         content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; \
         img-src 'self' data:; connect-src 'self' http://elsewhere.test; base-uri 'none'\r\n\
         set-cookie: seen=yes; HttpOnly; SameSite=Strict\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
}
