//! Options of a browser.

use serde_json::{Value, json};

/// Window size and preferences of a browser.
#[derive(Debug, Clone)]
pub struct BrowserOptions {
    /// Width of the page in CSS pixels.
    pub width: u32,
    /// Height of the page in CSS pixels.
    pub height: u32,
    /// Device pixels per CSS pixel.
    pub scale: f64,
    /// Whether to prefer the dark colour scheme.
    pub dark: bool,
    /// Whether to accept any server certificate.
    pub any_certificate: bool,
    /// Host names that resolve to 127.0.0.1. No other name resolves.
    pub names: Vec<String>,
}

impl Default for BrowserOptions {
    fn default() -> Self {
        Self {
            width: 1280,
            height: 800,
            scale: 1.0,
            dark: false,
            any_certificate: false,
            names: Vec::new(),
        }
    }
}

/// Flags: root has no sandbox, and background activity disturbs tests.
const FLAGS: &[&str] = &[
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--password-store=basic",
    "--force-color-profile=srgb",
    "--lang=en-US",
];

impl BrowserOptions {
    /// Returns the capabilities of a new session.
    pub(super) fn capabilities(&self, chromium: &str, profile: &str) -> Value {
        let mut args: Vec<String> = FLAGS.iter().map(|&flag| flag.to_owned()).collect();
        args.push(format!("--user-data-dir={profile}"));
        args.push(format!("--window-size={},{}", self.width, self.height));
        args.push(format!("--host-resolver-rules={}", self.resolver_rules()));
        json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "acceptInsecureCerts": self.any_certificate,
            "goog:chromeOptions": { "binary": chromium, "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } })
    }

    /// Returns rules that block all other hosts, so that a request for one is an error in the console.
    fn resolver_rules(&self) -> String {
        let mut rules: Vec<String> = self
            .names
            .iter()
            .map(|name| format!("MAP {name} 127.0.0.1"))
            .collect();
        rules.push("MAP * ~NOTFOUND".to_owned());
        rules.extend(["127.0.0.1", "localhost", "[::1]"].map(|name| format!("EXCLUDE {name}")));
        rules.join(", ")
    }
}
