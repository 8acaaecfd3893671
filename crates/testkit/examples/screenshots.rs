//! Takes pictures of pages (`make screenshots`): `screenshots LIST BASE INTO`.
//!
//! LIST is a file: `[{ "name": "pods", "path": "/pods", "wait_for": "table tr", "width": 1280, "height": 800,
//! "dark": true }, …]`. BASE is where the site is, `http://127.0.0.1:8080`, INTO where the pictures go.
#![allow(
    clippy::disallowed_methods,
    reason = "who runs it names a file of their own"
)]

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use orlop_testkit::browser::Picture;
use orlop_testkit::{Browser, BrowserOptions};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [list, base, into] = &args[..] else {
        bail!("usage: screenshots LIST BASE INTO");
    };
    if list.is_empty() || base.is_empty() {
        bail!(
            "LIST names no file, or BASE no site: make screenshots LIST=FILE BASE=http://HOST:PORT"
        );
    }
    Browser::can_run()
        .map_err(|reason| anyhow!("this machine can't take pictures: it {reason}"))?;
    let text = std::fs::read_to_string(list).with_context(|| list.clone())?;
    let pictures = Picture::list(&text).with_context(|| list.clone())?;
    let reactor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    reactor.block_on(take(&pictures, base.trim_end_matches('/'), Path::new(into)))
}

async fn take(pictures: &[Picture], base: &str, into: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(into).with_context(|| format!("making {}", into.display()))?;
    let browser = Browser::start(BrowserOptions::default()).await;
    for picture in pictures {
        let file = browser.take(picture, base, into).await?;
        println!("{}", file.display());
    }
    Ok(())
}
