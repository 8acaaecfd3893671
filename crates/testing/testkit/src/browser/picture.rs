//! Pictures of pages for documents.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;

use super::page::Browser;
use crate::machine;

/// What a picture may have, in bytes: a repository keeps all that there ever were.
pub const PICTURE_LIMIT: usize = 150_000;
/// Until a page shows what it is to show.
const LIMIT: Duration = Duration::from_secs(30);

/// A picture that is to be taken.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Picture {
    /// The name of its file, without `.png`.
    pub name: String,
    /// The address of the page, below that of the site.
    pub path: String,
    /// What is on the page when it is complete: a CSS selector.
    pub wait_for: String,
    /// The width of the page in CSS pixels.
    pub width: u32,
    /// Its height.
    pub height: u32,
    /// Whether it is dark.
    #[serde(default)]
    pub dark: bool,
}

impl Picture {
    /// A list of them, as JSON.
    pub fn list(text: &str) -> anyhow::Result<Vec<Self>> {
        let list: Vec<Self> = serde_json::from_str(text).context("a list of pictures")?;
        for picture in &list {
            let name = &picture.name;
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.is_empty() || !name.chars().all(is_plain) {
                bail!("the picture {name:?}: a name is of a to z, 0 to 9 and -");
            }
        }
        Ok(list)
    }
}

impl Browser {
    /// Takes a picture of a page of the site at `base`, and saves it with as few colours as it takes.
    pub async fn take(
        &self,
        picture: &Picture,
        base: &str,
        into: &Path,
    ) -> anyhow::Result<PathBuf> {
        self.resize(picture.width, picture.height).await;
        self.prefer_dark(picture.dark).await;
        self.open(&format!("{base}{}", picture.path)).await;
        self.wait_for(&picture.wait_for, LIMIT).await;
        let png = self.screenshot().await;
        let small = tokio::task::spawn_blocking(move || reduced(&png)).await??;
        let file = into.join(format!("{}.png", picture.name));
        if small.len() > PICTURE_LIMIT {
            let (has, name) = (small.len(), file.display());
            bail!("{name} would have {has} bytes, more than {PICTURE_LIMIT}: make it smaller");
        }
        let written = std::fs::write(&file, small);
        written.with_context(|| format!("writing {}", file.display()))?;
        Ok(file)
    }
}

/// A PNG of at most 256 colours, as pngquant chooses them.
fn reduced(png: &[u8]) -> anyhow::Result<Vec<u8>> {
    let program = machine::program("pngquant").map_err(anyhow::Error::msg)?;
    let mut child = Command::new(program)
        .args(["--strip", "--nofs", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting pngquant")?;
    // It reads all before it writes anything.
    let mut input = child.stdin.take().context("its input")?;
    input.write_all(png).context("giving pngquant a picture")?;
    drop(input);
    let output = child.wait_with_output().context("waiting for pngquant")?;
    if !output.status.success() {
        bail!("pngquant: {}", output.status);
    }
    Ok(output.stdout)
}
