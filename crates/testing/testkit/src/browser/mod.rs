//! Debian's Chromium, controlled with WebDriver through `chromedriver`.

mod axe;
mod console;
mod driver;
mod element;
pub mod key;
mod options;
mod page;
mod picture;
mod process;
mod timing;
mod wait;
mod window;

#[cfg(test)]
mod tests;

pub use axe::{Impact, Violation};
pub use console::{LogEntry, LogLevel};
pub use element::Element;
pub use options::BrowserOptions;
pub use page::{Browser, Cookie};
pub use picture::{PICTURE_LIMIT, Picture};
pub use timing::Timing;
