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

/// Fails if an image is broken and stays so.
pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<ExitCode> {
    let request = VerifyImagesRequest {
        images: args.images,
        repair: args.repair,
    };
    let mut client = client(session).await?;
    let answer = client.verify_images(request).await.map_err(refused);
    let mut answers = answer.context("cannot verify")?.into_inner();
    let mut code = ExitCode::SUCCESS;
    while let Some(image) = answers
        .message()
        .await
        .map_err(refused)
        .context("cannot verify")?
    {
        if !image.broken.is_empty() && !image.repaired {
            code = ExitCode::FAILURE;
        }
        write_all(&report(&image))?;
    }
    Ok(code)
}

fn report(image: &VerifyImagesResponse) -> String {
    let verdict = match (image.broken.is_empty(), image.repaired) {
        (true, _) => "sound",
        (false, true) => "repaired",
        (false, false) => "broken",
    };
    let mut text = format!("{} {verdict} {}\n", image.id, image.names.join(" "));
    for content in &image.broken {
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
