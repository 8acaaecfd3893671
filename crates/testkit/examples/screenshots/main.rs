//! Takes the pictures of `docs/` (`make screenshots`): `screenshots LIST INTO [BASE]`.
//!
//! LIST is a file: `[{ "name": "pods", "path": "/pods", "wait_for": "table tr", "width": 1280, "height": 800,
//! "dark": true }, …]`. INTO is where the pictures go, BASE where the site is, `http://127.0.0.1:8080`. Without one
//! it is `orlop web` on a node with some pods, which is made for it: `WEB` in a path is the id of one of them, `LOG`
//! that of a container that talks.
#![allow(
    clippy::disallowed_methods,
    reason = "who runs it names a file of their own"
)]

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use orlop_testkit::browser::Picture;
use orlop_testkit::{Browser, BrowserOptions};

mod node;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (list, into, base) = match &args[..] {
        [list, into] => (list, into, None),
        [list, into, base] => (list, into, Some(base)),
        _ => bail!("usage: screenshots LIST INTO [BASE]"),
    };
    Browser::can_run()
        .map_err(|reason| anyhow!("this machine can't take pictures: it {reason}"))?;
    let text = std::fs::read_to_string(list).with_context(|| list.clone())?;
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let into = Path::new(into);
    reactor.block_on(async {
        let Some(base) = base else {
            return node::with_pods(&text, into).await;
        };
        let browser = Browser::start(BrowserOptions::default()).await;
        take(
            &browser,
            &Picture::list(&text)?,
            base.trim_end_matches('/'),
            into,
        )
        .await
    })
}

async fn take(
    browser: &Browser,
    pictures: &[Picture],
    base: &str,
    into: &Path,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(into).with_context(|| format!("making {}", into.display()))?;
    for picture in pictures {
        let file = browser.take(picture, base, into).await?;
        println!("{}", file.display());
    }
    Ok(())
}
