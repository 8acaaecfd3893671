//! Image calls of the engine's API.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use bytes::Bytes;
use http::{HeaderName, Method};
use serde::Serialize;

use super::client::{Docker, escaped};
use super::error::Result;
use super::reply::Reply;
use super::types::{Image, ImageSummary};

/// Registry credentials in the engine's format.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RegistryAuth {
    pub(crate) username: String,
    pub(crate) password: String,
    pub(crate) serveraddress: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) identitytoken: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) registrytoken: String,
}

impl std::fmt::Debug for RegistryAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryAuth").finish_non_exhaustive()
    }
}

impl Docker {
    pub(crate) async fn list_images(&self) -> Result<Vec<ImageSummary>> {
        self.get("/images/json").await
    }

    pub(crate) async fn image(&self, name: &str) -> Result<Image> {
        self.get(&format!("/images/{}/json", escaped(name))).await
    }

    pub(crate) async fn image_history(&self, name: &str) -> Result<serde_json::Value> {
        self.get(&format!("/images/{}/history", escaped(name)))
            .await
    }

    /// Starts a pull; the response streams the progress.
    pub(crate) async fn pull(
        &self,
        repository: &str,
        tag: &str,
        auth: Option<&RegistryAuth>,
    ) -> Result<Reply> {
        let path = format!(
            "/images/create?fromImage={}&tag={}",
            escaped(repository),
            escaped(tag)
        );
        let auth = auth.and_then(|auth| serde_json::to_vec(auth).ok());
        let header = auth.map(|auth| {
            (
                HeaderName::from_static("x-registry-auth"),
                URL_SAFE.encode(auth),
            )
        });
        self.stream(Method::POST, &path, None, header.as_slice())
            .await
    }

    /// Adds a tag to an image. The tag may move from another image.
    pub(crate) async fn tag_image(&self, id: &str, repository: &str, tag: &str) -> Result<()> {
        let path = format!(
            "/images/{}/tag?repo={}&tag={}",
            escaped(id),
            escaped(repository),
            escaped(tag)
        );
        self.act(Method::POST, &path, None, self.limit()).await
    }

    /// Removes one name of an image, or the image if that was its last name.
    pub(crate) async fn remove_image(&self, name: &str) -> Result<()> {
        let path = format!("/images/{}?force=0&noprune=0", escaped(name));
        self.act(Method::DELETE, &path, None, self.limit()).await
    }

    /// Loads an archive in the format of `docker save`.
    pub(crate) async fn load_image(&self, archive: Bytes) -> Result<Reply> {
        self.stream(
            Method::POST,
            "/images/load?quiet=1",
            Some(("application/x-tar", archive)),
            &[],
        )
        .await
    }
}
