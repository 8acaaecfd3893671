//! The page that the daemon serves itself.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use orlop_testkit::{Node, assert_contains, machine, skip_unless};
use rustix::process::Signal;

use crate::browser::Browser;

/// The address in a file that only root reads, once it is another one.
async fn address(file: &Path, before: &str) -> String {
    for _ in 0..500 {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.ends_with('\n') && text.trim() != before {
            let mode = std::fs::metadata(file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            return text.trim().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no new address in {}", file.display());
}

#[tokio::test]
async fn the_daemon_serves_a_page_and_moves_it_at_a_reload() {
    skip_unless!(machine::can_run_pods());
    let config = "[web]\nlisten = \"127.0.0.1:0\"\n";
    let mut node = Node::orlop().config(config).start().await;
    let file = node.state().join("web.url");
    let first = address(&file, "").await;
    let browser = Browser::open(&first).await;
    let hello = browser.events("/api/live").await.next_of("hello").await;
    assert_eq!(hello["runtime"]["name"], "orlop");
    let settings = browser.document("/api/settings").await;
    let text = settings["text"].as_str().unwrap();
    assert_contains!(text, "[web]\nlisten = \"tcp://127.0.0.1:0\"");

    let path = node.scratch().path("config.toml");
    std::fs::write(
        &path,
        config.replace(":0", ":00") + "names = [\"node.example\"]\n",
    )
    .unwrap();
    node.signal(Signal::HUP);
    let second = address(&file, &first).await;
    let token = |address: &str| address.split("token=").nth(1).unwrap().to_owned();
    assert_ne!(token(&first), token(&second));
    Browser::open(&second).await.document("/api/settings").await;

    std::fs::write(&path, "").unwrap();
    node.signal(Signal::HUP);
    for _ in 0..500 {
        if !file.exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!file.exists(), "the page is gone, and its address with it");
    let host = second
        .strip_prefix("http://")
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    std::net::TcpStream::connect(host).unwrap_err();
    node.finish().await;
}

/// Waits until the daemon's log has so many of these words.
async fn said(node: &Node, words: &str, times: usize) {
    for _ in 0..500 {
        if node.log().matches(words).count() >= times {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the daemon does not say {words:?}: {}", node.log());
}

#[tokio::test]
async fn a_page_that_cannot_move_stays_where_it_is_and_the_reload_is_refused() {
    skip_unless!(machine::can_run_pods());
    let config = "[web]\nlisten = \"127.0.0.1:0\"\n";
    let mut node = Node::orlop().config(config).start().await;
    let file = node.state().join("web.url");
    let first = address(&file, "").await;
    let browser = Browser::open(&first).await;
    let path = node.scratch().path("config.toml");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let elsewhere = format!("[web]\nlisten = \"{}\"\n", taken.local_addr().unwrap());
    std::fs::write(&path, elsewhere).unwrap();
    node.signal(Signal::HUP);
    let refused = "keeping the old configuration";
    said(&node, refused, 1).await;
    assert_eq!(address(&file, "").await, first);
    browser.document("/api/settings").await;

    // Nothing can be written where its address is written first.
    let draft = node.state().join(".web.url.new");
    std::fs::create_dir(&draft).unwrap();
    let names = config.to_owned() + "names = [\"node.example\"]\n";
    std::fs::write(&path, &names).unwrap();
    node.signal(Signal::HUP);
    said(&node, refused, 2).await;
    assert_eq!(address(&file, "").await, first);
    let settings = browser.document("/api/settings").await;
    assert!(!settings["text"].as_str().unwrap().contains("node.example"));

    std::fs::remove_dir(&draft).unwrap();
    node.signal(Signal::HUP);
    let second = address(&file, &first).await;
    Browser::open(&second).await.document("/api/settings").await;
    node.finish().await;
}
