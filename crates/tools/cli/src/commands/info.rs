//! `info`: shows the state of the runtime.

use std::io::Write;

use anyhow::bail;
use orlop_cri_api::json;
use orlop_cri_api::v1::{RuntimeFeatures, RuntimeHandler};
use serde_json::{Map, Value};

use crate::connect::{Dialect, Session};
use crate::output::{Format, FormatFlags, StatusReport, print_reports, stdout};

/// Arguments of `info`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    format: FormatFlags,

    /// Hide the additional information of the runtime
    #[arg(short, long)]
    quiet: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_json()?;
    if session.dialect == Dialect::Crictl && matches!(format, Format::Table) {
        bail!("unsupported format: \"table\"");
    }
    let answer = session.runtime().await?.status(!args.quiet).await?;
    let status = json::to_value(&answer.status.unwrap_or_default());
    let mut report = StatusReport::new(status, answer.info);
    if !answer.runtime_handlers.is_empty() {
        let handlers = answer.runtime_handlers.iter().map(handler).collect();
        report
            .more
            .push(("runtimeHandlers", Value::Array(handlers)));
    }
    if let Some(features) = answer.features {
        report.more.push(("features", self::features(features)));
    }
    let mut out = stdout();
    print_reports(&mut out, vec![report], &format)?;
    Ok(out.flush()?)
}

/// Formats a handler with the field names of the CRI and without false values, as crictl does.
fn handler(handler: &RuntimeHandler) -> Value {
    let mut object = Map::new();
    if !handler.name.is_empty() {
        object.insert("name".to_owned(), handler.name.clone().into());
    }
    if let Some(features) = &handler.features {
        let known = [
            (
                "recursive_read_only_mounts",
                features.recursive_read_only_mounts,
            ),
            ("user_namespaces", features.user_namespaces),
        ];
        object.insert("features".to_owned(), truths(known));
    }
    Value::Object(object)
}

fn features(features: RuntimeFeatures) -> Value {
    truths([
        (
            "supplemental_groups_policy",
            features.supplemental_groups_policy,
        ),
        (
            "user_namespaces_host_network",
            features.user_namespaces_host_network,
        ),
        ("mount_options", features.mount_options),
    ])
}

fn truths<const N: usize>(known: [(&str, bool); N]) -> Value {
    let true_ones = known.into_iter().filter(|(_, value)| *value);
    Value::Object(
        true_ones
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect(),
    )
}
