//! The parts of Fulcio, Rekor and a timestamp authority that cosign uses to sign.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use super::authority::{CodeAuthority, Wish};
use super::{Key, StampAuthority, TransparencyLog};
use crate::image::digest;
use crate::serve::Server;

/// A running authority and log, stopped on drop.
#[derive(Debug)]
pub struct Services {
    server: Server,
    /// Shared state.
    pub state: Arc<State>,
}

/// State of the authority and of both logs.
#[derive(Debug)]
pub struct State {
    /// Issues certificates.
    pub authority: CodeAuthority,
    /// Records signatures.
    pub log: TransparencyLog,
    /// Issues timestamps.
    pub stamps: StampAuthority,
    /// Key of the certificate log, which issues signed certificate timestamps.
    pub certificate_log: Key,
    /// Email address in all certificates.
    email: String,
    /// Login issuer in all certificates.
    issuer: String,
}

impl Services {
    /// Starts services for one signer.
    pub fn start(email: &str, issuer: &str) -> Self {
        let state = Arc::new(State {
            authority: CodeAuthority::new("authority"),
            log: TransparencyLog::new("log.example"),
            stamps: StampAuthority::new(),
            certificate_log: Key::new(),
            email: email.to_owned(),
            issuer: issuer.to_owned(),
        });
        let shared = Arc::clone(&state);
        let server = Server::start(move |stream| {
            let shared = Arc::clone(&shared);
            async move {
                let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                // Errors here are clients that left.
                let _ = connection.await;
            }
        });
        Self { server, state }
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns a login token, which the authority does not check.
    pub fn token(&self) -> String {
        let claims = json!({
            "iss": self.state.issuer,
            "aud": "sigstore",
            "sub": "1",
            "email": self.state.email,
            "email_verified": true,
            "exp": 4_000_000_000_u64,
            "iat": 1,
        });
        let encode = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let head = encode(json!({ "alg": "RS256", "typ": "JWT" }));
        format!("{head}.{}.AAAA", encode(claims))
    }
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await;
    let body = body.map(http_body_util::Collected::to_bytes);
    let body = body.unwrap_or_default();
    if path == "/stamp" {
        let stamp = state.stamps.reply(&body, now()).unwrap_or_default();
        let mut response = Response::new(Full::from(stamp));
        let kind = "application/timestamp-reply".parse();
        let headers = response.headers_mut();
        headers.insert("content-type", kind.expect("a header's value"));
        *response.status_mut() = StatusCode::CREATED;
        return Ok(response);
    }
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let said = match path.as_str() {
        "/api/v1/log/entries" => state.enter(&asked),
        "/api/v2/signingCert" => {
            let key = &asked["publicKeyRequest"]["publicKey"]["content"];
            key.as_str().and_then(|pem| state.certify(pem)).map(|chain| {
                json!({ "signedCertificateEmbeddedSct": { "chain": { "certificates": chain } } })
                    .to_string()
            })
        }
        // The older version of the API.
        "/api/v1/signingCert" => {
            let key = asked["publicKey"]["content"].as_str();
            let key = key.and_then(|text| BASE64_STANDARD.decode(text).ok());
            let key = key.and_then(|pem| String::from_utf8(pem).ok());
            let chain = key.and_then(|pem| state.certify(&pem));
            chain.map(|chain| chain.concat())
        }
        _ => None,
    };
    let mut response = Response::new(Full::from(said.clone().unwrap_or_default()));
    *response.status_mut() = match (&said, path.as_str()) {
        (None, _) => StatusCode::NOT_FOUND,
        (Some(_), "/api/v2/signingCert") => StatusCode::OK,
        (Some(_), _) => StatusCode::CREATED,
    };
    let kind = if path == "/api/v1/signingCert" {
        "application/pem-certificate-chain"
    } else {
        "application/json"
    };
    let headers = response.headers_mut();
    headers.insert("content-type", kind.parse().expect("a header's value"));
    if path == "/api/v1/log/entries" {
        // The ID of the entry in the log.
        let said: Value = serde_json::from_str(&said.unwrap_or_default()).unwrap_or_default();
        let name = said
            .as_object()
            .and_then(|said| said.keys().next().cloned());
        let name = name.unwrap_or_default();
        headers.insert("etag", name.parse().expect("a header's value"));
    }
    Ok(response)
}

impl State {
    fn certify(&self, key: &str) -> Option<Vec<String>> {
        let wish = Wish {
            emails: vec![&self.email],
            issuers: [Some(&self.issuer); 2],
            valid: (now() - 60, now() + 600),
            log: Some(&self.certificate_log),
            ..Wish::default()
        };
        self.authority.certify_pem(&wish, key)
    }

    /// Adds a proposed entry, and returns it as stored.
    fn enter(&self, proposed: &Value) -> Option<String> {
        let spec = &proposed["spec"];
        let kept = match proposed["kind"].as_str()? {
            "hashedrekord" => json!({
                "data": { "hash": spec["data"]["hash"] },
                "signature": {
                    "content": spec["signature"]["content"],
                    "publicKey": { "content": spec["signature"]["publicKey"]["content"] },
                },
            }),
            "dsse" => {
                let proposed = &spec["proposedContent"];
                let envelope = proposed["envelope"].as_str()?;
                let read: Value = serde_json::from_str(envelope).ok()?;
                let payload = BASE64_STANDARD.decode(read["payload"].as_str()?).ok()?;
                let hash =
                    |bytes: &[u8]| json!({ "algorithm": "sha256", "value": &digest(bytes)[7..] });
                json!({
                    "envelopeHash": hash(envelope.as_bytes()),
                    "payloadHash": hash(&payload),
                    "signatures": [{
                        "signature": read["signatures"][0]["sig"],
                        "verifier": proposed["verifiers"][0],
                    }],
                })
            }
            _ => return None,
        };
        let body = json!({ "apiVersion": "0.0.1", "kind": proposed["kind"], "spec": kept });
        Some(self.log.enter(&body, now()).answered.to_string())
    }
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("a time after 1970").as_secs()
}
