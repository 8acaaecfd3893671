use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::CgroupError;
use super::limits::Limits;

const LIMIT: Duration = Duration::from_secs(10);

/// Makes a slice and gives it limits.
pub(super) async fn apply(slice: &str, limits: &Limits) -> Result<(), CgroupError> {
    systemctl(&["start", slice]).await?;
    let infinity = |value: Option<String>| value.unwrap_or_else(|| "infinity".to_owned());
    let properties = [
        format!("CPUWeight={}", limits.weight()),
        // A quota in percent of one processor: 100 ms of each 100 ms are 100 %.
        limits.cpu_quota.map_or_else(
            || "CPUQuota=".to_owned(),
            |quota| format!("CPUQuota={}%", (quota / 1000).max(1)),
        ),
        format!(
            "MemoryMax={}",
            infinity(limits.memory.map(|n| n.to_string()))
        ),
        format!("TasksMax={}", infinity(limits.pids.map(|n| n.to_string()))),
    ];
    let mut words = vec!["set-property", "--runtime", slice];
    words.extend(properties.iter().map(String::as_str));
    systemctl(&words).await
}

/// Ends a slice that is empty by now.
pub(super) async fn stop(slice: &str) -> Result<(), CgroupError> {
    systemctl(&["stop", slice]).await
}

async fn systemctl(words: &[&str]) -> Result<(), CgroupError> {
    let fail = |why: String| CgroupError::Systemd {
        command: words.join(" "),
        why,
    };
    let run = Command::new("systemctl")
        .args(["--quiet", "--no-ask-password"])
        .args(words)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(LIMIT, run)
        .await
        .map_err(|_| fail(format!("no answer within {} s", LIMIT.as_secs())))?
        .map_err(|e| fail(e.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(fail(said.trim().chars().take(500).collect()))
}
