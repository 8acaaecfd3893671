//! `features`: the features that a shim or a runtime reports, in the format of the OCI specification.

use std::io::Write;
use std::process::{Command, Stdio};

use orlop_containerd_api::Message;
use orlop_containerd_api::types::RuntimeInfo;

use crate::arguments::Settings;
use crate::launch;

/// Maximum size of the report.
const LONGEST: u64 = 1 << 20;

/// The report for shims without one.
const NOTHING: &str = r#"{"ociVersionMin":"1.0.0","ociVersionMax":"1.1.0"}"#;

pub(crate) fn print(told: Option<&str>) {
    println!("{}", told.unwrap_or(NOTHING));
}

pub(crate) fn of_shim(settings: &Settings) -> Option<String> {
    ask(settings).and_then(|answer| of_info(&answer))
}

/// Runs the shim with `-info`, which older shims do not support. The caller sets the time limit.
fn ask(settings: &Settings) -> Option<Vec<u8>> {
    let mut child = Command::new(&settings.shim)
        .arg("-info")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    if let (Some(mut stdin), Some(options)) = (child.stdin.take(), launch::options(settings).ok()?)
    {
        let _ = stdin.write_all(&options.encode_to_vec());
    }
    let answer = orlop_fs::read_start(child.stdout.take()?, LONGEST);
    let status = child.wait().ok()?;
    answer.ok().filter(|_| status.success())
}

/// Extracts the features, which are JSON.
fn of_info(info: &[u8]) -> Option<String> {
    let features = RuntimeInfo::decode(info).ok()?.features?;
    let json: serde_json::Value = serde_json::from_slice(&features.value).ok()?;
    json.is_object().then(|| json.to_string())
}

#[cfg(test)]
mod tests {
    use orlop_containerd_api::types::RuntimeInfo;
    use orlop_containerd_api::{Any, Message};

    use super::of_info;

    #[test]
    fn features_are_found_in_what_a_shim_says_of_itself() {
        let info = |json: &str| {
            let info = RuntimeInfo {
                name: "io.containerd.runc.v2".into(),
                features: Some(Any {
                    type_url: "a type".into(),
                    value: json.into(),
                }),
                ..RuntimeInfo::default()
            };
            info.encode_to_vec()
        };
        let told = of_info(&info(r#"{"ociVersionMax": "1.2.0"}"#));
        assert_eq!(told.as_deref(), Some(r#"{"ociVersionMax":"1.2.0"}"#));
        for nothing in ["", "[]", "{", "1"] {
            assert_eq!(of_info(&info(nothing)), None, "{nothing:?}");
        }
        assert_eq!(of_info(&[0x22, 0xff]), None);
    }
}
