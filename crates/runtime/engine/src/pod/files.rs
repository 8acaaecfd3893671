//! The files that all containers of a pod share: `/etc/hostname`, `/etc/hosts`, `/etc/resolv.conf`.

use std::fmt::Write as _;
use std::path::Path;

use crate::ask::FilesAsk;
use crate::error::{Error, Result};
use crate::record::pod::Pod;
use crate::record::pod_files::PodFiles;

/// Writes the files of a pod.
pub fn write(pod: &Pod, asked: &FilesAsk) -> Result<()> {
    let files = PodFiles::of(pod);
    let name = &asked.hostname;
    write_text(&files.hostname, &format!("{name}\n"))?;
    if pod.host_network() {
        copy_or_empty(Path::new("/etc/hosts"), &files.hosts)?;
    } else {
        write_text(&files.hosts, &hosts(name, &pod.ips()))?;
    }
    match &asked.resolv_conf {
        Some(text) => write_text(&files.resolv, text),
        // Copy the host's file.
        None => copy_or_empty(Path::new("/etc/resolv.conf"), &files.resolv),
    }
}

fn hosts(name: &str, ips: &[String]) -> String {
    let mut text = String::from(
        "127.0.0.1\tlocalhost\n\
         ::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\n\
         ff00::0\tip6-mcastprefix\n\
         ff02::1\tip6-allnodes\n\
         ff02::2\tip6-allrouters\n",
    );
    for ip in ips {
        let _ = writeln!(text, "{ip}\t{name}");
    }
    text
}

fn copy_or_empty(from: &Path, to: &Path) -> Result<()> {
    let content = match orlop_fs::read_file(from, orlop_fs::SMALL_FILE) {
        Ok(content) => content,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Error::io(format!("reading {}", from.display()))(error).into()),
    };
    std::fs::write(to, content)
        .map_err(Error::io(format!("writing {}", to.display())))
        .map_err(Into::into)
}

fn write_text(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .map_err(Error::io(format!("writing {}", path.display())))
        .map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pods_name_leads_to_its_addresses() {
        let text = hosts("web-0", &["10.1.0.7".into(), "fd00::7".into()]);
        assert!(
            text.ends_with("10.1.0.7\tweb-0\nfd00::7\tweb-0\n"),
            "{text}"
        );
        assert!(text.starts_with("127.0.0.1\tlocalhost\n"));
    }
}
