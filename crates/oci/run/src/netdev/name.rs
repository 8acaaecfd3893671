//! Names of network devices.

use orlop_oci_types::Linux;

use crate::error::{Error, Result};

/// `IFNAMSIZ`, which includes the final NUL.
const LIMIT: usize = 16;

/// Refuses names that the kernel does not accept. The new name may be a template: the kernel replaces its `%d` with the
/// first free number.
pub(crate) fn check(linux: &Linux) -> Result<()> {
    for (name, device) in &linux.net_devices {
        let told = format!("linux.netDevices[{name:?}]");
        if !is_valid(name) || name.contains('%') {
            let why = format!("{told}: invalid network device name {name:?}");
            return Err(Error::new(why));
        }
        let new = &device.name;
        let plain = !new.contains('%');
        let template = new.matches('%').count() == 1 && new.contains("%d");
        let good = new.is_empty() || (is_valid(new) && (plain || template));
        if !good {
            let why = format!("{told}.name: invalid network device name {new:?}");
            return Err(Error::new(why));
        }
    }
    Ok(())
}

/// Returns whether the name is valid by the kernel's rules (`dev_valid_name`).
fn is_valid(name: &str) -> bool {
    let bad =
        |byte: u8| matches!(byte, b'/' | b':' | 0 | 0x0b | 0xa0) || byte.is_ascii_whitespace();
    !matches!(name, "" | "." | "..") && name.len() < LIMIT && !name.bytes().any(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, new: &str) -> Result<(), String> {
        let linux = serde_json::json!({ "netDevices": { name: { "name": new } } });
        check(&serde_json::from_value(linux).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_those_that_the_kernel_takes() {
        for (name, new) in [
            ("eth0", ""),
            ("eth0", "fifteen-letters"),
            ("a.b-c@d", "net%d"),
        ] {
            assert_eq!(said(name, new), Ok(()), "{name} {new}");
        }
        let long = "sixteen--letters";
        for bad in [
            "", ".", "..", "a/b", "a:b", "a b", "a\tb", "a\u{b}b", "a\0b", "net%d", long,
        ] {
            let why = format!("linux.netDevices[{bad:?}]: invalid network device name {bad:?}");
            assert_eq!(said(bad, ""), Err(why));
        }
        for bad in [".", "a/b", long, "%s", "a%", "%d%d", "%d%"] {
            let why =
                format!("linux.netDevices[\"eth0\"].name: invalid network device name {bad:?}");
            assert_eq!(said("eth0", bad), Err(why));
        }
    }
}
