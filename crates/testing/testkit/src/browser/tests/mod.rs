//! Tests of the browser on a small site.

mod ends;
mod pictures;
mod site;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::json;

use self::site::Site;
use super::key::{ENTER, ESCAPE, SHIFT, TAB};
use super::{Browser, BrowserOptions, Impact, LogLevel};
use crate::{Authority, TlsFront, machine, skip_unless};

const SOON: Duration = Duration::from_secs(10);

async fn browser() -> Browser {
    Browser::start(BrowserOptions::default()).await
}

#[tokio::test]
async fn a_page_is_used_by_mouse_and_by_keyboard() {
    skip_unless!(Browser::can_run());
    let (site, browser) = (Site::start(), browser().await);
    browser.open(&site.url("/good")).await;
    assert_eq!(browser.title().await, "Good");
    browser.find("#name").await.type_keys("Ann").await;
    browser.find("#second").await.click().await;
    let said = browser.find("#said").await;
    assert_eq!(said.text().await, "Second Ann");
    assert_eq!(said.role().await, "status");

    browser.reload().await;
    browser.keys(&format!("{TAB}Bo{TAB}{TAB}")).await;
    assert_eq!(browser.focused().await.text().await, "Second");
    browser.chord(&[SHIFT, TAB]).await;
    let focused = browser.focused().await;
    assert_eq!(focused.attribute("id").await.as_deref(), Some("first"));
    assert_eq!(focused.label().await, "First");
    browser.keys(&ENTER.to_string()).await;
    let said = browser
        .wait_until("document.getElementById('said').textContent", SOON)
        .await;
    assert_eq!(said, "First Bo");
    assert_eq!(browser.find_all("button").await.len(), 2);
    assert_eq!(browser.errors().await, []);
}

#[tokio::test]
async fn scripts_run_whatever_the_policy_of_the_page() {
    skip_unless!(Browser::can_run());
    let (site, browser) = (Site::start(), browser().await);
    browser.open(&site.url("/good")).await;
    let sum = browser
        .script("return arguments[0] + arguments[1]", &[json!(2), json!(3)])
        .await;
    assert_eq!(sum, 5);
    let late = "const done = arguments[1]; setTimeout(() => done(arguments[0]), 20)";
    assert_eq!(browser.script_async(late, &[json!("late")]).await, "late");
    let heading = browser.find("h1").await.as_argument();
    let text = browser
        .script("return arguments[0].textContent", &[heading])
        .await;
    assert_eq!(text, "Good");
    assert_eq!(browser.errors().await, []);
}

#[tokio::test]
async fn a_picture_has_the_size_that_was_asked_for() {
    skip_unless!(Browser::can_run());
    let site = Site::start();
    let browser = Browser::start(BrowserOptions {
        width: 360,
        height: 640,
        scale: 2.0,
        ..BrowserOptions::default()
    })
    .await;
    browser.open(&site.url("/good")).await;
    assert_eq!(size(&browser.screenshot().await), (720, 1280));
    let inner = "return [innerWidth, innerHeight, devicePixelRatio]";
    assert_eq!(browser.script(inner, &[]).await, json!([360, 640, 2]));
    browser.resize(1024, 300).await;
    assert_eq!(size(&browser.screenshot().await), (2048, 600));
    // For another site the browser starts another process.
    browser.open(&Site::start().url("/good")).await;
    assert_eq!(browser.script(inner, &[]).await, json!([1024, 300, 2]));
}

