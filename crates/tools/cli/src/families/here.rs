//! Local share of lazily pulled images. Only orlop reports it; images of other runtimes count as complete.

use std::collections::HashMap;
use std::time::Duration;

use orlop_cri_api::images::images_client::ImagesClient;
use orlop_cri_api::images::{ImageHere, ListImagesHereRequest};
use tokio::time::timeout;
use tonic::Code;
use tonic::transport::Channel;

/// Timeout, short because the information is only a hint.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the incomplete images by ID, either one by name or all.
pub(crate) async fn ask(
    mut client: ImagesClient<Channel>,
    image: &str,
) -> HashMap<String, ImageHere> {
    let images = look(&mut client, image).await.unwrap_or_default();
    let images = images.into_iter();
    images.map(|image| (image.id.clone(), image)).collect()
}

/// Returns the same in the order of the response, or the error.
pub(crate) async fn look(
    client: &mut ImagesClient<Channel>,
    image: &str,
) -> Result<Vec<ImageHere>, Code> {
    let request = ListImagesHereRequest {
        image: image.to_owned(),
    };
    match timeout(PATIENCE, client.list_images_here(request)).await {
        Ok(Ok(answer)) => Ok(answer.into_inner().images),
        Ok(Err(status)) => Err(status.code()),
        Err(_) => Err(Code::DeadlineExceeded),
    }
}

/// Formats the local share; never 100 % while data is missing.
pub(crate) fn percent(image: &ImageHere) -> String {
    let (bytes, size) = (u128::from(image.bytes), u128::from(image.size));
    let part = (bytes.min(size) * 100).checked_div(size).unwrap_or(0);
    format!("{part}%")
}

/// Returns the name of an image.
pub(crate) fn name(image: &ImageHere) -> &str {
    image.names.first().unwrap_or(&image.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_all_here_before_it_is() {
        let of = |bytes, size| {
            percent(&ImageHere {
                bytes,
                size,
                ..ImageHere::default()
            })
        };
        assert_eq!(of(0, 1000), "0%");
        assert_eq!(of(123, 1000), "12%");
        assert_eq!(of(999_999, 1_000_000), "99%");
        assert_eq!(of(u64::MAX - 1, u64::MAX), "99%");
        assert_eq!(of(1000, 1000), "100%");
        assert_eq!(of(2000, 1000), "100%");
        assert_eq!(of(0, 0), "0%");
    }
}
