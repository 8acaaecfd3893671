//! Elements of the page, used as a person would use them.

use serde_json::{Value, json};

use super::page::{Browser, text};

/// Key of element references (W3C WebDriver, 12.1).
const REFERENCE: &str = "element-6066-11e4-a52e-4f735466cecf";

/// An element of the page. Its methods panic if the page has replaced it.
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
    /// Returns the selector that found it.
    pub fn css(&self) -> &str {
        &self.css
    }

    /// Clicks in its middle, which must not be covered.
    pub async fn click(&self) {
        self.browser.post(&self.path("click"), json!({})).await;
    }

    /// Returns its visible text.
    pub async fn text(&self) -> String {
        text(self.browser.get(&self.path("text")).await)
    }

    /// Returns an attribute.
    pub async fn attribute(&self, name: &str) -> Option<String> {
        let value = self
            .browser
            .get(&self.path(&format!("attribute/{name}")))
            .await;
        value.as_str().map(str::to_owned)
    }

    /// Returns a JavaScript property.
    pub async fn property(&self, name: &str) -> Value {
        self.browser
            .get(&self.path(&format!("property/{name}")))
            .await
    }

    /// Returns a property of its computed style.
    pub async fn style(&self, name: &str) -> String {
        text(self.browser.get(&self.path(&format!("css/{name}"))).await)
    }

    /// Returns its accessibility role.
    pub async fn role(&self) -> String {
        text(self.browser.get(&self.path("computedrole")).await)
    }

    /// Returns its accessible name.
    pub async fn label(&self) -> String {
        text(self.browser.get(&self.path("computedlabel")).await)
    }

    /// Focuses it and types text, which may contain [keys](super::key).
    pub async fn type_keys(&self, keys: &str) {
        self.browser
            .post(&self.path("value"), json!({ "text": keys }))
            .await;
    }

    /// Clears a field.
    pub async fn clear(&self) {
        self.browser.post(&self.path("clear"), json!({})).await;
    }

    /// Returns the element as an argument of a script.
    pub fn as_argument(&self) -> Value {
        json!({ REFERENCE: self.id })
    }

    fn path(&self, what: &str) -> String {
        format!("/element/{}/{what}", self.id)
    }
}
