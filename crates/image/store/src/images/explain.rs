//! Explains which registries would be asked for an image.

use super::front::Images;
use crate::Result;
use crate::registry::{Explained, explain};

impl Images {
    /// Who would be asked for an image by pods of a namespace. No registry is asked; programs that know
    /// credentials are.
    pub async fn explain(&self, text: &str, namespace: &str) -> Result<Explained> {
        explain(&self.context().admission.registry, text, namespace).await
    }
}
