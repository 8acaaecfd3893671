//! Manifests from the standard input, read once to its end.

use orlop_pool::Place;

use super::{Outlet, Texts};

const LARGEST: u64 = 10 << 20;

/// Who writes there may never end.
static READING: Place = Place::new("reading manifests from the standard input", 1, 1, 0);

/// Says what the standard input says.
pub(crate) async fn stdin(mut texts: Texts, outlet: Outlet) {
    let read = READING.run(|| {
        orlop_disk::read_whole_text(std::io::stdin(), LARGEST)
            .map_err(|error| format!("cannot be read: {error}"))
    });
    let text = match read.await {
        Ok(text) => text,
        Err(error) => Err(error.to_string()),
    };
    texts.put("stdin", text.as_deref().map_err(ToString::to_string));
    outlet.say(texts.snapshot()).await;
}
