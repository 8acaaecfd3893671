//! The page of `orlop web` in a real browser, on a real node.

use std::time::Duration;

use orlop_testkit::node::WebServer;
use orlop_testkit::{Browser, BrowserOptions, machine, skip_unless};
use serde_json::json;

use crate::world::{Running, World, world};

const SOON: Duration = Duration::from_secs(20);

/// The address of a view, once the browser has a session.
fn at(server: &WebServer, path: &str) -> String {
    let base = server.address.split("/?").next().expect("an address");
    format!("{base}{path}")
}

/// A browser that has come in by the token.
async fn visit(server: &WebServer) -> Browser {
    let browser = Browser::start(BrowserOptions::default()).await;
    browser.open(&server.address).await;
    live(&browser).await;
    browser
}

/// Waits until the page hears of the node.
async fn live(browser: &Browser) {
    browser.wait_for("#link.live", SOON).await;
}

/// Nothing that the page did was refused by its own policy, and no script failed.
async fn was_clean(browser: &Browser) {
    let errors = browser.errors().await;
    assert!(errors.is_empty(), "{errors:#?}");
}

async fn shows(browser: &Browser, words: &str) {
    let script = format!("document.body.innerText.includes({})", json!(words));
    browser.wait_until(&script, SOON).await;
}

async fn shows_no_more(browser: &Browser, words: &str) {
    let script = format!("!document.body.innerText.includes({})", json!(words));
    browser.wait_until(&script, SOON).await;
}

fn pod_path(running: &Running) -> String {
    format!("/pod/{}", running.pod_id)
}

