//! `image verify`: compares what is stored with its digests.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context;
use orlop_cri::images::{VerifyImagesRequest, VerifyImagesResponse};

use super::{Session, client, refused};
use crate::output::write_all;

/// Which images.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The images, by name or id [default: all]
    #[arg(value_name = "IMAGE")]
    images: Vec<String>,

    /// Fetch again what is broken
    #[arg(long)]
    repair: bool,
}

/// What is not broken, and cannot be used: a node's policy is to be mended, and no image.
const UNLABELLED: u8 = 3;

/// Fails if an image is broken and stays so, or if one cannot be used.
pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<ExitCode> {
    let request = VerifyImagesRequest {
        images: args.images,
        repair: args.repair,
    };
    let mut client = client(session).await?;
    let answer = client.verify_images(request).await.map_err(refused);
    let mut answers = answer.context("cannot verify")?.into_inner();
    let (mut broken, mut unlabelled) = (false, false);
    while let Some(image) = answers
        .message()
        .await
        .map_err(refused)
        .context("cannot verify")?
    {
        if !image.broken.is_empty() && !image.repaired {
            broken = true;
        }
        unlabelled |= !image.unlabelled.is_empty();
        write_all(&report(&image))?;
    }
    Ok(match (broken, unlabelled) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => UNLABELLED.into(),
        (false, false) => ExitCode::SUCCESS,
    })
}

fn report(image: &VerifyImagesResponse) -> String {
    let verdict = match (image.broken.is_empty(), image.repaired) {
        (true, _) if !image.unlabelled.is_empty() => "unlabelled",
        (true, _) => "sound",
        (false, true) => "repaired",
        (false, false) => "broken",
    };
    let mut text = format!("{} {verdict} {}\n", image.id, image.names.join(" "));
    for content in image.broken.iter().chain(&image.unlabelled) {
        let _ = writeln!(text, "  {}: {}", content.digest, content.problem);
    }
    text
}

#[cfg(test)]
mod tests {
    use orlop_cri::images::BrokenContent;

    use super::*;

    #[test]
    fn what_is_broken_is_named() {
        let mut image = VerifyImagesResponse {
            id: "sha256:1".into(),
            names: vec!["r.test/a:1".into()],
            ..Default::default()
        };
        assert_eq!(report(&image), "sha256:1 sound r.test/a:1\n");
        let refused = BrokenContent {
            digest: "sha256:3".into(),
            problem: "its label is refused".into(),
        };
        image.unlabelled.push(refused);
        assert_eq!(
            report(&image),
            "sha256:1 unlabelled r.test/a:1\n  sha256:3: its label is refused\n"
        );
        image.unlabelled.clear();
        image.broken.push(BrokenContent {
            digest: "sha256:2".into(),
            problem: "its directory is missing".into(),
        });
        assert_eq!(
            report(&image),
            "sha256:1 broken r.test/a:1\n  sha256:2: its directory is missing\n"
        );
        image.repaired = true;
        assert!(report(&image).starts_with("sha256:1 repaired"));
    }
}
