//! The browser and its current page.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use serde_json::{Value, json};

use super::console::LogEntry;
use super::driver::Driver;
use super::element::{self, Element};
use super::options::BrowserOptions;
use super::process::{self, DriverProcess};
use crate::machine;

/// A browser with its own profile. Dropping it stops the browser and removes the profile. Its methods panic on a
/// failure and describe the page.
#[derive(Debug)]
pub struct Browser {
    pub(super) driver: Driver,
    pub(super) logged: Mutex<Vec<LogEntry>>,
    /// Number of loads that were aborted by changes of network interfaces.
    pub(super) interruptions: AtomicUsize,
    pub(super) options: Mutex<BrowserOptions>,
    pub(super) process: DriverProcess,
}

/// A cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cookie {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Host that it is sent to.
    pub domain: String,
    /// Path on the host.
    pub path: String,
    /// Whether scripts cannot read it.
    pub http_only: bool,
    /// Whether it is sent over TLS only.
    pub secure: bool,
    /// `Strict`, `Lax` or `None`.
    pub same_site: String,
}

/// Number of attempts to load a page that network changes interrupt.
const LOADS: u32 = 20;

impl Browser {
    /// Checks whether a browser can be started here.
    pub fn can_run() -> Result<(), String> {
        process::can_run()
    }

    /// Starts a browser on an empty page.
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

    /// Opens a URL, and waits until the page has loaded.
    pub async fn open(&self, url: &str) {
        self.load("/url", json!({ "url": url })).await;
    }

    /// Reloads the page.
    pub async fn reload(&self) {
        self.load("/refresh", json!({})).await;
    }

    /// Loads a page, with retries if the load is interrupted.
    async fn load(&self, path: &str, body: Value) {
        for _ in 0..LOADS {
            self.post(path, body.clone()).await;
            if !self.was_interrupted().await {
                return;
            }
        }
        panic!("{path} {body}: interrupted {LOADS} times");
    }

    /// Goes back to the previous page.
    pub async fn back(&self) {
        self.post("/back", json!({})).await;
    }

    /// Returns the URL of the page.
    pub async fn url(&self) -> String {
        text(self.get("/url").await)
    }

    /// Returns the title of the page.
    pub async fn title(&self) -> String {
        text(self.get("/title").await)
    }

    /// Returns the visible text of the page.
    pub async fn text(&self) -> String {
        text(
            self.script("return document.body?.innerText ?? ''", &[])
                .await,
        )
    }

    /// Runs a function body in the page and returns its result or that of its promise. The page's content security
    /// policy does not apply to it.
    pub async fn script(&self, body: &str, args: &[Value]) -> Value {
        self.post("/execute/sync", json!({ "script": body, "args": args }))
            .await
    }

    /// Runs a function body in the page, whose last argument is a callback for the result.
    pub async fn script_async(&self, body: &str, args: &[Value]) -> Value {
        self.post("/execute/async", json!({ "script": body, "args": args }))
            .await
    }

    /// Returns the first element that matches a CSS selector.
    pub async fn find(&self, css: &str) -> Element<'_> {
        let found = self.post("/element", by_css(css)).await;
        element::new(self, css, &found)
    }

    /// Returns all elements that match a CSS selector.
    pub async fn find_all(&self, css: &str) -> Vec<Element<'_>> {
        let found = self.post("/elements", by_css(css)).await;
        let found = found.as_array().map(Vec::as_slice).unwrap_or_default();
        found.iter().map(|it| element::new(self, css, it)).collect()
    }

    /// Returns the focused element.
    pub async fn focused(&self) -> Element<'_> {
        let found = self.get("/element/active").await;
        element::new(self, ":focus", &found)
    }

    /// Returns the cookies of the page.
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

    /// Deletes the cookies of the page.
    pub async fn forget_cookies(&self) {
        let done = self.driver.delete("/cookie").await;
        self.done("/cookie", done).await;
    }

    /// Runs a command of the Chrome DevTools Protocol, for features that WebDriver lacks.
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
