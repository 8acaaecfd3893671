//! The browser, and the page that it shows.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use serde_json::{Value, json};

use super::console::LogEntry;
use super::driver::Driver;
use super::element::{self, Element};
use super::options::BrowserOptions;
use super::process::{self, DriverProcess};
use crate::machine;

/// A browser with a profile of its own; dropping it ends it and removes that. What can't be done is told by a
/// panic that says how the page looked.
#[derive(Debug)]
pub struct Browser {
    pub(super) driver: Driver,
    pub(super) logged: Mutex<Vec<LogEntry>>,
    /// How often what was loaded was given up for a change of networks.
    pub(super) interruptions: AtomicUsize,
    pub(super) options: Mutex<BrowserOptions>,
    pub(super) process: DriverProcess,
}

/// A cookie as the browser keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cookie {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The host that it is sent to.
    pub domain: String,
    /// The paths there.
    pub path: String,
    /// Whether it is kept from scripts.
    pub http_only: bool,
    /// Whether it is sent over TLS alone.
    pub secure: bool,
    /// `Strict`, `Lax` or `None`.
    pub same_site: String,
}

/// So often a page is loaded that networks interrupt.
const LOADS: u32 = 20;

impl Browser {
    /// Whether a browser can be started here.
    pub fn can_run() -> Result<(), String> {
        process::can_run()
    }

    /// Starts one, on an empty page.
    pub async fn start(options: BrowserOptions) -> Self {
        let chromium = machine::program("chromium").unwrap_or_else(|e| panic!("{e}"));
        let process = DriverProcess::start();
        let (chromium, profile) = (chromium.to_string_lossy(), process.profile());
        let asked = options.capabilities(&chromium, &profile.to_string_lossy());
        let driver = Driver::open(process.address(), asked).await;
        let driver = driver.unwrap_or_else(|e| {
            panic!("starting a browser: {e:#}; its log:\n{}", process.log());
        });
        let browser = Self {
            driver,
            logged: Mutex::default(),
            interruptions: AtomicUsize::new(0),
            options: Mutex::new(options),
            process,
        };
        let limit = 30_000 * machine::patience();
        let limits = json!({ "script": limit, "pageLoad": limit, "implicit": 0 });
        browser.post("/timeouts", limits).await;
        browser.emulate().await;
        browser
    }

    /// Goes to an address, and waits until its page has loaded.
    pub async fn open(&self, url: &str) {
        self.load("/url", json!({ "url": url })).await;
    }

    /// Loads the page again.
    pub async fn reload(&self) {
        self.load("/refresh", json!({})).await;
    }

    /// Loads a page, again where it was interrupted.
    async fn load(&self, path: &str, body: Value) {
        for _ in 0..LOADS {
            self.post(path, body.clone()).await;
            if !self.was_interrupted().await {
                return;
            }
        }
        panic!("{path} {body}: interrupted {LOADS} times");
    }

    /// Goes back to the page before.
    pub async fn back(&self) {
        self.post("/back", json!({})).await;
    }

    /// The address of the page.
    pub async fn url(&self) -> String {
        text(self.get("/url").await)
    }

    /// The title of the page.
    pub async fn title(&self) -> String {
        text(self.get("/title").await)
    }

    /// What the page shows as text.
    pub async fn text(&self) -> String {
        text(
            self.script("return document.body?.innerText ?? ''", &[])
                .await,
        )
    }

    /// Runs the body of a function in the page, and gives what it returns, also by a promise. The page's content
    /// security policy does not apply to it.
    pub async fn script(&self, body: &str, args: &[Value]) -> Value {
        self.post("/execute/sync", json!({ "script": body, "args": args }))
            .await
    }

    /// Runs the body of a function in the page, whose last argument is called with the result.
    pub async fn script_async(&self, body: &str, args: &[Value]) -> Value {
        self.post("/execute/async", json!({ "script": body, "args": args }))
            .await
    }

    /// The first element that a CSS selector finds.
    pub async fn find(&self, css: &str) -> Element<'_> {
        let found = self.post("/element", by_css(css)).await;
        element::new(self, css, &found)
    }

    /// All that it finds.
    pub async fn find_all(&self, css: &str) -> Vec<Element<'_>> {
        let found = self.post("/elements", by_css(css)).await;
        let found = found.as_array().map(Vec::as_slice).unwrap_or_default();
        found.iter().map(|it| element::new(self, css, it)).collect()
    }

    /// What has the keyboard's focus.
    pub async fn focused(&self) -> Element<'_> {
        let found = self.get("/element/active").await;
        element::new(self, ":focus", &found)
    }

    /// The cookies of the page.
    pub async fn cookies(&self) -> Vec<Cookie> {
        let all = self.get("/cookie").await;
        let all = all.as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
        let cookies = all.iter().map(|it| Cookie {
            name: text(it, "name"),
            value: text(it, "value"),
            domain: text(it, "domain"),
            path: text(it, "path"),
            http_only: it["httpOnly"] == true,
            secure: it["secure"] == true,
            same_site: text(it, "sameSite"),
        });
        cookies.collect()
    }

    /// Forgets the cookies of the page.
    pub async fn forget_cookies(&self) {
        let done = self.driver.delete("/cookie").await;
        self.done("/cookie", done).await;
    }

    /// A command of the Chrome DevTools Protocol, for what WebDriver has none.
    pub async fn devtools(&self, command: &str, params: Value) -> Value {
        let body = json!({ "cmd": command, "params": params });
        self.post("/goog/cdp/execute", body).await
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let done = self.driver.get(path).await;
        self.done(path, done).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Value {
        let what: String = format!("{path} {body}").chars().take(300).collect();
        let done = self.driver.post(path, body).await;
        self.done(&what, done).await
    }

    async fn done(&self, what: &str, done: anyhow::Result<Value>) -> Value {
        match done {
            Ok(value) => value,
            Err(error) => panic!("{what}: {error:#}\n{}", self.state().await),
        }
    }
}

fn by_css(css: &str) -> Value {
    json!({ "using": "css selector", "value": css })
}

pub(super) fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => panic!("no text: {other}"),
    }
}
