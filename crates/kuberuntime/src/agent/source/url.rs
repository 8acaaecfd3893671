//! Manifests behind a URL, asked for again and again.

use std::collections::BTreeMap;
use std::sync::Once;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use tokio::time::{Instant, sleep_until};

use super::{Outlet, Texts};

const LARGEST: usize = 10 << 20;
/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where to ask, and how.
#[derive(Debug)]
pub(crate) struct UrlSource {
    url: Url,
    client: Client,
}

impl UrlSource {
    /// Prepares to ask; says what is wrong with the URL or the headers.
    pub(crate) fn new(url: &str, headers: &BTreeMap<String, Vec<String>>) -> Result<Self, String> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let wrong = |why: String| format!("the manifest URL {url:?} cannot be used: {why}");
        let url: Url = url.parse().map_err(|error| wrong(format!("{error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://".to_owned()));
        }
        let mut map = HeaderMap::new();
        for (name, values) in headers {
            let bad = || format!("the header {name:?} for the manifest URL is none");
            let name: HeaderName = name.parse().map_err(|_| bad())?;
            for value in values {
                let value = HeaderValue::from_str(value).map_err(|_| bad())?;
                map.append(name.clone(), value);
            }
        }
        let client = Client::builder()
            .default_headers(map)
            .timeout(PATIENCE)
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Self { url, client })
    }

    async fn ask(&self) -> Result<String, String> {
        let chain = |error: reqwest::Error| {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            text
        };
        let mut answer = self
            .client
            .get(self.url.clone())
            .send()
            .await
            .map_err(chain)?;
        if !answer.status().is_success() {
            return Err(format!("answered {}", answer.status()));
        }
        let mut bytes = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(chain)? {
            bytes.extend_from_slice(&part);
            if bytes.len() > LARGEST {
                return Err(format!(
                    "answered more than {LARGEST} bytes, which no manifest has"
                ));
            }
        }
        if bytes.is_empty() {
            return Err("answered nothing; for no pods answer an empty PodList".to_owned());
        }
        String::from_utf8(bytes).map_err(|_| "answered what is no UTF-8".to_owned())
    }
}

/// Says what the URL answers, now and every `period`. While it does not answer, the pods stay as
/// they were.
pub(crate) async fn url(source: UrlSource, period: Duration, mut texts: Texts, outlet: Outlet) {
    let origin = source.url.to_string();
    let mut last: Option<Result<String, String>> = None;
    loop {
        let next = Instant::now() + period;
        let answer = source.ask().await;
        if last.as_ref() != Some(&answer) {
            if let Err(error) = &answer {
                tracing::warn!(url = origin, error, "reading manifests from a URL");
            }
            texts.put(&origin, answer.as_deref().map_err(Clone::clone));
            if !outlet.say(texts.snapshot()).await {
                return;
            }
            last = Some(answer);
        }
        sleep_until(next).await;
    }
}
