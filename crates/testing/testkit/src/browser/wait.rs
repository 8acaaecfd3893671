//! Waits for content of a page, with a description of the page if it does not appear.

use std::fmt::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::element::{self, Element};
use super::page::Browser;
use crate::machine;

const POLL: Duration = Duration::from_millis(20);
/// Length limit of the page's text in a message.
const TEXT: usize = 2048;

impl Browser {
    /// Waits for an element that matches a CSS selector.
    pub async fn wait_for(&self, css: &str, limit: Duration) -> Element<'_> {
        let body = json!({ "using": "css selector", "value": css });
        let deadline = Instant::now() + limit * machine::patience();
        loop {
            let found = self.driver.post("/elements", body.clone()).await;
            let error = match found {
                Ok(found) => match found.get(0) {
                    Some(first) => return element::new(self, css, first),
                    None => String::new(),
                },
                // While a page is being replaced, it has no elements.
                Err(error) => format!(" ({error:#})"),
            };
            assert!(
                Instant::now() < deadline,
                "no {css} within {limit:?}{error}\n{}",
                self.state().await
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until a JavaScript expression is truthy, and returns its value.
    pub async fn wait_until(&self, expression: &str, limit: Duration) -> Value {
        let body = json!({ "script": format!("return ({expression})"), "args": [] });
        let deadline = Instant::now() + limit * machine::patience();
        loop {
            let said = self.driver.post("/execute/sync", body.clone()).await;
            let said = match said {
                Ok(value) if is_true(&value) => return value,
                Ok(value) => format!("it is {value}"),
                Err(error) => format!("{error:#}"),
            };
            assert!(
                Instant::now() < deadline,
                "not within {limit:?}: {expression} ({said})\n{}",
                self.state().await
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// Describes the current page, for a message.
    pub(super) async fn state(&self) -> String {
        const LOOK: &str = "return [document.title, location.href, document.body?.innerText ?? '']";
        let body = json!({ "script": LOOK, "args": [] });
        let mut state = match self.driver.post("/execute/sync", body).await {
            Ok(page) => {
                let text = |at: usize| page[at].as_str().unwrap_or_default();
                let shown: String = text(2).chars().take(TEXT).collect();
                format!("the page {:?} at {} shows:\n{shown}\n", text(0), text(1))
            }
            Err(error) => {
                let log = self.process.log();
                format!("of the page nothing is known: {error:#}\nthe browser's log:\n{log}\n")
            }
        };
        for entry in self.console_if_any().await {
            let _ = writeln!(state, "console: {entry}");
        }
        state
    }
}

/// Returns whether a value is truthy in JavaScript.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::Number(number) => number.as_f64().is_some_and(|number| number != 0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}
