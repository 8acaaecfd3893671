//! `pods`: lists pods.

use std::io::Write;

use orlop_cri_api::v1::{ListPodSandboxResponse, PodSandbox, PodSandboxState};

use crate::connect::Session;
use crate::input::select::PodFlags;
use crate::output::{self, FormatFlags, Table, ago, full, labels, short_id, stdout};

/// Arguments of `pods`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: PodFlags,

    /// Only the pod with this ID
    #[arg(long)]
    id: Option<String>,

    #[command(flatten)]
    format: FormatFlags,

    /// Show more details of each pod
    #[arg(short, long)]
    verbose: bool,

    /// Show only IDs
    #[arg(short, long)]
    quiet: bool,

    /// Show full IDs
    #[arg(long)]
    no_trunc: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_table()?;
    let items = args.which.list(&session.runtime().await?, args.id).await?;
    let answer = ListPodSandboxResponse { items };
    let mut out = stdout();
    if !output::list(&mut out, &answer, &format)? {
        if args.quiet {
            for pod in &answer.items {
                writeln!(out, "{}", pod.id)?;
            }
        } else if args.verbose {
            for pod in &answer.items {
                in_full(&mut out, pod)?;
            }
        } else {
            table(&answer.items, args.no_trunc).print(&mut out)?;
        }
    }
    Ok(out.flush()?)
}

fn table(pods: &[PodSandbox], whole_ids: bool) -> Table {
    let mut table = Table::new([
        "POD ID",
        "CREATED",
        "STATE",
        "NAME",
        "NAMESPACE",
        "ATTEMPT",
        "RUNTIME",
    ]);
    for pod in pods {
        let metadata = pod.metadata.clone().unwrap_or_default();
        table.row([
            if whole_ids {
                pod.id.clone()
            } else {
                short_id(&pod.id).to_owned()
            },
            ago(pod.created_at),
            state(pod).to_owned(),
            metadata.name,
            metadata.namespace,
            metadata.attempt.to_string(),
            handler(pod).to_owned(),
        ]);
    }
    table
}

fn in_full(out: &mut impl Write, pod: &PodSandbox) -> std::io::Result<()> {
    writeln!(out, "ID: {}", pod.id)?;
    if let Some(metadata) = &pod.metadata {
        writeln!(out, "Name: {}", metadata.name)?;
        writeln!(out, "UID: {}", metadata.uid)?;
        writeln!(out, "Namespace: {}", metadata.namespace)?;
        if metadata.attempt != 0 {
            writeln!(out, "Attempt: {}", metadata.attempt)?;
        }
    }
    writeln!(out, "Status: {}", state(pod))?;
    writeln!(out, "Created: {}", full(pod.created_at))?;
    labels(out, "Labels", &pod.labels)?;
    labels(out, "Annotations", &pod.annotations)?;
    writeln!(out, "Runtime: {}", handler(pod))?;
    writeln!(out)
}

fn state(pod: &PodSandbox) -> &'static str {
    match pod.state() {
        PodSandboxState::SandboxReady => "Ready",
        PodSandboxState::SandboxNotready => "NotReady",
    }
}

fn handler(pod: &PodSandbox) -> &str {
    if pod.runtime_handler.is_empty() {
        "(default)"
    } else {
        &pod.runtime_handler
    }
}
