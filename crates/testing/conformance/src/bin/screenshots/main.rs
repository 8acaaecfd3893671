//! Takes the pictures of `docs/` (`make screenshots`): `screenshots LIST INTO [BASE]`.
//!
//! LIST is a file: `[{ "name": "pods", "path": "/pods", "wait_for": "table tr", "width": 1280, "height": 800,
//! "dark": true }, …]`. INTO is where the pictures go, BASE an address of the site, which is opened first, so that it
//! may have a token in it. Without one it is `orlop web` on a node with some pods, which is made for it: `WEB` in a path is the id of one of them, `LOG`
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
            return Box::pin(node::with_pods(&text, into)).await;
        };
        take(&Picture::list(&text)?, base, into).await
    })
}

/// `http://HOST:PORT` of an address there.
fn site_of(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    let host = rest
        .split(['/', '?', '#'])
        .next()
        .filter(|host| !host.is_empty())?;
    Some(&address[..address.len() - rest.len() + host.len()])
}

async fn take(pictures: &[Picture], first: &str, into: &Path) -> anyhow::Result<()> {
    let site = site_of(first).with_context(|| format!("{first:?} is no address of a site"))?;
    std::fs::create_dir_all(into).with_context(|| format!("making {}", into.display()))?;
    let browser = Browser::start(BrowserOptions::default()).await;
    browser.open(first).await;
    for picture in pictures {
        let file = browser.take(picture, site, into).await?;
        println!("{}", file.display());
    }
    Ok(())
}
