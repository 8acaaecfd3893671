//! `FetchImages`: completes the download of lazily pulled images.
//!
//! The download does not depend on how fast the client reads progress messages. A slow client misses intermediate ones.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use orlop_cri_api::images::{FetchImagesRequest, ImageHere};
use orlop_image_store::{Image, Images};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::batches::Answers;
use crate::engine::Engine;
use crate::error::{Error, Result, chain};
use crate::image::{check_whole, here, named, stored};

/// Number of messages that are queued for the client.
const QUEUE: usize = 4;

/// Interval between two progress checks.
const PAUSE: Duration = Duration::from_millis(150);

/// Handles the `FetchImages` call.
pub async fn call(
    Engine(node): &Engine,
    request: FetchImagesRequest,
) -> Result<Answers<ImageHere>> {
    if request.images.is_empty() {
        return Err(Error::invalid("images", "is empty").into());
    }
    let mut wanted: Vec<Image> = Vec::new();
    for name in &request.images {
        let image = stored(&node.images, name).await?;
        check_whole(&image)?;
        if !wanted.iter().any(|other| other.id == image.id) {
            wanted.push(image);
        }
    }
    let (tell, told) = mpsc::channel(QUEUE);
    let images = node.images.clone();
    node.tasks.spawn(async move {
        tokio::select! {
            () = tell.closed() => {}
            () = fetch_all(&images, wanted, &tell) => {}
        }
    });
    Ok(ReceiverStream::new(told).map(Ok).boxed())
}

async fn fetch_all(images: &Images, wanted: Vec<Image>, tell: &mpsc::Sender<ImageHere>) {
    for image in wanted {
        let last = fetch(images, &image, tell)
            .await
            .unwrap_or_else(|error| ImageHere {
                error: chain(&*error),
                ..named(&image)
            });
        if tell.send(last).await.is_err() {
            return;
        }
    }
}

/// Downloads the rest of an image and sends progress messages. The caller sends the last one.
async fn fetch(
    images: &Images,
    image: &Image,
    tell: &mpsc::Sender<ImageHere>,
) -> Result<ImageHere> {
    let Some(first) = here(images, image).await? else {
        return Ok(whole(named(image)));
    };
    let _ = tell.try_send(first.clone());
    let mut work = pin!(images.fetch_rest(&image.id));
    let mut last = first.clone();
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done.map(|()| whole(first)).map_err(|source| {
                let doing = format!("fetching the rest of image {}", name(image));
                Error::Image { doing, source }.into()
            }),
            () = tokio::time::sleep(PAUSE) => {}
        }
        if let Some(now) = here(images, image).await? {
            let now = since(&first, now);
            if now != last {
                last = now.clone();
                let _ = tell.try_send(now);
            }
        }
    }
}

/// Computes the progress relative to the first message, as completed layers are no longer counted.
fn since(first: &ImageHere, mut now: ImageHere) -> ImageHere {
    let missing = now.size.saturating_sub(now.bytes);
    now.bytes = first.size.saturating_sub(missing);
    now.size = first.size;
    now
}

fn whole(mut image: ImageHere) -> ImageHere {
    image.bytes = image.size;
    image.lazy_layers = 0;
    image.whole = true;
    image
}

fn name(image: &Image) -> String {
    let mut names = image.repo_tags.iter().chain(&image.repo_digests);
    names
        .next()
        .cloned()
        .unwrap_or_else(|| image.id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_that_is_whole_takes_nothing_from_what_is_here() {
        let state = |bytes, size, lazy_layers| ImageHere {
            bytes,
            size,
            lazy_layers,
            ..ImageHere::default()
        };
        let first = state(100, 1000, 2);
        // The layer of 600 is complete, and half of the layer of 400 is present.
        let now = since(&first, state(200, 400, 1));
        assert_eq!((now.bytes, now.size, now.lazy_layers), (800, 1000, 1));
        let end = whole(first);
        assert_eq!((end.bytes, end.size, end.whole), (1000, 1000, true));
    }
}
