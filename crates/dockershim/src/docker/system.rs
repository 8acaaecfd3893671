//! System calls of the engine's API.

use std::time::Duration;

use http::Method;

use super::client::{Docker, filters};
use super::error::Result;
use super::reply::Reply;
use super::types::{DiskUsage, Info, VersionInfo};
use super::version::ApiVersion;

impl Docker {
    /// Asks the engine for its version.
    pub(crate) async fn version_info(&self, limit: Duration) -> Result<VersionInfo> {
        let asking = self.send_unversioned("/version");
        let info = self.within(&http::Method::GET, "/version", limit, asking);
        let info = info.await?;
        self.agree(&info)?;
        Ok(info)
    }

    pub(crate) async fn info(&self) -> Result<Info> {
        self.get("/info").await
    }

    /// Returns the disk usage of images. Older engines also compute that of containers and volumes.
    pub(crate) async fn image_usage(&self) -> Result<u64> {
        let path = if self.api().await? >= ApiVersion::USAGE_BY_TYPE {
            "/system/df?type=image"
        } else {
            "/system/df"
        };
        let usage: DiskUsage = self.get(path).await?;
        let size = usage.layers_size.max(usage.image_usage.total_size);
        Ok(u64::try_from(size).unwrap_or(0))
    }

    /// Subscribes to events of containers with this label, from `since` (seconds, dot, nanoseconds) on.
    pub(crate) async fn events(&self, label: &str, since: Option<&str>) -> Result<Reply> {
        let filters = filters(&[
            ("type", &["container".to_owned()]),
            ("label", &[label.to_owned()]),
        ]);
        let since = since.map_or_else(String::new, |since| format!("&since={since}"));
        let path = format!("/events?filters={filters}{since}");
        self.stream(Method::GET, &path, None, &[]).await
    }
}
