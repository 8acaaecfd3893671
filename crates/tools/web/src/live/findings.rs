//! Findings of doctor, requested at the start and once a minute.

use std::time::Duration;

use orlop_cri_api::client::Connection;
use orlop_cri_api::inspection::{ExamineRequest, FindingLevel};
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;
use tokio::time::sleep;

use super::news::News;
use crate::asked::own;
use crate::bounded::{MOST, cut};

const PERIOD: Duration = Duration::from_mins(1);

/// Requests the findings repeatedly, without repairs.
pub(super) async fn watch(cri: Connection, to: Sender<News>) {
    let mut client = cri.orlop_inspection();
    loop {
        let request = ExamineRequest::default();
        if let Ok(answer) = own(client.examine(request)).await {
            let findings = answer.findings.iter().take(MOST).map(|finding| {
                let level = match finding.level() {
                    FindingLevel::Ok => "ok",
                    FindingLevel::Warning => "warning",
                    FindingLevel::Problem => "problem",
                };
                json!({
                    "area": cut(&finding.area),
                    "level": level,
                    "text": cut(&finding.text),
                    "remedy": cut(&finding.remedy),
                })
            });
            let findings: Value = findings.collect();
            if to.send(News::Findings(findings)).await.is_err() {
                return;
            }
        }
        sleep(PERIOD).await;
    }
}
