//! Tests of range requests through the proxy, with faults.

use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_RANGE, RANGE, WWW_AUTHENTICATE};
use hyper::{Request, StatusCode};

use crate::http::{self, Answer};
use crate::image::{Compression, ImageBuilder, Layer};
use crate::proxy::{Door, Fault, FaultProxy, Rule, TokenRules};
use crate::{Registry, machine, skip_unless};

/// A registry with one blob, and a proxy in front of it.
struct Place {
    proxy: FaultProxy,
    _registry: Registry,
    digest: String,
    blob: Vec<u8>,
}

impl Place {
    async fn new() -> Self {
        let registry = Registry::start();
        let layer = Layer::new().noise("noise", 400_000);
        let image = ImageBuilder::new().packed(layer, Compression::Plain);
        let image = image.build();
        registry.push(&image, "app:1").await;
        let blob = &image.layers[0];
        Self {
            proxy: FaultProxy::before(registry.address()),
            _registry: registry,
            digest: blob.digest.clone(),
            blob: blob.bytes.clone(),
        }
    }

    async fn ask(&self, range: Option<&str>, token: &str) -> anyhow::Result<Answer> {
        let path = format!("/v2/app/blobs/{}", self.digest);
        let mut request = Request::get(path);
        if let Some(range) = range {
            request = request.header(RANGE, format!("bytes={range}"));
        }
        if !token.is_empty() {
            request = request.header(AUTHORIZATION, token);
        }
        http::send(self.proxy.address(), request.body(Full::default())?).await
    }

    async fn get(&self, range: &str) -> Answer {
        self.ask(Some(range), "").await.expect("an answer")
    }

    fn befall(&self, fault: Fault) {
        self.proxy.heal();
        self.proxy.rule(Rule::on("/blobs/", fault));
    }
}

fn told(answer: &Answer) -> &str {
    answer.headers[CONTENT_RANGE].to_str().expect("text")
}

#[tokio::test]
async fn what_is_fetched_is_written_down() {
    skip_unless!(machine::has_program("docker-registry"));
    let place = Place::new().await;
    let length = place.blob.len() as u64;
    assert!(place.get("1000-2999").await.body == place.blob[1000..3000]);
    assert!(place.ask(None, "").await.expect("an answer").body == place.blob);
    let other = format!("/v2/app/blobs/sha256:{}", "0".repeat(64));
    let request = Request::get(&other).body(Full::default());
    let other = http::send(place.proxy.address(), request.expect("a request")).await;
    assert_eq!(other.expect("an answer").status, 404);
    let fetched = place.proxy.fetched();
    let ranges: Vec<_> = fetched.iter().map(|one| one.range.clone()).collect();
    assert_eq!(ranges[..2], [1000..3000, 0..length]);
    let sent: Vec<_> = fetched.iter().map(|one| (one.status, one.sent())).collect();
    assert_eq!(sent[..2], [(206, 2000), (200, length)]);
    assert_eq!(place.proxy.sent_of(&place.digest), 2000 + length);
    assert_eq!(place.proxy.sent_of(&fetched[2].digest), 0);
    place.proxy.forget();
    assert!(place.proxy.fetched().is_empty() && place.proxy.seen().is_empty());
}

#[tokio::test]
async fn other_ranges_are_served_than_were_asked_for() {
    skip_unless!(machine::has_program("docker-registry"));
    let place = Place::new().await;
    let length = place.blob.len();

    place.befall(Fault::OtherRange { by: 100 });
    let answer = place.get("1000-1999").await;
    assert_eq!(told(&answer), format!("bytes 1100-2099/{length}"));
    assert!(answer.body == place.blob[1100..2100]);

    place.befall(Fault::ShiftedRange { by: 100 });
    let answer = place.get("1000-1999").await;
    assert_eq!(answer.status, StatusCode::PARTIAL_CONTENT);
    assert_eq!(told(&answer), format!("bytes 1000-1999/{length}"));
    assert!(answer.body == place.blob[1100..2100]);

    place.befall(Fault::ShortRange { bytes: 10 });
    let answer = place.get("1000-1999").await;
    assert_eq!(told(&answer), format!("bytes 1000-1009/{length}"));
    assert!(answer.body == place.blob[1000..1010]);

    place.befall(Fault::IgnoreRange);
    let answer = place.get("1000-1999").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body == place.blob);
    // The record has the requested range and the bytes sent.
    let last = place.proxy.fetched().pop().expect("a record");
    assert_eq!(
        (last.range.clone(), last.sent()),
        (1000..2000, length as u64)
    );
}

