//! `image resolve`: shows the full name of an image and the registries it is pulled from.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use orlop_cri_api::images::{AskedHost, ResolveImageRequest, ResolveImageResponse};
use orlop_cri_api::json;
use tonic::{Code, Status};

use super::client::client;
use crate::connect::{Session, refused};
use crate::output::{self, Format, FormatFlags, stdout, write_all};

/// Arguments of `image resolve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Full or short name of the image
    #[arg(value_name = "NAME")]
    image: String,

    /// Use the credentials of this pod namespace [default: only those of the node]
    #[arg(short, long, default_value = "", hide_default_value = true)]
    namespace: String,

    #[command(flatten)]
    format: FormatFlags,
}

/// Fails if there is no registry to pull from.
pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<ExitCode> {
    let format = args.format.or_table()?;
    let request = ResolveImageRequest {
        image: args.image.clone(),
        namespace: args.namespace,
    };
    let mut client = client(session).await?;
    let answer = client.resolve_image(request).await.map_err(not_ours);
    let answer = answer
        .with_context(|| format!("cannot resolve {:?}", args.image))?
        .into_inner();
    match format {
        Format::Table => write_all(&report(&args.image, &answer))?,
        format => {
            let mut out = stdout();
            output::value(&mut out, &json::to_value(&answer), &format)?;
            out.flush()?;
        }
    }
    Ok(ExitCode::from(u8::from(!is_served(&answer))))
}

/// Explains the error of the docker backend, which has no such service.
fn not_ours(status: Status) -> anyhow::Error {
    if status.code() == Code::Unimplemented {
        return anyhow!(
            "the runtime on this endpoint cannot show how it resolves image names; with the docker \
             backend, the Docker Engine resolves them (daemon.json, /etc/docker/certs.d), and \
             older versions of orlop do not have this call"
        );
    }
    refused(status)
}

fn is_served(answer: &ResolveImageResponse) -> bool {
    let mut names = answer.names.iter();
    names.any(|name| name.hosts.iter().any(|host| host.asked))
}

fn report(asked: &str, answer: &ResolveImageResponse) -> String {
    if !answer.refusal.is_empty() {
        return format!("{asked}: refused: {}\n", answer.refusal);
    }
    let mut text = format!("{asked}: {}", answer.rule);
    if !answer.place.is_empty() {
        let _ = write!(text, " ({})", answer.place);
    }
    text.push('\n');
    for name in &answer.names {
        let _ = writeln!(text, "{}", name.name);
        if !name.refusal.is_empty() {
            let _ = writeln!(text, "  refused: {}", name.refusal);
        }
        for host in &name.hosts {
            let _ = writeln!(text, "  {}", line(host));
        }
    }
    text
}

fn line(host: &AskedHost) -> String {
    let mut words = Vec::new();
    if host.asked {
        let may = match (host.tags, host.content) {
            (true, true) => "tags and content",
            (true, false) => "tags only",
            (false, true) => "content only",
            (false, false) => "nothing",
        };
        words.push(may.to_owned());
    } else {
        words.push(format!("skipped: {}", host.not_asked));
    }
    if host.mirror {
        words.push("a mirror".to_owned());
    }
    if host.skip_verify {
        words.push("certificate not verified".to_owned());
    }
    if host.fallback {
        words.push("if the previous host does not answer".to_owned());
    }
    if host.asked {
        words.push(if host.credentials.is_empty() {
            "no credentials".to_owned()
        } else {
            format!("credentials of {}", host.credentials)
        });
    }
    for (word, place) in [
        ("listed in", &host.source),
        ("configured in", &host.settings),
    ] {
        if !place.is_empty() {
            words.push(format!("{word} {place}"));
        }
    }
    format!("{}: {}", host.url, words.join(", "))
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::images::ResolvedName;

    use super::*;

    #[test]
    fn hosts_are_told_in_their_order_with_what_is_said_of_them() {
        let mut answer = ResolveImageResponse {
            rule: "alias".into(),
            place: "/r.conf:9".into(),
            names: vec![ResolvedName {
                name: "a.example/app:1".into(),
                hosts: vec![
                    AskedHost {
                        url: "https://m.example/v2/app".into(),
                        mirror: true,
                        asked: true,
                        tags: true,
                        content: true,
                        skip_verify: true,
                        source: "/r.conf:3".into(),
                        credentials: "/auth.json (\"m.example\")".into(),
                        ..AskedHost::default()
                    },
                    AskedHost {
                        url: "https://n.example/v2/app".into(),
                        mirror: true,
                        not_asked: "it serves only pulls by digest".into(),
                        ..AskedHost::default()
                    },
                    AskedHost {
                        url: "https://a.example/v2/app".into(),
                        asked: true,
                        content: true,
                        settings: "/certs.d/a.example/hosts.toml:1".into(),
                        ..AskedHost::default()
                    },
                ],
                refusal: String::new(),
            }],
            refusal: String::new(),
        };
        assert_eq!(
            report("app:1", &answer),
            "app:1: alias (/r.conf:9)\na.example/app:1\n  https://m.example/v2/app: tags and \
             content, a mirror, certificate not verified, credentials of /auth.json \
             (\"m.example\"), listed in /r.conf:3\n  https://n.example/v2/app: skipped: it serves \
             only pulls by digest, a mirror\n  https://a.example/v2/app: content only, no \
             credentials, configured in /certs.d/a.example/hosts.toml:1\n"
        );
        assert!(is_served(&answer));
        answer.names[0].hosts.clear();
        answer.names[0].refusal = "blocked".into();
        assert!(!is_served(&answer));
        assert!(report("app:1", &answer).ends_with("  refused: blocked\n"));
        answer.refusal = "it may be many".into();
        assert_eq!(report("app:1", &answer), "app:1: refused: it may be many\n");
    }

    #[test]
    fn an_engine_s_node_says_who_decides() {
        let said = not_ours(Status::unimplemented("unknown service orlop.v1.Images"));
        assert!(said.to_string().contains("Docker Engine"), "{said}");
    }
}
