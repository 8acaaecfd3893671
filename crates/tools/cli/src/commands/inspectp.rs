//! `inspectp`: shows all details of pods.

use std::io::{self, Write};

use orlop_cri_api::json;
use orlop_cri_api::v1::PodSandboxStatus;
use serde_json::Value;

use crate::connect::Session;
use crate::families::inspection::{self, Inspected, InspectionFlags, with_empty_parts};
use crate::input::select::{self, PodFlags};
use crate::output::{full, labels, rfc3339};

/// Arguments of `inspectp`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names or IDs of the pods; without any, all pods that match the flags
    #[arg(value_name = "POD")]
    pods: Vec<String>,

    #[command(flatten)]
    which: PodFlags,

    #[command(flatten)]
    shown: InspectionFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.shown.format()?;
    let client = session.runtime().await?;
    let ids = if args.pods.is_empty() {
        let found = args.which.list(&client, None).await?;
        found.into_iter().map(|pod| pod.id).collect()
    } else {
        select::pods(&client, &args.pods).await?
    };
    let ask = async |id: &str| {
        let answer = client.pod_sandbox_status(id, !args.shown.quiet).await?;
        Ok((answer.status.unwrap_or_default(), answer.info))
    };
    inspection::show(ids, &args.shown, &format, ask).await
}

impl Inspected for PodSandboxStatus {
    const NAME: &'static str = "pod";

    fn value(&self) -> Value {
        value(self)
    }

    fn table(&self, out: &mut impl Write) -> io::Result<()> {
        table(out, self)
    }
}

/// Converts the status with a readable time, and with all parts even if they are empty.
fn value(status: &PodSandboxStatus) -> Value {
    let mut value = json::to_value(status);
    if let Value::Object(map) = &mut value {
        map.insert(
            "createdAt".to_owned(),
            Value::String(rfc3339(status.created_at)),
        );
        with_empty_parts(map, &["metadata", "network", "linux"]);
    }
    value
}

fn table(out: &mut impl Write, status: &PodSandboxStatus) -> io::Result<()> {
    writeln!(out, "ID: {}", status.id)?;
    if let Some(metadata) = &status.metadata {
        writeln!(out, "Name: {}", metadata.name)?;
        writeln!(out, "UID: {}", metadata.uid)?;
        writeln!(out, "Namespace: {}", metadata.namespace)?;
        writeln!(out, "Attempt: {}", metadata.attempt)?;
    }
    writeln!(out, "Status: {}", status.state().as_str_name())?;
    writeln!(out, "Created: {}", full(status.created_at))?;
    if let Some(network) = &status.network {
        writeln!(out, "IP Addresses: {}", network.ip)?;
        for address in &network.additional_ips {
            writeln!(out, "Additional IP: {}", address.ip)?;
        }
    }
    labels(out, "Labels", &status.labels)?;
    labels(out, "Annotations", &status.annotations)
}