/// Reads the size from the first chunk of a PNG.
fn size(png: &[u8]) -> (u32, u32) {
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[tokio::test]
async fn dark_pages_are_preferred_where_that_is_asked() {
    skip_unless!(Browser::can_run());
    let site = Site::start();
    let browser = Browser::start(BrowserOptions {
        dark: true,
        ..BrowserOptions::default()
    })
    .await;
    browser.open(&site.url("/good")).await;
    let background = async || browser.find("body").await.style("background-color").await;
    assert_eq!(background().await, "rgba(16, 16, 16, 1)");
    browser.prefer_dark(false).await;
    assert_eq!(background().await, "rgba(255, 255, 255, 1)");
}

#[tokio::test]
async fn the_console_tells_of_broken_policies_and_of_scripts_that_fail() {
    skip_unless!(Browser::can_run());
    let (site, browser) = (Site::start(), browser().await);
    browser.open(&site.url("/bad")).await;
    assert_eq!(browser.title().await, "Bad");
    let errors = browser.errors().await;
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert_eq!(errors[0].source, "security");
    assert!(
        errors[0].message.contains("Content Security Policy"),
        "{errors:?}"
    );

    browser.open(&site.url("/good")).await;
    browser.keys(&ESCAPE.to_string()).await;
    browser.script("console.info('noted')", &[]).await;
    let entries = browser.console().await;
    let has = |level, text: &str| {
        let is = |it: &&super::LogEntry| it.level == level && it.message.contains(text);
        assert!(entries.iter().any(|it| is(&it)), "{text}: {entries:#?}");
    };
    has(LogLevel::Error, "planted");
    has(LogLevel::Info, "noted");
    has(LogLevel::Error, "Content Security Policy");
}

#[tokio::test]
async fn no_name_leads_off_the_machine() {
    skip_unless!(Browser::can_run());
    let site = Site::start();
    let browser = Browser::start(BrowserOptions {
        names: vec!["node.test".to_owned()],
        ..BrowserOptions::default()
    })
    .await;
    let url = format!("http://node.test:{}/good", site.address().port());
    browser.open(&url).await;
    assert_eq!(browser.find("#host").await.text().await, "node.test");
    assert_eq!(browser.url().await, url);
    let cookies = browser.cookies().await;
    assert_eq!(cookies.len(), 1, "{cookies:?}");
    assert_eq!((&*cookies[0].name, &*cookies[0].value), ("seen", "yes"));
    assert_eq!(cookies[0].domain, "node.test");
    assert!(cookies[0].http_only && !cookies[0].secure, "{cookies:?}");
    assert_eq!(cookies[0].same_site, "Strict");
    browser.forget_cookies().await;
    assert_eq!(browser.cookies().await, []);

    browser.chord(&[SHIFT, 'F']).await;
    let unresolved = async || {
        let errors = browser.errors().await;
        errors
            .iter()
            .any(|it| it.message.contains("ERR_NAME_NOT_RESOLVED"))
    };
    let tried = tokio::time::timeout(SOON, async {
        while !unresolved().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    tried.await.expect("the other host is not found");
}

#[tokio::test]
async fn a_certificate_of_nobody_is_taken_where_any_is() {
    skip_unless!(Browser::can_run());
    skip_unless!(machine::has_program("openssl"));
    let site = Site::start();
    let dir = tempfile::tempdir().expect("make a directory");
    let own = Authority::new(dir.path(), "nobody").issue("site", "IP:127.0.0.1");
    let front = TlsFront::before(site.address(), &own, None);
    let url = format!("https://{}/good", front.address());
    let browser = Browser::start(BrowserOptions {
        any_certificate: true,
        ..BrowserOptions::default()
    })
    .await;
    browser.open(&url).await;
    assert_eq!(browser.title().await, "Good");
    drop(browser);

    // The browser shows its own error page.
    let strict = self::browser().await;
    strict.open(&url).await;
    assert_ne!(strict.title().await, "Good");
    let said = strict.text().await;
    assert!(said.contains("ERR_CERT_AUTHORITY_INVALID"), "{said}");
}

#[tokio::test]
async fn what_does_not_come_is_told_with_the_page() {
    skip_unless!(Browser::can_run());
    let (site, browser) = (Site::start(), browser().await);
    browser.open(&site.url("/bad")).await;
    let waiting = browser.wait_for("#nowhere", Duration::from_millis(50));
    let waited = AssertUnwindSafe(waiting).catch_unwind().await;
    let panic = waited.expect_err("there is no such element");
    let said = panic.downcast_ref::<String>().expect("a message");
    for part in [
        "#nowhere",
        "50ms",
        "\"Bad\"",
        "/bad",
        "Content Security Policy",
    ] {
        assert!(said.contains(part), "no {part}: {said}");
    }
    let finding = AssertUnwindSafe(browser.find("#nowhere"))
        .catch_unwind()
        .await;
    let panic = finding.expect_err("there is no such element");
    let said = panic.downcast_ref::<String>().expect("a message");
    assert!(said.contains("no such element"), "{said}");
}

#[tokio::test]
async fn a_page_is_timed() {
    skip_unless!(Browser::can_run());
    let (site, browser) = (Site::start(), browser().await);
    browser.open(&site.url("/good")).await;
    browser
        .wait_until(
            "performance.getEntriesByName('first-contentful-paint').length",
            SOON,
        )
        .await;
    let timing = browser.performance().await;
    assert!(timing.first_byte > Duration::ZERO, "{timing:?}");
    assert!(
        timing.ready >= timing.first_byte && timing.loaded >= timing.ready,
        "{timing:?}"
    );
    let painted = timing.first_contentful_paint.expect("it is painted");
    assert!(painted >= timing.first_byte && painted < SOON, "{timing:?}");
    assert_eq!(timing.requests, 3, "{timing:?}");
    assert!((1000..10_000).contains(&timing.bytes), "{timing:?}");
}

#[tokio::test]
async fn axe_finds_what_is_wrong_with_a_page_and_nothing_with_a_good_one() {
    skip_unless!(Browser::can_run());
    skip_unless!(machine::axe().map(drop));
    let (site, browser) = (Site::start(), browser().await);
    browser.open(&site.url("/good")).await;
    let found = browser.axe().await;
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(browser.errors().await, []);

    browser.open(&site.url("/bad")).await;
    let found = browser.axe().await;
    let rules: Vec<_> = found.iter().map(|it| (&*it.rule, it.impact)).collect();
    assert_eq!(
        rules,
        [("image-alt", Impact::Critical), ("label", Impact::Critical)]
    );
    assert!(found.iter().all(super::Violation::is_serious));
    assert!(found[0].nodes[0].starts_with("img: "), "{found:#?}");
    assert!(found[1].to_string().contains("#nameless"), "{}", found[1]);
}
