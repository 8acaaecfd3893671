//! Kernel parameters of the pod's namespaces.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Sets a parameter. `/proc/sys` shows this process's own namespaces, whichever mount it is read
/// through.
pub(crate) fn set(name: &str, value: &str) -> Result<(), String> {
    let path = path_of(name).ok_or_else(|| format!("{name:?} is no name of a kernel parameter"))?;
    OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|error| format!("setting kernel parameter {name} to {value:?}: {error}"))
}

/// The file of a parameter. As with sysctl(8), the first separator decides: with dots, a slash
/// stands for a dot within a part; with slashes, a dot is itself.
fn path_of(name: &str) -> Option<PathBuf> {
    let separator = name.chars().find(|c| matches!(c, '.' | '/'))?;
    let relative: String = if separator == '/' {
        name.to_owned()
    } else {
        let swap = |c| match c {
            '.' => '/',
            '/' => '.',
            other => other,
        };
        name.chars().map(swap).collect()
    };
    let decent = |part: &str| !part.is_empty() && part != "." && part != "..";
    relative
        .split('/')
        .all(decent)
        .then(|| PathBuf::from(format!("/proc/sys/{relative}")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::path_of;

    #[test]
    fn both_spellings_lead_to_the_file() {
        let expected = Some(Path::new("/proc/sys/net/ipv4/conf/eth0.100/forwarding"));
        for name in [
            "net.ipv4.conf.eth0/100.forwarding",
            "net/ipv4/conf/eth0.100/forwarding",
        ] {
            assert_eq!(path_of(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn names_that_lead_out_of_proc_sys_are_refused() {
        for name in [
            "",
            "net",
            "net/../../etc",
            "..//..",
            "net...x",
            "/etc/passwd",
        ] {
            assert_eq!(path_of(name), None, "{name}");
        }
    }
}
