//! Fetches and verifies small documents: manifests, indexes and configurations.

use std::sync::atomic::AtomicU64;

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use super::answers::header;
use super::attempt::Attempt;
use super::host::Host;
use super::remote::Remote;
use super::retry::{Capability, Try};
use crate::media_type::ACCEPT_MANIFEST;
use crate::{Digest, Error, Result};

/// A fetched manifest or index.
pub(crate) struct Fetched {
    pub(crate) bytes: Vec<u8>,
    pub(crate) content_type: Option<String>,
    pub(crate) digest: Digest,
}

impl Remote {
    /// Fetches the manifest or index for `selector` (a tag or digest).
    pub(crate) async fn manifest(
        &self,
        selector: &str,
        expected: Option<Digest>,
    ) -> Result<Fetched> {
        let what = match expected {
            Some(digest) => format!("{}@{digest}", self.repository),
            None => format!("{}:{selector}", self.repository),
        };
        let need = if expected.is_some() {
            Capability::Pull
        } else {
            Capability::Resolve
        };
        self.attempt(
            need,
            &AtomicU64::new(0),
            &GetManifest {
                what,
                selector,
                expected,
            },
        )
        .await
    }

    /// Fetches a manifest that is attached to another one, by its tag. Any host that serves content may be asked,
    /// because the content is trusted only if it is signed.
    pub(crate) async fn attachment(&self, tag: &str) -> Result<Fetched> {
        let task = GetManifest {
            what: format!("{}:{tag}", self.repository),
            selector: tag,
            expected: None,
        };
        self.attempt(Capability::Pull, &AtomicU64::new(0), &task)
            .await
    }

    /// Fetches a whole small blob and verifies it.
    pub(crate) async fn small_blob(&self, what: &str, digest: Digest) -> Result<Vec<u8>> {
        self.attempt(
            Capability::Pull,
            &AtomicU64::new(0),
            &GetSmallBlob { what, digest },
        )
        .await
    }
}

struct GetManifest<'a> {
    what: String,
    selector: &'a str,
    expected: Option<Digest>,
}

impl Try for GetManifest<'_> {
    type Done = Fetched;

    async fn once(&self, remote: &Remote, host: &Host) -> Result<Fetched, Attempt> {
        let what = &self.what;
        let url = remote.url(host, &format!("manifests/{}", self.selector));
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, http::HeaderValue::from_static(ACCEPT_MANIFEST));
        let _connection = remote.connection(host).await?;
        let response = remote.send(what, host, url, &headers).await?.0;
        let response = remote.check(what, host, response).await?;
        let content_type = header(&response, &CONTENT_TYPE);
        let announced = header(&response, "docker-content-digest");
        let bytes = remote.small_body(what, host, response).await?;
        let promised = self
            .expected
            .or_else(|| announced.and_then(|text| text.parse().ok()));
        let digest = promised.map_or_else(|| Digest::of(&bytes), |one| one.like(&bytes));
        if let Some(expected) = promised.filter(|promised| *promised != digest) {
            return Err(Attempt::Final(Error::DigestMismatch {
                what: format!("the manifest of {what} from {}", host.name()),
                expected: Box::new(expected),
                actual: Box::new(digest),
            }));
        }
        Ok(Fetched {
            bytes,
            content_type,
            digest,
        })
    }
}

struct GetSmallBlob<'a> {
    what: &'a str,
    digest: Digest,
}

impl Try for GetSmallBlob<'_> {
    type Done = Vec<u8>;

    async fn once(&self, remote: &Remote, host: &Host) -> Result<Vec<u8>, Attempt> {
        let Self { what, digest } = self;
        let url = remote.url(host, &format!("blobs/{digest}"));
        let _connection = remote.connection(host).await?;
        let response = remote.send(what, host, url, &HeaderMap::new()).await?.0;
        let response = remote.check(what, host, response).await?;
        let bytes = remote.small_body(what, host, response).await?;
        let actual = digest.like(&bytes);
        if actual == *digest {
            return Ok(bytes);
        }
        Err(Attempt::Final(Error::DigestMismatch {
            what: format!("{what} from {}", host.name()),
            expected: Box::new(*digest),
            actual: Box::new(actual),
        }))
    }
}
