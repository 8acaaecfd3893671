//! Runs on orlop alone.

use super::*;
use crate::world::ours;

#[tokio::test]
async fn tokens_that_wear_out_are_renewed() {
    // containerd 1.6 asks for one token per pull and gives up when it expires.
    let behind = behind!(ours!());
    let login = Login::new("me", "word");
    behind.proxy.guard(Door::Bearer(TokenRules {
        login: Some(login.clone()),
        requests_per_token: Some(2),
        ..TokenRules::default()
    }));
    let refused = behind.pull().await;
    refused.expect_err("nobody gets a token without a password");
    let auth = Some(credentials(&login));
    let pulled = behind.world.cri.pull_as(&behind.reference, auth).await;
    let pulled = pulled.expect("pull");
    assert_eq!(pulled, behind.image.id());
    assert!(
        behind.proxy.count(Method::GET, "/token") + behind.proxy.count(Method::POST, "/token") >= 2
    );
    behind.world.finish().await;
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    // containerd 1.6 gives up on the first failed download.
    for fault in [
        Fault::Truncate { after: 50_000 },
        Fault::Disconnect,
        Fault::status(503),
        Fault::retry_after(429, 1),
    ] {
        let behind = behind!(ours!());
        behind
            .proxy
            .rule(Rule::on(behind.layer(), fault.clone()).times(2));
        let pulled = behind
            .pull()
            .await
            .unwrap_or_else(|e| panic!("{fault:?}: {e}"));
        assert_eq!(pulled, behind.image.id(), "{fault:?}");
        behind.world.finish().await;
    }
}

#[tokio::test]
async fn a_cut_download_goes_on_where_it_ended() {
    // containerd 1.6 gives up on the first failed download.
    let behind = behind!(ours!());
    behind
        .proxy
        .rule(Rule::on(behind.layer(), Fault::Truncate { after: 200_000 }).times(1));
    behind.pull().await.expect("pull");
    let ranges: Vec<_> = behind
        .proxy
        .seen()
        .iter()
        .filter(|seen| seen.path.contains(behind.layer()))
        .filter_map(|seen| seen.headers.get("range").cloned())
        .collect();
    let resumed = ranges.iter().any(|range| {
        range
            .to_str()
            .ok()
            .and_then(|range| {
                range
                    .strip_prefix("bytes=")?
                    .split('-')
                    .next()?
                    .parse()
                    .ok()
            })
            .is_some_and(|start: u64| start > 0)
    });
    assert!(resumed, "no request asked for the rest: {ranges:?}");
    behind.world.finish().await;
}

#[tokio::test]
async fn identical_pulls_fetch_once() {
    // containerd 1.6 resolves and locks per pull; it may fetch twice.
    let behind = behind!(ours!());
    behind.proxy.rule(Rule::on(
        behind.layer(),
        Fault::Slow {
            bytes_per_second: 1_000_000,
        },
    ));
    let pulls = (0..20).map(|_| behind.pull());
    for pulled in futures_util::future::join_all(pulls).await {
        assert_eq!(pulled.expect("pull"), behind.image.id());
    }
    assert_eq!(behind.proxy.count(Method::GET, behind.layer()), 1);
    behind.world.finish().await;
}

#[tokio::test]
async fn a_pull_goes_on_when_its_client_has_left() {
    // containerd 1.6 ends a pull with its client.
    let behind = behind!(ours!());
    behind.proxy.rule(Rule::on(
        behind.layer(),
        Fault::Slow {
            bytes_per_second: 1_000_000,
        },
    ));
    let mut images = behind.world.cri.images();
    let pull = images.pull_image(PullImageRequest {
        image: Some(ImageSpec {
            image: behind.reference.clone(),
            ..ImageSpec::default()
        }),
        ..PullImageRequest::default()
    });
    // A client that leaves before the pull has begun may end it: this one waits for its layer.
    let asked = async {
        while behind.proxy.count(Method::GET, behind.layer()) == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        pulled = pull => panic!("the pull ended before its layer was asked for: {pulled:?}"),
        () = asked => {}
    }
    assert!(
        behind.absent().await,
        "the layer came before its client left"
    );
    let waited = async {
        while behind.absent().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waited)
        .await
        .expect("the pull went on");
    behind.world.finish().await;
}
