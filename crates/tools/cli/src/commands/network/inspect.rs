//! `network inspect`: shows all details of pods' network attachments.

use std::io::Write;

use anyhow::bail;
use orlop_cri_api::extensions::ListAttachmentsRequest;
use orlop_cri_api::json;
use serde_json::Value;

use super::client::client;
use crate::connect::{Session, refused};
use crate::input::select;
use crate::output::{self, FormatFlags, stdout};

/// Arguments of `network inspect`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Names or IDs of the pods
    #[arg(value_name = "POD", required = true)]
    pods: Vec<String>,

    #[command(flatten)]
    format: FormatFlags,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_json()?;
    let mut client = client(session).await?;
    let ids = select::pods(&session.runtime().await?, &args.pods).await?;
    let mut found = Vec::new();
    for id in ids {
        let request = ListAttachmentsRequest {
            pod_sandbox_id: id.clone(),
            verbose: true,
        };
        let answer = client.list_attachments(request).await.map_err(refused)?;
        let attachments = answer.into_inner().attachments;
        if attachments.is_empty() {
            bail!(
                "pod {id} is not attached to a network; it does not exist, or it uses the network \
                 of the host"
            );
        }
        for mut attachment in attachments {
            let record: Value =
                serde_json::from_slice(attachment.record.as_bytes()).unwrap_or_default();
            attachment.record.clear();
            let mut value = json::to_value(&attachment);
            if let Value::Object(map) = &mut value {
                map.insert("record".to_owned(), record);
            }
            found.push(value);
        }
    }
    let all = match found.len() {
        1 => found.remove(0),
        _ => Value::Array(found),
    };
    let mut out = stdout();
    output::value(&mut out, &all, &format)?;
    Ok(out.flush()?)
}
