//! Tests of the proxy's faults.

use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::header::AUTHORIZATION;
use hyper::{Method, Request, StatusCode};

use crate::http::{self, Answer};
use crate::proxy::{Door, Fault, FaultProxy, Rule, TokenRules};
use crate::registry::Login;

/// A proxy in front of a server that only has `/blob` with 100 kB.
fn pair() -> (FaultProxy, FaultProxy) {
    let origin = FaultProxy::alone();
    origin.rule(Rule::on(
        "/blob",
        Fault::content("application/octet-stream", content()),
    ));
    let proxy = FaultProxy::before(origin.address());
    (origin, proxy)
}

fn content() -> Vec<u8> {
    (0..100_000_u32).map(|n| n as u8).collect()
}

async fn get(
    proxy: &FaultProxy,
    path: &str,
    authorization: Option<&str>,
) -> anyhow::Result<Answer> {
    let mut request = Request::get(path);
    if let Some(value) = authorization {
        request = request.header(AUTHORIZATION, value);
    }
    http::send(proxy.address(), request.body(Full::default())?).await
}

#[tokio::test]
async fn without_rules_all_passes_and_is_counted() {
    let (origin, proxy) = pair();
    let answer = get(&proxy, "/v2/a/blob?x=1", None).await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body == content());
    assert_eq!(
        get(&proxy, "/other", None).await.expect("an answer").status,
        404
    );
    assert_eq!(proxy.count(Method::GET, "/blob"), 1);
    assert_eq!(proxy.seen()[1].status, 404);
    assert_eq!(origin.seen().len(), 2);
}

#[tokio::test]
async fn faults_befall_the_requests_they_are_for() {
    let (_origin, proxy) = pair();
    proxy.rule(
        Rule::on("/blob", Fault::retry_after(429, 7))
            .skip(1)
            .times(1),
    );
    proxy.rule(Rule::on("/blob", Fault::Disconnect).skip(1).times(1));
    assert_eq!(
        get(&proxy, "/blob", None)
            .await
            .expect("the first passes")
            .status,
        200
    );
    let second = get(&proxy, "/blob", None).await.expect("an answer");
    assert_eq!(second.status, 429);
    assert_eq!(second.headers["retry-after"], "7");
    let refused = get(&proxy, "/blob", None).await;
    refused.expect_err("the third is cut");
    assert_eq!(
        get(&proxy, "/blob", None)
            .await
            .expect("the fourth passes")
            .status,
        200
    );
}

#[tokio::test]
async fn bodies_are_cut_changed_stalled_and_slowed() {
    let (_origin, proxy) = pair();
    proxy.rule(Rule::on("/blob", Fault::Truncate { after: 10_000 }));
    let refused = get(&proxy, "/blob", None).await;
    refused.expect_err("the body ends early");

    proxy.heal();
    proxy.rule(Rule::on("/blob", Fault::Corrupt { offset: 5 }));
    let changed = get(&proxy, "/blob", None).await.expect("an answer").body;
    assert_eq!(changed.len(), 100_000);
    assert_eq!(
        changed
            .iter()
            .zip(content())
            .filter(|(a, b)| **a != *b)
            .count(),
        1
    );

    proxy.heal();
    let hold = Duration::from_millis(200);
    proxy.rule(Rule::on("/blob", Fault::Stall { after: 1000, hold }));
    let start = Instant::now();
    assert!(get(&proxy, "/blob", None).await.expect("an answer").body == content());
    assert!(start.elapsed() >= hold);

    proxy.heal();
    proxy.rule(Rule::on(
        "/blob",
        Fault::Slow {
            bytes_per_second: 500_000,
        },
    ));
    let start = Instant::now();
    assert!(get(&proxy, "/blob", None).await.expect("an answer").body == content());
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(180),
        "100 kB at 500 kB/s took {took:?}"
    );
}

#[tokio::test]
async fn a_password_is_asked_for_at_the_door() {
    let (_origin, proxy) = pair();
    let login = Login::new("me", "word");
    proxy.guard(Door::Basic(login.clone()));
    let refused = get(&proxy, "/blob", None).await.expect("an answer");
    assert_eq!(refused.status, 401);
    assert!(
        refused.headers["www-authenticate"]
            .as_bytes()
            .starts_with(b"Basic ")
    );
    let entered = get(&proxy, "/blob", Some(&login.basic()))
        .await
        .expect("an answer");
    assert_eq!(entered.status, 200);
}

#[tokio::test]
async fn tokens_are_for_one_repository_and_wear_out() {
    let (_origin, proxy) = pair();
    let login = Login::new("me", "word");
    let rules = TokenRules {
        login: Some(login.clone()),
        requests_per_token: Some(2),
        ..TokenRules::default()
    };
    proxy.guard(Door::Bearer(rules));
    let path = "/v2/team/app/blobs/blob";
    let refused = get(&proxy, path, None).await.expect("an answer");
    let challenge = refused.headers["www-authenticate"].to_str().expect("text");
    crate::assert_contains!(challenge, "scope=\"repository:team/app:pull\"");

    let ask = "/token?service=testkit&scope=repository%3Ateam%2Fapp%3Apull";
    assert_eq!(get(&proxy, ask, None).await.expect("an answer").status, 401);
    let issued = get(&proxy, ask, Some(&login.basic()))
        .await
        .expect("an answer");
    let issued: serde_json::Value = serde_json::from_slice(&issued.body).expect("JSON");
    let bearer = format!("Bearer {}", issued["token"].as_str().expect("a token"));

    let other = get(&proxy, "/v2/team/other/blobs/blob", Some(&bearer)).await;
    assert_eq!(
        other.expect("an answer").status,
        401,
        "the token is for another repository"
    );
    for expected in [200, 200, 401] {
        let answer = get(&proxy, path, Some(&bearer)).await.expect("an answer");
        assert_eq!(answer.status, expected);
    }
}
