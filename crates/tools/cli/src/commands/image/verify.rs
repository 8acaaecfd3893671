//! `image verify`: compares stored data with its digests.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context;
use orlop_cri_api::images::{VerifyImagesRequest, VerifyImagesResponse};

use super::client::client;
use crate::connect::{Session, refused};
use crate::output::write_all;

/// Arguments of `image verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Names or IDs of the images [default: all]
    #[arg(value_name = "IMAGE")]
    images: Vec<String>,

    /// Fetch damaged data again
    #[arg(long)]
    repair: bool,
}

/// Result of the command: the worst of all images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Usable,
    /// Nothing is broken, but something cannot be used: the node needs a repair, not an image.
    Unlabelled,
    /// An image is broken and was not repaired.
    Broken,
}

/// Fails if an image remains broken or cannot be used.
pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<ExitCode> {
    let request = VerifyImagesRequest {
        images: args.images,
        repair: args.repair,
    };
    let mut client = client(session).await?;
    let answer = client.verify_images(request).await.map_err(refused);
    let mut answers = answer.context("cannot verify")?.into_inner();
    let mut worst = Outcome::Usable;
    while let Some(image) = answers
        .message()
        .await
        .map_err(refused)
        .context("cannot verify")?
    {
        worst = worst.max(Outcome::of(&image));
        write_all(&report(&image))?;
    }
    Ok(worst.code().into())
}

impl Outcome {
    fn of(image: &VerifyImagesResponse) -> Self {
        if !image.broken.is_empty() && !image.repaired {
            Self::Broken
        } else if !image.unlabelled.is_empty() {
            Self::Unlabelled
        } else {
            Self::Usable
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Usable => 0,
            Self::Unlabelled => 3,
            Self::Broken => 1,
        }
    }
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
    use orlop_cri_api::images::BrokenContent;

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

    #[test]
    fn what_is_broken_ends_with_1_and_what_lacks_only_its_label_with_3() {
        let problem = || vec![BrokenContent::default()];
        let sound = VerifyImagesResponse::default();
        let unlabelled = VerifyImagesResponse {
            unlabelled: problem(),
            ..Default::default()
        };
        let broken = VerifyImagesResponse {
            broken: problem(),
            ..unlabelled.clone()
        };
        let repaired = VerifyImagesResponse {
            broken: problem(),
            repaired: true,
            ..Default::default()
        };
        let of = |images: &[&VerifyImagesResponse]| {
            let outcomes = images.iter().map(|image| Outcome::of(image));
            outcomes.max().map(Outcome::code)
        };
        assert_eq!(of(&[&sound, &repaired]), Some(0));
        assert_eq!(of(&[&sound, &unlabelled, &repaired]), Some(3));
        assert_eq!(of(&[&unlabelled, &broken, &sound]), Some(1));
        assert_eq!(of(&[&broken, &unlabelled]), Some(1));
    }
}
