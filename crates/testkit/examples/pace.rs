//! Times of a pod's calls, of orlop alone.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::large_futures
)]
use orlop_cri::inspection::ListTracesRequest;
use orlop_cri::inspection::inspection_client::InspectionClient;
use orlop_testkit::{ContainerSpec, ImageBuilder, Node, Registry, node};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn main() {
    let rounds: usize = std::env::args()
        .nth(1)
        .and_then(|w| w.parse().ok())
        .unwrap_or(40);
    let mode = std::env::args().nth(2).unwrap_or_default();
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    reactor.block_on(run(rounds, mode));
}

async fn run(rounds: usize, mode: String) {
    let registry = Registry::start();
    let image = registry
        .push(&ImageBuilder::busybox().build(), "busybox:1")
        .await;
    let own = node::run_binary().display().to_string();
    let node = Node::orlop().runtime(&own).start().await;
    let cri = node.cri().await;
    cri.pull(&image).await.unwrap();
    println!("pid of daemon: {:?}", node.state());
    let spec = ContainerSpec::new("main", &image).command(&["sleep", "1000"]);
    if mode == "wait" {
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for round in 0..=rounds {
        let mut laps: Vec<(String, Duration)> = Vec::new();
        let pod = node.pod(&format!("pace-{round}")).own_network();
        for _ in 0..3 {
            let t = Instant::now();
            cri.version().await.unwrap();
            laps.push(("0 version".into(), t.elapsed()));
        }
        let mut last = Instant::now();
        let begin = last;
        let mut lap = |name: &str, laps: &mut Vec<(String, Duration)>| {
            laps.push((name.into(), last.elapsed()));
            last = Instant::now();
        };
        let id = cri.run_pod(&pod).await.unwrap();
        lap("1 run", &mut laps);
        let c = cri.create(&id, &pod, &spec).await.unwrap();
        lap("2 create", &mut laps);
        cri.start(&c).await.unwrap();
        lap("3 start", &mut laps);
        let up = begin.elapsed();
        laps.push(("4 UP".into(), up));
        cri.exec(&c, &["true"]).await.unwrap();
        lap("5 exec", &mut laps);
        let request = ListTracesRequest {
            pod_sandbox_id: id.clone(),
            ..Default::default()
        };
        let answer = InspectionClient::new(cri.channel())
            .list_traces(request)
            .await
            .unwrap();
        for trace in &answer.into_inner().traces {
            for call in &trace.calls {
                for step in &call.steps {
                    laps.push((
                        format!("t {}/{}", call.name, step.name),
                        Duration::from_micros(step.took_us),
                    ));
                }
            }
        }
        lap("x", &mut laps);
        let begin = Instant::now();
        cri.stop(&c, 0).await.unwrap();
        lap("6 stop", &mut laps);
        cri.remove(&c).await.unwrap();
        lap("7 remove", &mut laps);
        cri.stop_pod(&id).await.unwrap();
        lap("8 stop_pod", &mut laps);
        cri.remove_pod(&id).await.unwrap();
        lap("9 remove_pod", &mut laps);
        laps.push(("9z DOWN".into(), begin.elapsed()));
        if round > 0 {
            for (n, d) in laps {
                if n != "x" {
                    all.entry(n).or_default().push(d.as_secs_f64() * 1000.0);
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    for (name, mut v) in all {
        v.sort_by(f64::total_cmp);
        println!(
            "{name:40} min {:6.2}  p25 {:6.2}  med {:6.2}  n {}",
            v[0],
            v[v.len() / 4],
            v[v.len() / 2],
            v.len()
        );
    }
    node.finish().await;
}
