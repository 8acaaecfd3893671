//! Manifests from a URL and from the standard input.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::world::{container_ids, world};

/// What a server of manifests says, and what it was last asked.
#[derive(Default)]
struct Page {
    status: u16,
    text: String,
    asked: String,
}

/// Serves a page until the test ends.
fn serve(page: &Arc<Mutex<Page>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let page = Arc::clone(page);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap_or(0);
            let mut page = page.lock().unwrap();
            page.asked = String::from_utf8_lossy(&head[..length]).to_lowercase();
            let _ = write!(
                stream,
                "HTTP/1.1 {} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                page.status,
                page.text.len(),
                page.text
            );
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_gives_pods_and_keeps_them_while_it_is_down() {
    let world = world!();
    let both = format!(
        "{}---\n{}",
        world.sleeper("one", "hostNetwork: true", ""),
        world.sleeper("two", "hostNetwork: true", "")
    );
    let page = Arc::new(Mutex::new(Page {
        status: 200,
        text: both,
        ..Page::default()
    }));
    let url = format!("http://{}/pods.yaml", serve(&page));
    let mut agent = world.bare_agent(&[
        "--manifest-url",
        &url,
        "--manifest-url-header=X-Node: n1",
        "--http-check-frequency=200ms",
    ]);
    let one = agent.ready("one-n1").await;
    assert_eq!(
        one["metadata"]["annotations"]["kubernetes.io/config.source"],
        "http"
    );
    agent.ready("two-n1").await;
    let asked = page.lock().unwrap().asked.clone();
    assert!(
        asked.starts_with("get /pods.yaml ") && asked.contains("x-node: n1"),
        "{asked}"
    );

    page.lock().unwrap().status = 500;
    agent.remark(&["500"]).await;
    page.lock().unwrap().text.clear();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = agent.pod("one-n1").unwrap();
    assert_eq!(container_ids(&again), container_ids(&one));

    {
        let mut page = page.lock().unwrap();
        page.status = 200;
        page.text = world.sleeper("one", "hostNetwork: true", "");
    }
    agent.gone("two-n1").await;
    let again = agent.pod("one-n1").unwrap();
    assert_eq!(container_ids(&again), container_ids(&one));
    assert_eq!(agent.remarks(), Vec::<String>::new());

    page.lock().unwrap().text = world.sleeper("three", "hostNetwork: true", "");
    agent.ready("three-n1").await;
    agent.gone("one-n1").await;
    page.lock().unwrap().text = "apiVersion: v1\nkind: PodList\nitems: []\n".to_owned();
    agent.gone("three-n1").await;
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standard_input_gives_pods() {
    let world = world!();
    let path = world.node.scratch().path("pods.yaml");
    let good = world.sleeper("good", "hostNetwork: true", "");
    fs::write(&path, format!("{good}---\nkind: Pod\n  oops\n")).unwrap();
    let input = Stdio::from(File::open(&path).unwrap());
    let mut agent = world.agent_reading(input, &["--pod-manifest-path=-", "--at-end=stop"]);
    agent.ready("good-n1").await;
    agent.remark(&["error"]).await;
    agent.stop();
    for id in world.cri.containers().await.unwrap() {
        let status = world.cri.status(&id).await.unwrap();
        assert_eq!(status.state, 2, "CONTAINER_EXITED");
    }
    // Nobody says it again to the next agent.
    let mut agent = world.agent(&[]);
    agent.gone("good-n1").await;
    agent.finish(&world).await;
    world.finish().await;
}
