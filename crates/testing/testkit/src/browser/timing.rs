//! How long a page took, and what it cost.

use std::time::Duration;

use serde_json::Value;

use super::page::Browser;

/// What the browser has measured of the page that it shows (W3C Navigation, Paint and Resource Timing).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Until the first byte of the answer.
    pub first_byte: Duration,
    /// Until something was painted, if anything was yet.
    pub first_paint: Option<Duration>,
    /// Until text or a picture was.
    pub first_contentful_paint: Option<Duration>,
    /// Until the document was read, and the scripts that wait for that had run.
    pub ready: Duration,
    /// Until all was loaded.
    pub loaded: Duration,
    /// How many files were asked for, the page among them.
    pub requests: u64,
    /// What came over the network for them, with headers.
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
    /// The times of the page, all since it was asked for.
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
