//! What a page costs, open and closed.

use std::time::Duration;

use orlop_testkit::{machine, process};
use tokio::time::{Instant, sleep, timeout};

use crate::world::{visit, world};

const PODS: usize = 100;

/// Logs that are followed at a time.
const LOGS: usize = 8;

/// How long is measured.
const WHILE: Duration = Duration::from_secs(20);

/// Processor time of a process, in seconds (proc(5): ticks of a hundredth).
fn processor(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit_once(')').unwrap().1;
    let ticks =
        |place: usize| -> f64 { rest.split_whitespace().nth(place).unwrap().parse().unwrap() };
    (ticks(11) + ticks(12)) / 100.0
}

#[tokio::test]
async fn an_open_page_of_a_hundred_pods_costs_little_and_a_closed_one_nothing() {
    let world = world!();
    let mut containers = Vec::new();
    for number in 0..PODS {
        let pod = world.node.pod(&format!("pod-{number}"));
        let (_, container) = world.run(&pod, &world.script("sleep 1000")).await;
        containers.push(container);
    }
    let page = world.page(&[]);
    let (server, daemon) = (page.pid(), world.node.pid());
    let browser = visit(&page).await;
    sleep(Duration::from_secs(2)).await;
    let closed = (processor(server), processor(daemon));
    let memory = process::memory(server, "RssAnon:");
    sleep(WHILE / 2).await;
    let idle = processor(server) - closed.0;
    let idle_daemon = (processor(daemon) - closed.1) / (WHILE / 2).as_secs_f64();
    assert!(idle < 0.02, "a closed page: {idle} s");

    let mut events = browser.events("/api/live").await;
    let pods = events.next_of("pods").await;
    assert_eq!(pods["pods"].as_array().unwrap().len(), PODS);
    events.next_of("usage").await;
    let (begin, before) = (Instant::now(), (processor(server), processor(daemon)));
    while begin.elapsed() < WHILE {
        let _ = timeout(Duration::from_millis(100), events.next()).await;
    }
    let of = |now: f64, before: f64| 100.0 * (now - before) / begin.elapsed().as_secs_f64();
    let of_server = of(processor(server), before.0);
    let of_daemon = of(processor(daemon), before.1) - 100.0 * idle_daemon;
    let more = process::memory(server, "RssAnon:").saturating_sub(memory);
    println!(
        "of a core: the page's server {of_server:.2} %, the daemon for it {of_daemon:.2} %; {more} kB"
    );
    // One that is not optimised takes ten times as long.
    let scale = if orlop_testkit::node::is_release() {
        1.0
    } else {
        10.0
    };
    let patience = f64::from(machine::patience());
    assert!(
        of_server + of_daemon < scale * patience,
        "{of_server} % and {of_daemon} % of a core"
    );
    assert!(more < 5 << 10, "{more} kB");
    let log = |container| format!("/api/logs?container={container}");
    let mut followed = Vec::new();
    for container in &containers[..LOGS] {
        let mut events = browser.events(&log(container)).await;
        events.next_of("caught").await;
        followed.push(events);
    }
    let (status, refused) = browser.get(&log(&containers[LOGS])).await;
    assert_eq!(status, 503, "one log more: {refused}");
    drop((events, followed));
    // One that is loaded again has its history for so long.
    sleep(Duration::from_secs(32)).await;
    let closed = processor(server);
    sleep(WHILE / 4).await;
    let idle = processor(server) - closed;
    assert!(idle < 0.02, "a page that was closed: {idle} s");
    drop(page);
    world.finish().await;
}