/// Asserts that nothing went wrong on the page, and ends it all.
async fn leave(world: World, server: WebServer, browser: Browser) {
    was_clean(&browser).await;
    drop(browser);
    drop(server);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_come_and_crash_and_go_before_ones_eyes() {
    skip_unless!(Browser::can_run());
    let world = world!();
    let server = WebServer::start(&world.node.socket(), &[]);
    let browser = visit(&server).await;
    shows(&browser, "CPU").await;

    browser.open(&at(&server, "/pods")).await;
    live(&browser).await;
    shows(&browser, "0 pods").await;
    let lives = world
        .run_script("lives", "echo hello; exec sleep 600")
        .await;
    shows(&browser, "lives").await;
    shows(&browser, "running").await;
    let crashes = world.run_script("crashes", "exit 7").await;
    shows(&browser, "failing").await;
    shows(&browser, "2 pods").await;
    let figures = "[...document.querySelectorAll('.figure-cell span')]";
    let is_told = "(figure) => figure.textContent && figure.textContent !== '–'";
    // Processor and memory of both.
    let told = if world.node.tells_figures_of_what_has_ended() {
        4
    } else {
        2
    };
    let are_told = format!("{figures}.filter({is_told}).length === {told}");
    browser.wait_until(&are_told, SOON).await;

    let filter = browser.find("#filter").await;
    filter.type_keys("failing").await;
    shows(&browser, "1 pod, 1 filtered out").await;
    assert!(
        browser.url().await.ends_with("/pods?filter=failing"),
        "an address to share"
    );
    browser.reload().await;
    shows(&browser, "1 pod, 1 filtered out").await;

    browser.open(&at(&server, "/pods")).await;
    shows(&browser, "2 pods").await;
    let done = world.cri.remove_pod(&crashes.pod_id).await;
    done.expect("remove the pod");
    shows_no_more(&browser, "crashes").await;

    browser.find("a.to-pod").await.click().await;
    assert!(
        browser.url().await.ends_with(&pod_path(&lives)),
        "{}",
        browser.url().await
    );
    shows(&browser, "Container main").await;
    shows(&browser, &world.busybox).await;
    if !world.node.is_peer() {
        shows(&browser, "StartContainer main").await;
        shows(&browser, "clients waited").await;
    }
    browser.find("main p a.button").await.click().await;
    shows(&browser, "hello").await;

    browser.open(&at(&server, "/images")).await;
    shows(&browser, "busybox:1").await;
    shows(&browser, "/lives").await;
    for (view, words) in [
        ("/networks", "Networks"),
        ("/settings", "Status"),
        ("/", "Conditions"),
    ] {
        browser.open(&at(&server, view)).await;
        shows(&browser, words).await;
    }
    leave(world, server, browser).await;
}

/// What a pod's owner may write into names, values and logs.
const MARKUP: &str = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>";

#[tokio::test(flavor = "multi_thread")]
async fn markup_of_strangers_stays_text() {
    skip_unless!(Browser::can_run());
    let world = world!();
    let server = WebServer::start(&world.node.socket(), &["--show-environment"]);
    let mut pod = world.node.pod("hostile");
    pod = pod.label("words", MARKUP).annotation("words", MARKUP);
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").env("WORDS", MARKUP);
    let line = json!({ "level": "error", "msg": MARKUP, "<b>": MARKUP }).to_string();
    let spec = spec.shell(&format!("echo '{MARKUP}'; echo '{line}'; exec sleep 600"));
    let id = world.cri.run(&pod_id, &pod, &spec).await;
    let id = id.expect("run a container");

    let browser = visit(&server).await;
    let views = [
        (format!("/pod/{pod_id}"), "hostile"),
        (format!("/logs?container={id}"), "window.hacked"),
        ("/pods".to_owned(), "hostile"),
        ("/pods?group=owner".to_owned(), "hostile"),
    ];
    for (view, words) in &views {
        browser.open(&at(&server, view)).await;
        shows(&browser, words).await;
        if view.starts_with("/pod/") && world.node.tells_specifications() {
            browser
                .wait_until("document.querySelector('details button')", SOON)
                .await;
            let unfold = "
                document.querySelectorAll('details').forEach(one => one.open = true);
                document.querySelector('details button').click();
            ";
            browser.script(unfold, &[]).await;
            shows(&browser, "WORDS=<img").await;
        }
        if view.starts_with("/logs") {
            browser.wait_for(".line.level-error", SOON).await;
            browser
                .script("document.querySelector('.line.level-error').click()", &[])
                .await;
            browser.wait_for(".detail .leaf", SOON).await;
        }
        let made = browser.script("return [window.hacked ?? null, document.querySelectorAll('main img, main script, main b').length]", &[]).await;
        assert_eq!(made, json!([null, 0]), "{view}");
    }
    leave(world, server, browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_can_use_it() {
    skip_unless!(Browser::can_run());
    skip_unless!(machine::axe().map(drop));
    let world = world!();
    let server = WebServer::start(&world.node.socket(), &[]);
    let running = world
        .run_script(
            "lives",
            "echo hello; echo '{\"level\":\"warn\",\"msg\":\"json\"}'; exec sleep 600",
        )
        .await;
    let browser = visit(&server).await;
    let views = [
        "/".to_owned(),
        "/pods".to_owned(),
        "/pods?group=namespace".to_owned(),
        pod_path(&running),
        format!("/logs?container={}", running.id),
        "/logs".to_owned(),
        "/images".to_owned(),
        "/networks".to_owned(),
        "/settings".to_owned(),
    ];
    for dark in [false, true] {
        browser.prefer_dark(dark).await;
        for view in &views {
            browser.open(&at(&server, view)).await;
            live(&browser).await;
            let found = browser.axe().await;
            let grave: Vec<_> = found.iter().filter(|one| one.is_serious()).collect();
            assert!(grave.is_empty(), "{view}, dark: {dark}: {grave:#?}");
        }
    }
    for view in &views {
        browser.open(&at(&server, view)).await;
        live(&browser).await;
        for width in [360, 414, 600, 768, 1024, 1280, 1920, 2560, 3840] {
            browser.resize(width, 740).await;
            let sizes = browser.script("const page = document.documentElement; return [page.scrollWidth, page.clientWidth]", &[]).await;
            assert!(
                sizes[0].as_u64() <= sizes[1].as_u64(),
                "{view} at {width}: {sizes}"
            );
        }
    }

    // By keys alone: to the pods, to the first of them, into it.
    browser.resize(1280, 800).await;
    browser.open(&at(&server, "/")).await;
    live(&browser).await;
    browser.keys("2").await;
    browser.wait_for("a.to-pod", SOON).await;
    browser.keys("j").await;
    assert_eq!(browser.focused().await.text().await, "lives");
    browser.keys("\u{e007}").await;
    shows(&browser, "Container main").await;
    assert_eq!(
        browser.focused().await.property("tagName").await,
        json!("H1"),
        "a reader is told of a new view"
    );
    leave(world, server, browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_lines_do_not_stutter() {
    skip_unless!(Browser::can_run());
    let world = world!();
    let server = WebServer::start(&world.node.socket(), &[]);
    let running = world
        .run_script("talks", "seq 100000; echo needle; exec sleep 600")
        .await;
    let browser = visit(&server).await;
    browser
        .open(&at(
            &server,
            &format!("/logs?container={}&tail=100000", running.id),
        ))
        .await;
    let read = "/^100000 lines/.test(document.querySelector('.tally').textContent)";
    browser.wait_until(read, 3 * SOON).await;
    shows(&browser, "needle").await;

    // The longest time between two pictures, while the list is drawn through from end to end.
    let scroll = "
        const log = document.querySelector('.log');
        let last = performance.now(), longest = 0;
        for (let step = 0; step <= 60; step += 1) {
            log.scrollTop = log.scrollHeight * (1 - step / 60);
            await new Promise(requestAnimationFrame);
            const now = performance.now();
            longest = Math.max(longest, now - last);
            last = now;
        }
        return [longest, log.querySelector('.line:not([hidden]) .words').textContent, document.querySelectorAll('.line').length];
    ";
    let told = browser
        .script(&format!("return (async () => {{ {scroll} }})()"), &[])
        .await;
    let longest = told[0].as_f64().expect("a time");
    assert!(longest < 250.0 * f64::from(machine::patience()), "{told}");
    assert!(
        told[2].as_u64() < Some(200),
        "only what is seen has elements: {told}"
    );

    browser.find("#search").await.type_keys("/^9{3,}/").await;
    shows(&browser, "111 of 100").await;
    leave(world, server, browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_there_at_once_and_says_when_the_node_is_not() {
    skip_unless!(Browser::can_run());
    let mut world = world!();
    let server = WebServer::start(&world.node.socket(), &[]);
    let browser = visit(&server).await;
    let mut paints = Vec::new();
    for _ in 0..5 {
        browser.open(&at(&server, "/pods")).await;
        live(&browser).await;
        paints.push(
            browser
                .performance()
                .await
                .first_paint
                .expect("it was painted"),
        );
    }
    let best = paints.iter().min().expect("five");
    assert!(*best <= Duration::from_millis(200), "{paints:?}");

    was_clean(&browser).await;

    // No token, no page.
    browser.forget_cookies().await;
    browser.open(&at(&server, "/pods")).await;
    shows(&browser, "token").await;
    assert_eq!(browser.find_all("#views").await.len(), 0);
    browser.open(&server.address).await;
    live(&browser).await;
    assert!(
        !browser.url().await.contains("token"),
        "the token is no part of addresses that are shared"
    );

    if !world.node.is_peer() {
        world.node.kill9();
        browser.wait_for("#link.gone", SOON).await;
        world.node.start_again().await;
        live(&browser).await;
    }
    drop(browser);
    drop(server);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_pods_do_not_freeze_the_page() {
    skip_unless!(Browser::can_run());
    let world = world!();
    let server = WebServer::start(&world.node.socket(), &[]);
    let browser = visit(&server).await;
    browser.open(&at(&server, "/pods?group=namespace")).await;
    shows(&browser, "0 pods").await;

    // The page's own store takes them, as from the server; then something changes, again and again.
    let feed = "
        const { take } = await import('/app/store.js');
        const frame = () => new Promise(requestAnimationFrame);
        const container = n => ({ id: `c${n}`, name: 'main', image: 'busybox', state: 'running', attempt: 0, created: 1 });
        const pods = Array.from({ length: 1000 }, (_, n) => ({
            id: `p${n}`, name: `pod-${n}`, namespace: `space-${n % 7}`, state: 'ready', created: 1, labels: {},
            containers: [container(n)],
        }));
        take('pods', { pods });
        await frame();
        await frame();
        const times = [];
        for (let round = 0; round < 10; round += 1) {
            const begun = performance.now();
            pods[round].containers[0].state = 'exited';
            take('pods', { pods });
            const used = Object.fromEntries(pods.map(({ id }, n) => [id, [n / 1000 + round, n << 20, n, n]]));
            take('usage', { time: Date.now(), node: {}, pods: used });
            await frame();
            await frame();
            times.push(performance.now() - begun);
        }
        return [times.sort((one, other) => one - other)[times.length / 2], document.querySelectorAll('a.to-pod').length];
    ";
    let told = browser
        .script(&format!("return (async () => {{ {feed} }})()"), &[])
        .await;
    assert_eq!(told[1], json!(1000), "{told}");
    // The middle one: others than the page take a moment, too.
    let usual = told[0].as_f64().expect("a time");
    assert!(
        usual < 1000.0 * f64::from(machine::patience()),
        "{told}: a change takes that many milliseconds"
    );
    leave(world, server, browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_makes_no_sense_is_a_page_all_the_same() {
    skip_unless!(Browser::can_run());
    let world = world!();
    let server = WebServer::start(&world.node.socket(), &[]);
    let browser = visit(&server).await;
    let addresses = [
        "/constructor",
        "/pod/%",
        "/pods?group=toString&sort=valueOf",
        "/logs?search=/[/",
    ];
    for address in addresses {
        browser.open(&at(&server, address)).await;
        live(&browser).await;
        browser.wait_for("main h1", SOON).await;
    }
    let scripts = browser.errors().await;
    let scripts: Vec<_> = scripts
        .iter()
        .filter(|entry| entry.source == "javascript")
        .collect();
    assert!(scripts.is_empty(), "{scripts:#?}");
    drop(browser);
    drop(server);
    world.finish().await;
}
