//! Load times and costs of a page.

use std::time::Duration;

use serde_json::Value;

use super::page::Browser;

/// Measurements of the browser for the current page (W3C Navigation, Paint and Resource Timing).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Time to the first byte of the response.
    pub first_byte: Duration,
    /// Time to the first paint, if there was one.
    pub first_paint: Option<Duration>,
    /// Time to the first paint of text or an image.
    pub first_contentful_paint: Option<Duration>,
    /// Time until the document is parsed and the deferred scripts have run.
    pub ready: Duration,
    /// Time until everything is loaded.
    pub loaded: Duration,
    /// Number of requests, including the page.
    pub requests: u64,
    /// Bytes received over the network, including headers.
    pub bytes: u64,
}

const MEASURE: &str = "
    const [page] = performance.getEntriesByType('navigation');
    const files = performance.getEntriesByType('resource');
    const paint = name => performance.getEntriesByName(name)[0]?.startTime ?? null;
    return {
        first_byte: page.responseStart,
        first_paint: paint('first-paint'),
        first_contentful_paint: paint('first-contentful-paint'),
        ready: page.domContentLoadedEventEnd,
        loaded: page.loadEventEnd,
        requests: 1 + files.length,
        bytes: files.reduce((sum, file) => sum + file.transferSize, page.transferSize),
    };
";

impl Browser {
    /// Returns the times of the page, relative to the start of the request.
    pub async fn performance(&self) -> Timing {
        let said = self.script(MEASURE, &[]).await;
        let time = |name: &str| milliseconds(&said[name]);
        let required = |name: &str| time(name).unwrap_or_else(|| panic!("no {name}: {said}"));
        let number = |name: &str| {
            let number = said[name].as_f64();
            number.unwrap_or_else(|| panic!("no {name}: {said}")) as u64
        };
        Timing {
            first_byte: required("first_byte"),
            first_paint: time("first_paint"),
            first_contentful_paint: time("first_contentful_paint"),
            ready: required("ready"),
            loaded: required("loaded"),
            requests: number("requests"),
            bytes: number("bytes"),
        }
    }
}

fn milliseconds(value: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(value.as_f64()? / 1000.0).ok()
}