#[tokio::test]
async fn a_damaged_byte_is_in_all_ranges_that_have_it() {
    skip_unless!(machine::has_program("docker-registry"));
    let place = Place::new().await;
    place.befall(Fault::Damage { at: 1500 });
    let mut damaged = place.blob.clone();
    damaged[1500] ^= 0x20;
    for range in [1000..2000, 1500..1600, 1400..1501, 1501..1600, 0..1500] {
        let answer = place
            .get(&format!("{}-{}", range.start, range.end - 1))
            .await;
        assert!(answer.body == damaged[range.clone()], "{range:?}");
    }
    assert!(place.ask(None, "").await.expect("an answer").body == damaged);
}

#[tokio::test]
async fn a_range_may_stall_for_good() {
    skip_unless!(machine::has_program("docker-registry"));
    let place = Place::new().await;
    place.befall(Fault::stall(300));
    let waited = tokio::time::timeout(Duration::from_millis(300), place.get("1000-1999"));
    waited.await.expect_err("it came");
    assert_eq!(place.proxy.fetched()[0].sent(), 300);
    place.proxy.heal();
    assert!(place.get("1000-1999").await.body == place.blob[1000..2000]);
}

#[tokio::test]
async fn a_token_expires_between_two_ranges() {
    skip_unless!(machine::has_program("docker-registry"));
    let place = Place::new().await;
    place.proxy.guard(Door::Bearer(TokenRules::default()));
    place
        .proxy
        .rule(Rule::on("/blobs/", Fault::Expire).skip(2).times(1));
    let log_in = async || {
        let request = Request::get("/token?scope=repository%3Aapp%3Apull");
        let request = request.body(Full::default()).expect("a request");
        let answer = http::send(place.proxy.address(), request).await;
        let answer = answer.expect("an answer");
        let token: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        format!("Bearer {}", token["token"].as_str().expect("a token"))
    };
    let token = log_in().await;
    for expected in [206, 206, 401, 401] {
        let answer = place.ask(Some("0-9"), &token).await.expect("an answer");
        assert_eq!(answer.status, expected);
        if expected == 401 {
            let challenge = answer.headers[WWW_AUTHENTICATE].to_str().expect("text");
            assert!(challenge.contains("invalid_token"), "{challenge}");
        }
    }
    let token = log_in().await;
    let status = async || {
        place
            .ask(Some("0-9"), &token)
            .await
            .expect("an answer")
            .status
    };
    assert_eq!(status().await, 206);
    place.proxy.expire_tokens();
    assert_eq!(status().await, 401);
}

#[tokio::test]
async fn a_registry_leaves_and_is_back_where_it_was() {
    skip_unless!(machine::has_program("docker-registry"));
    let place = Place::new().await;
    place.befall(Fault::stall(10));
    let address = place.proxy.address();
    let hanging = place.ask(None, "");
    let leaving = async {
        while place
            .proxy
            .fetched()
            .first()
            .is_none_or(|one| one.sent() < 10)
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        place.proxy.leave();
    };
    let (cut, ()) = tokio::join!(hanging, leaving);
    cut.expect_err("the connection is still there");
    place.proxy.heal();
    for _ in 0..2 {
        let refused = tokio::net::TcpStream::connect(address).await;
        let refused = refused.expect_err("somebody listens").kind();
        assert_eq!(refused, std::io::ErrorKind::ConnectionRefused);
    }
    place.proxy.come_back();
    place.proxy.come_back();
    assert_eq!(place.proxy.address(), address);
    assert!(place.get("5-9").await.body == place.blob[5..10]);
}

#[tokio::test]
async fn all_connections_share_the_bandwidth() {
    skip_unless!(machine::has_program("docker-registry"));
    let place = Place::new().await;
    let all = || async {
        let start = Instant::now();
        let ask = || place.ask(None, "");
        let (a, b, c) = tokio::join!(ask(), ask(), place.get("0-199999"));
        for answer in [a.expect("an answer"), b.expect("an answer")] {
            assert!(answer.body == place.blob);
        }
        assert!(c.body == place.blob[..200_000]);
        start.elapsed()
    };
    // A million bytes in total.
    place.proxy.bandwidth(Some(2_000_000));
    let slow = all().await;
    let expected = Duration::from_millis(480)..Duration::from_millis(1500);
    assert!(expected.contains(&slow), "{slow:?}");
    place.proxy.bandwidth(None);
    let fast = all().await;
    assert!(fast < slow / 2, "{fast:?}, {slow:?}");
}
