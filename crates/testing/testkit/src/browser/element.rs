//! An element of the page, used as a person would.

use serde_json::{Value, json};

use super::page::{Browser, text};

/// The name under which WebDriver refers to elements (W3C WebDriver, 12.1).
const REFERENCE: &str = "element-6066-11e4-a52e-4f735466cecf";

/// An element that was found; it fails when the page has replaced it since.
#[derive(Debug)]
pub struct Element<'b> {
    browser: &'b Browser,
    css: String,
    id: String,
}

pub(super) fn new<'b>(browser: &'b Browser, css: &str, found: &Value) -> Element<'b> {
    let id = found[REFERENCE].as_str();
    Element {
        browser,
        css: css.to_owned(),
        id: id
            .unwrap_or_else(|| panic!("{css}: no element: {found}"))
            .to_owned(),
    }
}

impl Element<'_> {
    /// The selector that found it.
    pub fn css(&self) -> &str {
        &self.css
    }

    /// Clicks in its middle, which nothing may cover.
    pub async fn click(&self) {
        self.browser.post(&self.path("click"), json!({})).await;
    }

    /// Its text as it is shown.
    pub async fn text(&self) -> String {
        text(self.browser.get(&self.path("text")).await)
    }

    /// An attribute of it.
    pub async fn attribute(&self, name: &str) -> Option<String> {
        let value = self
            .browser
            .get(&self.path(&format!("attribute/{name}")))
            .await;
        value.as_str().map(str::to_owned)
    }

    /// A property of it, as scripts see it.
    pub async fn property(&self, name: &str) -> Value {
        self.browser
            .get(&self.path(&format!("property/{name}")))
            .await
    }

    /// A property of its style as it was computed.
    pub async fn style(&self, name: &str) -> String {
        text(self.browser.get(&self.path(&format!("css/{name}"))).await)
    }

    /// What a screen reader says that it is.
    pub async fn role(&self) -> String {
        text(self.browser.get(&self.path("computedrole")).await)
    }

    /// What a screen reader calls it.
    pub async fn label(&self) -> String {
        text(self.browser.get(&self.path("computedlabel")).await)
    }

    /// Gives it the focus and types, [keys](super::key) too.
    pub async fn type_keys(&self, keys: &str) {
        self.browser
            .post(&self.path("value"), json!({ "text": keys }))
            .await;
    }

    /// Empties a field.
    pub async fn clear(&self) {
        self.browser.post(&self.path("clear"), json!({})).await;
    }

    /// It as an argument of a script.
    pub fn as_argument(&self) -> Value {
        json!({ REFERENCE: self.id })
    }

    fn path(&self, what: &str) -> String {
        format!("/element/{}/{what}", self.id)
    }
}
