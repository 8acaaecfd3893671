//! A pod's `resolv.conf`. The engine writes one that is mixed with the host's. It is replaced in the same file, which
//! is already mounted.

use std::io::Write as _;
use std::path::Path;

use orlop_cri_api::v1::DnsConfig;

use crate::error::{Error, Result};

/// Writes the pod's DNS configuration, if it has one.
pub(crate) async fn write(path: &str, dns: Option<&DnsConfig>) -> Result<()> {
    let Some(text) = dns.map(text).filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    if path.is_empty() {
        let problem = "the Docker Engine does not report the path of the pod's resolv.conf";
        return Err(Error::Internal(problem.to_owned()).into());
    }
    let path = path.to_owned();
    let doing = format!("writing the pod's DNS settings to {path}");
    let written = orlop_pool::blocking(move || {
        std::fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(Path::new(&path))?
            .write_all(text.as_bytes())
    });
    match written.await {
        Ok(written) => Ok(written.map_err(Error::io(doing))?),
        Err(_) => Err(Error::Internal(doing).into()),
    }
}

fn text(dns: &DnsConfig) -> String {
    // Values with whitespace are skipped: they could start a line of their own.
    let clean = |word: &String| !word.is_empty() && !word.contains(char::is_whitespace);
    let mut text = String::new();
    for server in dns.servers.iter().filter(|word| clean(word)) {
        text.extend(["nameserver ", server, "\n"]);
    }
    for (key, words) in [("search", &dns.searches), ("options", &dns.options)] {
        let words: Vec<_> = words.iter().filter(|word| clean(word)).cloned().collect();
        if !words.is_empty() {
            text.extend([key, " ", &words.join(" "), "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_file_keeps_its_identity() {
        use std::os::unix::fs::MetadataExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("resolv.conf");
        std::fs::write(&path, "nameserver 9.9.9.9\nsearch a-long-name.example\n").unwrap();
        let inode = std::fs::metadata(&path).unwrap().ino();
        let dns = DnsConfig {
            servers: vec!["10.0.0.10".into(), "bad\nnameserver 6.6.6.6".into()],
            searches: vec!["a.b".into(), "c".into()],
            options: vec!["ndots:5".into()],
        };
        let path_text = path.to_str().unwrap();
        write(path_text, Some(&dns)).await.unwrap();
        let expected = "nameserver 10.0.0.10\nsearch a.b c\noptions ndots:5\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        write(path_text, Some(&DnsConfig::default())).await.unwrap();
        write("", None).await.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(std::fs::metadata(&path).unwrap().ino(), inode);
        assert!(write("", Some(&dns)).await.is_err());
    }
}
