//! Explains which registries would be asked for an image.

use super::front::Images;
use crate::Result;
use crate::registry::{Explained, explain};

impl Images {
    /// Explains which registries pods of a namespace would use for an image. Asks no registry, but runs credential
    /// helpers.
    pub async fn explain(&self, text: &str, namespace: &str) -> Result<Explained> {
        explain(&self.context().admission.registry, text, namespace).await
    }
}
