//! `image policy`: shows whether the signature policy allows an image, and why.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context;
use orlop_cri_api::images::{JudgeImageRequest, JudgeImageResponse};

use super::client::client;
use crate::connect::{Session, refused};
use crate::output::write_all;

/// Arguments of `image policy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name or ID of the image
    #[arg(value_name = "IMAGE")]
    image: String,

    /// Use the policy of this pod namespace [default: the policy of the node]
    #[arg(short, long, default_value = "", hide_default_value = true)]
    namespace: String,

    /// Check the image in the registry, even if it is stored locally
    #[arg(long)]
    remote: bool,
}

/// Fails if the image is not allowed.
pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<ExitCode> {
    let request = JudgeImageRequest {
        image: args.image.clone(),
        namespace: args.namespace,
        remote: args.remote,
    };
    let mut client = client(session).await?;
    let answer = client.judge_image(request).await.map_err(refused);
    let verdict = answer
        .with_context(|| format!("cannot check {:?} against the policy", args.image))?
        .into_inner();
    write_all(&report(&args.image, &verdict))?;
    Ok(ExitCode::from(u8::from(!verdict.allowed)))
}

fn report(asked: &str, verdict: &JudgeImageResponse) -> String {
    let name = if verdict.name.is_empty() {
        asked
    } else {
        &verdict.name
    };
    if verdict.policy.is_empty() {
        return format!("{name} allowed: no policy is configured\n");
    }
    let word = if verdict.allowed {
        "allowed"
    } else {
        "refused"
    };
    let mut text = format!("{name} {word} by {} ({})\n", verdict.policy, verdict.place);
    for requirement in &verdict.requirements {
        let mark = if requirement.fulfilled { "yes" } else { "no " };
        let (kind, reason) = (&requirement.kind, &requirement.reason);
        let _ = writeln!(text, "  {mark} {kind}: {reason}");
    }
    text
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::images::JudgedRequirement;

    use super::*;

    #[test]
    fn the_rule_and_the_reason_are_told() {
        let mut verdict = JudgeImageResponse {
            allowed: true,
            ..Default::default()
        };
        assert_eq!(
            report("a:1", &verdict),
            "a:1 allowed: no policy is configured\n"
        );
        verdict = JudgeImageResponse {
            allowed: false,
            policy: "/p.json".into(),
            place: "default".into(),
            name: "docker.io/library/a:1".into(),
            requirements: vec![JudgedRequirement {
                kind: "reject".into(),
                fulfilled: false,
                reason: "every image is rejected".into(),
            }],
        };
        assert_eq!(
            report("a:1", &verdict),
            "docker.io/library/a:1 refused by /p.json (default)\n  no  reject: every image is rejected\n"
        );
    }
}
