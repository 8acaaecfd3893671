//! What the page has written to its console, and what the browser has to say about it.

use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::page::Browser;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// `console.debug`.
    Debug,
    /// `console.log` and `console.info`.
    Info,
    /// `console.warn`, and what the browser advises against.
    Warning,
    /// `console.error`, a script that failed, a request that failed, a violation of the policy.
    Error,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// How bad it is.
    pub level: LogLevel,
    /// Who tells: `console-api`, `javascript`, `network`, `security`…
    pub source: String,
    /// Where, and what.
    pub message: String,
}

impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}): {}", self.level, self.source, self.message)
    }
}

const NETWORK_CHANGED: &str = "net::ERR_NETWORK_CHANGED";

impl Browser {
    /// All entries since the browser's start.
    pub async fn console(&self) -> Vec<LogEntry> {
        let new = self.post("/se/log", json!({ "type": "browser" })).await;
        self.keep(&new)
    }

    /// Those that are errors: a page without any has broken no policy and no script of it has failed.
    pub async fn errors(&self) -> Vec<LogEntry> {
        let mut all = self.console().await;
        all.retain(|entry| entry.level == LogLevel::Error);
        all
    }

    /// The entries so far, if they can be had: for messages about failures.
    pub(super) async fn console_if_any(&self) -> Vec<LogEntry> {
        let body = json!({ "type": "browser" });
        let new = self.driver.post("/se/log", body).await;
        self.keep(&new.unwrap_or_default())
    }

    /// The driver tells each once.
    fn keep(&self, new: &Value) -> Vec<LogEntry> {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let new = new.as_array().map(Vec::as_slice).unwrap_or_default();
        let (lost, new): (Vec<_>, Vec<_>) = new
            .iter()
            .map(entry)
            .partition(|entry| entry.message.contains(NETWORK_CHANGED));
        self.interruptions.fetch_add(lost.len(), Ordering::Relaxed);
        logged.extend(new);
        logged.clone()
    }

    /// Whether the browser has given up what it loaded, since a network of the machine has come or gone: it does so
    /// for loopback, too, and pods of other tests have networks. No page is to blame for that.
    pub(super) async fn was_interrupted(&self) -> bool {
        self.console_if_any().await;
        let url = self.script("return document.URL", &[]).await;
        let is_error_page = url
            .as_str()
            .is_some_and(|url| url.starts_with("chrome-error:"));
        let text = if is_error_page {
            self.text().await
        } else {
            String::new()
        };
        self.interruptions.swap(0, Ordering::Relaxed) > 0 || text.contains("ERR_NETWORK_CHANGED")
    }
}

fn entry(said: &Value) -> LogEntry {
    let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    LogEntry {
        level: match said["level"].as_str() {
            Some("SEVERE") => LogLevel::Error,
            Some("WARNING") => LogLevel::Warning,
            Some("DEBUG") => LogLevel::Debug,
            _ => LogLevel::Info,
        },
        source: text("source"),
        message: text("message"),
    }
}
