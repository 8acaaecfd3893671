//! `image fetch`: downloads the remaining data of lazily pulled images.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use orlop_cri_api::images::{FetchImagesRequest, ImageHere};

use super::client::client;
use crate::connect::{Session, refused};
use crate::families::here::{name, percent};
use crate::output::{short_bytes, write_all};

const BAR: u64 = 30;

/// Arguments of `image fetch`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Names or IDs of the images
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<String>,
}

/// Fails if the data of an image cannot be fetched.
pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<ExitCode> {
    let request = FetchImagesRequest {
        images: args.images,
    };
    let mut client = client(session).await?;
    let answer = client.fetch_images(request).await.map_err(refused);
    let mut answers = answer.context("cannot fetch")?.into_inner();
    let mut painter = Painter::new(io::stderr().is_terminal());
    let mut code = ExitCode::SUCCESS;
    while let Some(image) = answers
        .message()
        .await
        .map_err(refused)
        .context("cannot fetch")?
    {
        // Nobody may read the progress output any more.
        let _ = io::stderr().write_all(painter.paint(&image).as_bytes());
        if !image.error.is_empty() {
            code = ExitCode::FAILURE;
            say!("cannot fetch {}: {}", name(&image), image.error);
        } else if image.whole {
            write_all(&format!("{} whole {}\n", image.id, image.names.join(" ")))?;
        }
    }
    Ok(code)
}

/// Formats progress: a line that is redrawn on a terminal, else one line for each tenth.
struct Painter {
    bars: bool,
    /// The image and tenth that were printed last.
    told: Option<(String, u64)>,
}

impl Painter {
    fn new(bars: bool) -> Self {
        Self { bars, told: None }
    }

    fn paint(&mut self, image: &ImageHere) -> String {
        let is_over = image.whole || !image.error.is_empty();
        match (self.bars, is_over) {
            (true, true) => "\r\x1b[2K".to_owned(),
            (true, false) => format!("\r\x1b[2K{}", bar(image)),
            (false, true) => String::new(),
            (false, false) => self.line(image),
        }
    }

    fn line(&mut self, image: &ImageHere) -> String {
        let told = (image.id.clone(), part(image, 10));
        if self.told.as_ref() == Some(&told) {
            return String::new();
        }
        self.told = Some(told);
        format!(
            "{} {} of {} fetched\n",
            name(image),
            percent(image),
            short_bytes(image.size)
        )
    }
}

fn bar(image: &ImageHere) -> String {
    let here = usize::try_from(part(image, BAR)).unwrap_or_default();
    let all = usize::try_from(BAR).unwrap_or_default();
    format!(
        "{} [{}{}] {}/{}",
        name(image),
        "=".repeat(here),
        " ".repeat(all - here),
        short_bytes(image.bytes.min(image.size)),
        short_bytes(image.size)
    )
}

/// Returns how many of `of` parts are present.
fn part(image: &ImageHere, of: u64) -> u64 {
    let bytes = u128::from(image.bytes.min(image.size)) * u128::from(of);
    let part = bytes.checked_div(u128::from(image.size)).unwrap_or(0);
    u64::try_from(part).unwrap_or(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(bytes: u64) -> ImageHere {
        ImageHere {
            id: "sha256:1".into(),
            names: vec!["r.test/a:1".into()],
            bytes,
            size: 2_000_000,
            ..ImageHere::default()
        }
    }

    #[test]
    fn a_bar_grows_in_place_and_goes_at_the_end() {
        let mut painter = Painter::new(true);
        let text = painter.paint(&image(1_000_000));
        let bar = format!("[{}{}]", "=".repeat(15), " ".repeat(15));
        assert_eq!(text, format!("\r\x1b[2Kr.test/a:1 {bar} 1MB/2MB"));
        let mut over = image(2_000_000);
        over.whole = true;
        assert_eq!(painter.paint(&over), "\r\x1b[2K");
        // The numbers of a server may be inconsistent.
        assert!(super::bar(&image(u64::MAX)).ends_with("2MB/2MB"));
    }

    #[test]
    fn lines_tell_tenths() {
        let mut painter = Painter::new(false);
        let first = painter.paint(&image(250_000));
        assert_eq!(first, "r.test/a:1 12% of 2MB fetched\n");
        assert_eq!(painter.paint(&image(399_999)), "");
        assert_eq!(
            painter.paint(&image(400_000)),
            "r.test/a:1 20% of 2MB fetched\n"
        );
        let mut failed = image(400_000);
        failed.error = "gone".into();
        assert_eq!(painter.paint(&failed), "");
    }
}
