//! `features`: what the shim says that its runtime can do, in the words of the OCI specification.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::arguments::Settings;
use crate::launch;
use crate::proto::fields;

/// As much as any shim has to say.
const LONGEST: u64 = 1 << 20;

/// Of shims that say nothing.
const NOTHING: &str = r#"{"ociVersionMin":"1.0.0","ociVersionMax":"1.1.0"}"#;

pub(crate) fn run(settings: &Settings) {
    let told = match &settings.inner {
        Some(inner) => crate::sandboxed::features(settings, inner),
        None => ask(settings).and_then(|answer| of_info(&answer)),
    };
    println!("{}", told.as_deref().unwrap_or(NOTHING));
}

/// The answer to `-info`, which older shims do not know. The caller limits the time.
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
        let _ = stdin.write_all(&options.encode());
    }
    let answer = orlop_disk::read_start(child.stdout.take()?, LONGEST);
    let status = child.wait().ok()?;
    answer.ok().filter(|_| status.success())
}

/// `containerd.types.RuntimeInfo`: its fourth field is a message that holds JSON in its second.
fn of_info(info: &[u8]) -> Option<String> {
    let features = fields(info).flatten().find(|field| field.number == 4)?;
    let value = fields(features.as_bytes())
        .flatten()
        .find(|field| field.number == 2)?;
    let json: serde_json::Value = serde_json::from_slice(value.as_bytes()).ok()?;
    json.is_object().then(|| json.to_string())
}

#[cfg(test)]
mod tests {
    use super::of_info;
    use crate::proto::Writer;

    #[test]
    fn features_are_found_in_what_a_shim_says_of_itself() {
        let info = |json: &str| {
            let features = Writer::default().text(1, "a type").text(2, json).done();
            let info = Writer::default().text(1, "io.containerd.runc.v2");
            info.message(4, &features).done()
        };
        let told = of_info(&info(r#"{"ociVersionMax": "1.2.0"}"#));
        assert_eq!(told.as_deref(), Some(r#"{"ociVersionMax":"1.2.0"}"#));
        for nothing in ["", "[]", "{", "1"] {
            assert_eq!(of_info(&info(nothing)), None, "{nothing:?}");
        }
        assert_eq!(of_info(&[0x22, 0xff]), None);
    }
}
