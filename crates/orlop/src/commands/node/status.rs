//! `node status` and `node events`: status and events of a running agent.

use std::io::Write;
use std::process::ExitCode;

use jiff::Timestamp;
use orlop_cli::{Table, stdout};
use serde_json::Value;

use super::socket::AgentArgs;

/// Arguments of `node status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    agent: AgentArgs,

    /// Output format: table or json
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = ["table", "json"])]
    output: String,
}

/// Arguments of `node events`.
#[derive(Debug, clap::Args)]
pub(super) struct EventsArgs {
    #[command(flatten)]
    agent: AgentArgs,

    /// Show only events of this pod
    pod: Option<String>,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let status = args.agent.get("/orlop/v1/status")?;
    let mut out = stdout();
    if args.output == "json" {
        serde_json::to_writer_pretty(&mut out, &status)?;
        writeln!(out)?;
    } else {
        show(&status, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn events(args: EventsArgs) -> anyhow::Result<ExitCode> {
    let answer = args.agent.get("/orlop/v1/events")?;
    let mut table = Table::bare(0);
    table.row(["AGE", "TYPE", "REASON", "POD", "MESSAGE"]);
    for event in answer["events"].as_array().into_iter().flatten() {
        let name = text(&event["name"]);
        if args.pod.as_deref().is_some_and(|pod| pod != name) {
            continue;
        }
        table.row([
            age(text(&event["time"])),
            text(&event["type"]).to_owned(),
            text(&event["reason"]).to_owned(),
            format!("{}/{name}", text(&event["namespace"])),
            one_line(text(&event["message"])),
        ]);
    }
    let mut out = stdout();
    table.print(&mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn show(status: &Value, out: &mut impl Write) -> anyhow::Result<()> {
    let runtime = &status["runtime"];
    writeln!(
        out,
        "node {}, on {} {} ({})",
        text(&status["node"]),
        text(&runtime["name"]),
        text(&runtime["version"]),
        text(&runtime["endpoint"]),
    )?;
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let kind = text(&condition["type"]);
        let is_true = condition["status"] == "True";
        if is_true != (kind == "Ready") {
            let message = text(&condition["message"]);
            writeln!(out, "{kind}: {} {message}", text(&condition["status"]))?;
        }
    }
    if status["sourcesRead"] == false {
        writeln!(out, "not all manifests have been read yet")?;
    }
    writeln!(out)?;
    let mut table = Table::bare(0);
    table.row([
        "NAMESPACE",
        "NAME",
        "READY",
        "STATUS",
        "RESTARTS",
        "AGE",
        "IP",
        "LAST EVENT",
    ]);
    for pod in status["pods"].as_array().into_iter().flatten() {
        let event = &pod["lastEvent"];
        let last = if event.is_null() {
            text(&pod["message"]).to_owned()
        } else {
            format!("{}: {}", text(&event["reason"]), text(&event["message"]))
        };
        table.row([
            text(&pod["namespace"]).to_owned(),
            text(&pod["name"]).to_owned(),
            format!(
                "{}/{}",
                pod["readyContainers"][0], pod["readyContainers"][1]
            ),
            summary_line(text(&pod["summary"]), text(&pod["reason"])),
            pod["restarts"].to_string(),
            age(text(&pod["started"])),
            text(&pod["ips"][0]).to_owned(),
            one_line(&last),
        ]);
    }
    table.print(out)?;
    let remarks = status["remarks"].as_array().into_iter().flatten();
    for (i, remark) in remarks.enumerate() {
        if i == 0 {
            writeln!(out)?;
        }
        let remark: orlop_agent::Remark = serde_json::from_value(remark.clone())?;
        writeln!(out, "{remark}")?;
    }
    Ok(())
}

/// Returns the status word of a pod, with the reason if the agent ended it.
pub(crate) fn summary_line(summary: &str, reason: &str) -> String {
    if reason.is_empty() {
        summary.to_owned()
    } else {
        reason.to_owned()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn age(moment: &str) -> String {
    let Ok(then) = moment.parse::<Timestamp>() else {
        return "-".to_owned();
    };
    let seconds = Timestamp::now().as_second() - then.as_second();
    match seconds {
        ..120 => format!("{}s", seconds.max(0)),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Makes text of a container safe to print: one line, without control characters, truncated.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 100;
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = plain.take(LONGEST).collect();
    if text.chars().count() > LONGEST {
        line.push('…');
    }
    line
}
