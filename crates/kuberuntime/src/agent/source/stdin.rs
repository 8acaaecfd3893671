//! Manifests from the standard input, read once to its end.

use std::io::Read;

use tokio::task::spawn_blocking;

use super::{Outlet, Texts};

const LARGEST: u64 = 10 << 20;

/// Says what the standard input says.
pub(crate) async fn stdin(mut texts: Texts, outlet: Outlet) {
    let read = spawn_blocking(|| {
        let mut text = String::new();
        let read = std::io::stdin().take(LARGEST + 1).read_to_string(&mut text);
        match read {
            Ok(length) if length as u64 > LARGEST => Err(format!(
                "is larger than {LARGEST} bytes, which no manifest is"
            )),
            Ok(_) => Ok(text),
            Err(error) => Err(format!("cannot be read: {error}")),
        }
    });
    let text = match read.await {
        Ok(text) => text,
        Err(error) => Err(error.to_string()),
    };
    texts.put("stdin", text.as_deref().map_err(ToString::to_string));
    outlet.say(texts.snapshot()).await;
}
