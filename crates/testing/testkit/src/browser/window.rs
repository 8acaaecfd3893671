//! The browser window: size, colour scheme and screenshots.

use std::sync::PoisonError;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::page::{Browser, text};

impl Browser {
    /// Resizes the page, in CSS pixels. It may be narrower than a window can be.
    pub async fn resize(&self, width: u32, height: u32) {
        {
            let mut options = self.options.lock().unwrap_or_else(PoisonError::into_inner);
            (options.width, options.height) = (width, height);
        }
        self.emulate().await;
    }

    /// Sets the preferred colour scheme.
    pub async fn prefer_dark(&self, dark: bool) {
        {
            let mut options = self.options.lock().unwrap_or_else(PoisonError::into_inner);
            options.dark = dark;
        }
        self.emulate().await;
    }

    /// Returns a screenshot as a PNG of the page size times the scale.
    pub async fn screenshot(&self) -> Vec<u8> {
        let encoded = text(self.get("/screenshot").await);
        let png = BASE64_STANDARD.decode(encoded);
        png.unwrap_or_else(|e| panic!("a screenshot that is no base64: {e}"))
    }

    /// Applies the options to the page.
    pub(super) async fn emulate(&self) {
        let options = self
            .options
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let metrics = json!({
            "width": options.width,
            "height": options.height,
            "deviceScaleFactor": options.scale,
            "mobile": false,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)
            .await;
        let scheme = if options.dark { "dark" } else { "light" };
        let features = json!({ "features": [
            { "name": "prefers-color-scheme", "value": scheme },
        ] });
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }
}
