//! `doctor`: checks this node for problems and repairs them.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use orlop_cri_api::client::Connection;
use orlop_cri_api::inspection::{ExamineRequest, Finding, FindingLevel};
use orlop_cri_api::{Endpoint, client::ClientOptions};
use serde_json::json;
use tonic::{Code, Status};

use crate::connect::Session;
use crate::output::write_all;

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file of the daemon [default: /etc/orlop/config.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    daemon_config: Option<PathBuf>,

    /// Socket of the daemon [default: the socket of -r, else the first socket in the configuration]
    #[arg(long, value_name = "SOCKET")]
    socket: Option<String>,

    /// Terminate processes and release resources that belong to no pod
    #[arg(long)]
    repair: bool,

    /// Also verify the digests of all images
    #[arg(long)]
    images: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Time limit: reading all images takes long.
const PATIENCE: Duration = Duration::from_hours(1);

/// Returns exit code 0 if nothing is broken or everything was repaired, else 1.
pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<ExitCode> {
    let examined = (session.host.examine)(args.daemon_config.clone()).await?;
    let named = args.socket.as_deref().or(session.named_endpoint());
    let socket = named.map(str::to_owned).or(examined.socket);
    let socket = socket.unwrap_or_default();
    let mut findings = examined.findings;
    findings.extend(ask_daemon(&socket, &args).await);
    let broken = findings.iter().any(is_broken);
    let text = if args.json {
        as_json(&findings)
    } else {
        for_people(&findings, broken)
    };
    write_all(&text)?;
    Ok(ExitCode::from(u8::from(broken)))
}

fn is_broken(finding: &Finding) -> bool {
    finding.level() == FindingLevel::Problem && !finding.repaired
}

async fn ask_daemon(socket: &str, args: &Args) -> Vec<Finding> {
    let request = ExamineRequest {
        repair: args.repair,
        images: args.images,
    };
    match examine(socket, request).await {
        Ok(findings) => {
            let text = format!("the daemon on {socket} answers");
            let mut all = vec![Finding::ok("daemon", text)];
            all.extend(findings);
            all
        }
        Err(problem) => vec![Finding::problem(
            "daemon",
            format!("{problem}; orphaned resources cannot be detected without the daemon"),
            "start the daemon with `orlop serve`, or give its socket with --socket",
        )],
    }
}

async fn examine(socket: &str, request: ExamineRequest) -> Result<Vec<Finding>, String> {
    let endpoint: Endpoint = socket.parse().map_err(|error| format!("{error}"))?;
    let options = ClientOptions {
        timeout: PATIENCE,
        ..ClientOptions::default()
    };
    let connection = Connection::new(endpoint, options);
    let answer = connection.orlop_inspection().examine(request).await;
    let refused = |status: Status| match status.code() {
        Code::Unimplemented => format!(
            "the server on {socket} does not support this command; it is another runtime or \
             another version of orlop"
        ),
        Code::Unavailable => format!("no daemon answers on {socket}"),
        _ => format!("the daemon on {socket} reports: {}", status.message()),
    };
    Ok(answer.map_err(refused)?.into_inner().findings)
}

fn word(finding: &Finding) -> &'static str {
    match (finding.repaired, finding.level()) {
        (true, _) => "mended",
        (false, FindingLevel::Ok) => "ok",
        (false, FindingLevel::Warning) => "warning",
        (false, FindingLevel::Problem) => "problem",
    }
}

fn as_json(findings: &[Finding]) -> String {
    let list: Vec<_> = findings
        .iter()
        .map(|finding| {
            json!({
                "area": finding.area,
                "state": word(finding),
                "text": finding.text,
                "remedy": finding.remedy,
            })
        })
        .collect();
    let mut text = serde_json::to_string_pretty(&list).unwrap_or_default();
    text.push('\n');
    text
}

fn for_people(findings: &[Finding], broken: bool) -> String {
    let mut text = String::new();
    for finding in findings {
        let _ = writeln!(
            text,
            "{:<8} {:<14} {}",
            word(finding),
            finding.area,
            finding.text
        );
        if !finding.remedy.is_empty() && !finding.repaired {
            let _ = writeln!(text, "{:<23} → {}", "", finding.remedy);
        }
    }
    text.push_str(if broken {
        "\nProblems were found.\n"
    } else {
        "\nNo problems were found.\n"
    });
    text
}
