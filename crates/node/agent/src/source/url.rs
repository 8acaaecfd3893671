//! Manifests at a URL, which is polled.

use std::collections::BTreeMap;
use std::sync::Once;
use std::time::Duration;

use orlop_pool::Place;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use tokio::time::{Instant, sleep_until};

use super::snapshot::Outlet;
use super::texts::Texts;

const LARGEST: usize = 10 << 20;
/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The URL to request, and its headers.
#[derive(Debug)]
pub(crate) struct UrlSource {
    url: Url,
    client: Client,
}

impl UrlSource {
    /// Prepares the requests; returns an error if the URL or the headers are invalid.
    pub(crate) fn new(url: &str, headers: &BTreeMap<String, Vec<String>>) -> Result<Self, String> {
        static PROVIDER: Once = Once::new();
        PROVIDER
            .call_once(|| drop(rustls::crypto::aws_lc_rs::default_provider().install_default()));
        let wrong = |why: String| format!("cannot use the manifest URL {url:?}: {why}");
        let url: Url = url.parse().map_err(|error| wrong(format!("{error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://".to_owned()));
        }
        let mut map = HeaderMap::new();
        for (name, values) in headers {
            let bad = || format!("the manifest URL has an invalid header {name:?}");
            let name: HeaderName = name.parse().map_err(|_| bad())?;
            for value in values {
                let value = HeaderValue::from_str(value).map_err(|_| bad())?;
                map.append(name.clone(), value);
            }
        }
        let client = Client::builder()
            .dns_resolver(Names)
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
            return Err(format!("the server responded with {}", answer.status()));
        }
        let mut bytes = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(chain)? {
            bytes.extend_from_slice(&part);
            if bytes.len() > LARGEST {
                return Err(format!(
                    "the response has more than {LARGEST} bytes, the limit for manifests"
                ));
            }
        }
        if bytes.is_empty() {
            return Err(
                "the response is empty; to run no pods, respond with an empty PodList".to_owned(),
            );
        }
        String::from_utf8(bytes).map_err(|_| "the response is not valid UTF-8".to_owned())
    }
}

/// Sends a snapshot of the URL now and every `period`, if it has changed. While requests fail, the
/// pods stay.
pub(crate) async fn url(source: UrlSource, period: Duration, mut texts: Texts, outlet: Outlet) {
    let origin = source.url.to_string();
    let mut last: Option<Result<String, String>> = None;
    loop {
        let next = Instant::now() + period;
        let answer = source.ask().await;
        if last.as_ref() != Some(&answer) {
            if let Err(error) = &answer {
                tracing::warn!(url = origin, error, "cannot read manifests from the URL");
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

/// Resolves names on its own threads. The default resolver uses the reactor's threads and panics if
/// none can be started.
struct Names;

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        static LOOKING_UP: Place = Place::new("looking up the host of the manifest URL", 2, 2, 16);
        Box::pin(async move {
            let found = orlop_pool::look_up(&LOOKING_UP, name.as_str(), 0).await?;
            let found: Addrs = Box::new(found.into_iter());
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::super::{LastGood, UPDATES, Update};
    use super::*;
    use crate::manifest::SourceKind;

    const PODS: &str = "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}, \
                        \"spec\": {\"containers\": [{\"name\": \"c\", \"image\": \"i:1\"}]}}";

    /// Serves the content of `answer` to clients that send the header.
    async fn serve(listener: TcpListener, answer: Arc<Mutex<String>>) {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).to_lowercase();
            let body = answer.lock().clone();
            let status = match (request.contains("x-key: secret"), body.as_str()) {
                (false, _) => "403 Forbidden",
                (_, "") => "503 Busy",
                _ => "200 OK",
            };
            let text = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(text.as_bytes()).await.unwrap();
        }
    }

    async fn next(updates: &mut mpsc::Receiver<Update>) -> (usize, usize) {
        let update = timeout(Duration::from_secs(10), updates.recv()).await;
        let (_, snapshot) = update.expect("an update").unwrap();
        (snapshot.pods.len(), snapshot.remarks.len())
    }

    #[tokio::test]
    async fn pods_stay_while_the_url_does_not_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/pods", listener.local_addr().unwrap());
        let answer = Arc::new(Mutex::new(PODS.to_owned()));
        let server = tokio::spawn(serve(listener, Arc::clone(&answer)));
        let scratch = tempfile::tempdir().unwrap();
        let kept = LastGood::open(scratch.path().join("kept")).unwrap();
        let headers = BTreeMap::from([("X-Key".to_owned(), vec!["secret".to_owned()])]);
        let source = UrlSource::new(&address, &headers).unwrap();
        let (updates, mut receiver) = mpsc::channel(UPDATES);
        let texts = Texts::new(SourceKind::Http, "n", kept);
        let outlet = Outlet { place: 0, updates };
        let asking = tokio::spawn(url(source, Duration::from_millis(50), texts, outlet));
        assert_eq!(next(&mut receiver).await, (1, 0));
        answer.lock().clear();
        let (pods, remarks) = next(&mut receiver).await;
        assert!(pods == 1 && remarks > 0);
        let none = "{\"apiVersion\": \"v1\", \"kind\": \"PodList\", \"items\": []}";
        none.clone_into(&mut answer.lock());
        assert_eq!(next(&mut receiver).await, (0, 0));
        asking.abort();
        server.abort();
    }

    #[test]
    fn what_is_no_url_is_told() {
        for wrong in ["", "x", "ftp://x/"] {
            assert!(UrlSource::new(wrong, &BTreeMap::new()).is_err(), "{wrong}");
        }
        let headers = BTreeMap::from([("a b".to_owned(), vec![String::new()])]);
        assert!(UrlSource::new("http://x/", &headers).is_err());
    }
}
