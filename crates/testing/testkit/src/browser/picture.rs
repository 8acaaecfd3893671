//! Screenshots of pages for the documentation.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;

use super::page::Browser;
use crate::machine;

/// Size limit of a screenshot in bytes: a repository keeps every version.
pub const PICTURE_LIMIT: usize = 150_000;
/// Time limit until a page shows its content.
const LIMIT: Duration = Duration::from_secs(30);

/// Description of a screenshot.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Picture {
    /// File name without `.png`.
    pub name: String,
    /// Path of the page on the site.
    pub path: String,
    /// CSS selector of an element that is present when the page is complete.
    pub wait_for: String,
    /// Width of the page in CSS pixels.
    pub width: u32,
    /// Height of the page in CSS pixels.
    pub height: u32,
    /// Whether to use the dark colour scheme.
    #[serde(default)]
    pub dark: bool,
}

impl Picture {
    /// Parses a list of descriptions from JSON.
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
    /// Takes a screenshot of a page of the site at `base`, and saves it with a reduced palette.
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

/// Reduces a PNG to at most 256 colours with pngquant.
fn reduced(png: &[u8]) -> anyhow::Result<Vec<u8>> {
    let program = machine::program("pngquant").map_err(anyhow::Error::msg)?;
    let mut child = Command::new(program)
        .args(["--strip", "--nofs", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting pngquant")?;
    // pngquant reads its whole input before it writes anything.
    let mut input = child.stdin.take().context("its input")?;
    input.write_all(png).context("giving pngquant a picture")?;
    drop(input);
    let output = child.wait_with_output().context("waiting for pngquant")?;
    if !output.status.success() {
        bail!("pngquant: {}", output.status);
    }
    Ok(output.stdout)
}
