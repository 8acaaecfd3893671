//! The browser console: messages of the page and of the browser.

use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::page::Browser;

/// Severity of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// `console.debug`.
    Debug,
    /// `console.log` and `console.info`.
    Info,
    /// `console.warn`, and warnings of the browser.
    Warning,
    /// `console.error`, a failed script or request, a violation of the content security policy.
    Error,
}

/// A console entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Severity.
    pub level: LogLevel,
    /// Source: `console-api`, `javascript`, `network`, `security`…
    pub source: String,
    /// Location and message.
    pub message: String,
}

impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}): {}", self.level, self.source, self.message)
    }
}

const NETWORK_CHANGED: &str = "net::ERR_NETWORK_CHANGED";

impl Browser {
    /// Returns all entries since the start of the browser.
    pub async fn console(&self) -> Vec<LogEntry> {
        let new = self.post("/se/log", json!({ "type": "browser" })).await;
        self.keep(&new)
    }

    /// Returns the errors. If there are none, no script failed and no policy was violated.
    pub async fn errors(&self) -> Vec<LogEntry> {
        let mut all = self.console().await;
        all.retain(|entry| entry.level == LogLevel::Error);
        all
    }

    /// Returns the entries so far if available, for failure messages.
    pub(super) async fn console_if_any(&self) -> Vec<LogEntry> {
        let body = json!({ "type": "browser" });
        let new = self.driver.post("/se/log", body).await;
        self.keep(&new.unwrap_or_default())
    }

    /// Keeps new entries, as the driver reports each only once.
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

    /// Returns whether the browser aborted a load because a network interface appeared or disappeared. It does so even
    /// for loopback, and pods of other tests create interfaces. The page is not at fault.
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
