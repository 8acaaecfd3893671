//! Determines the hosts to ask for each location of an image.
//!
//! `registries.conf` contains the locations. The `hosts.toml` of a location's host contains its connection settings,
//! and other hosts to ask instead.

use std::path::PathBuf;
use std::sync::Arc;

use orlop_credentials::same_registry;

use super::host::{Host, SourceOf};
use super::hosts::{DecidedBy, hosts_for};
use crate::Result;
use crate::registries::Source;

/// Returns the hosts to ask, in order. Blocks on small files.
pub(super) fn hosts_of<'s>(
    dirs: &[PathBuf],
    sources: impl Iterator<Item = &'s Source>,
) -> Result<Vec<Host>> {
    let mut hosts = Vec::new();
    for source in sources {
        hosts.extend(hosts_of_one(dirs, source)?);
    }
    Ok(hosts)
}

/// Returns the hosts of one location.
pub(super) fn hosts_of_one(dirs: &[PathBuf], source: &Source) -> Result<Vec<Host>> {
    let domain = source.repository.domain();
    let (found, by) = hosts_for(dirs, domain)?;
    let mut hosts = Vec::new();
    for mut host in found {
        host.source = Some(SourceOf {
            repository: source.repository.clone(),
            is_mirror: source.is_mirror,
            place: source.place.clone(),
        });
        // `insecure` applies only if the host has no settings of its own.
        let is_meant = by == DecidedBy::Default && same_registry(&host.name(), domain);
        if source.insecure && is_meant {
            hosts.extend(by_any_protocol(host));
        } else {
            hosts.push(host);
        }
    }
    Ok(hosts)
}

/// Returns the host with any certificate accepted, then without TLS.
fn by_any_protocol(host: Host) -> Vec<Host> {
    let (mut https, mut plain) = (host.clone(), host);
    plain.standing = Arc::default();
    let can_be = https.base.set_scheme("https").is_ok() && plain.base.set_scheme("http").is_ok();
    if !can_be {
        return vec![https];
    }
    https.tls.skip_verify = true;
    https.twin = Some(Arc::clone(&plain.standing));
    plain.twin = Some(Arc::clone(&https.standing));
    vec![https, plain]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Reference;
    use crate::registries::{Asking, Document, Registries};

    const CONF: &str = r#"
        [[registry]]
        location = "a.example"
        [[registry.mirror]]
        location = "m.example/a"
        insecure = true
        [[registry.mirror]]
        location = "n.example"
        [[registry]]
        location = "127.0.0.1:5000"
        insecure = true
    "#;

    /// Returns the addresses that a name leads to, with `!` if any certificate is accepted.
    fn asked(dirs: &[PathBuf], name: &str) -> Vec<String> {
        let mut registries = Registries::default();
        registries.adopt(Document::parse(Path::new("/r.conf"), CONF).unwrap());
        let name: Reference = name.parse().unwrap();
        let asking = Asking::For(name.selector().clone());
        let sources = registries.sources(name.repository(), &asking).unwrap();
        let hosts = hosts_of(dirs, sources.iter()).unwrap();
        let shown = |host: &Host| {
            let mark = if host.tls.skip_verify { "!" } else { "" };
            let path = host.source.as_ref().unwrap().repository.path();
            format!("{mark}{}/{path}", host.base)
        };
        hosts.iter().map(shown).collect()
    }

    fn write(dir: &Path, name: &str, text: &str) {
        std::fs::create_dir_all(dir.join(name)).unwrap();
        std::fs::write(dir.join(name).join("hosts.toml"), text).unwrap();
    }

    #[test]
    fn without_settings_of_hosts_the_places_are_asked_as_they_are_named() {
        assert_eq!(
            asked(&[], "a.example/x:1"),
            [
                "!https://m.example/v2/a/x",
                "http://m.example/v2/a/x",
                "https://n.example/v2/x",
                "https://a.example/v2/x"
            ]
        );
        assert_eq!(
            asked(&[], "127.0.0.1:5000/x"),
            ["!https://127.0.0.1:5000/v2/x", "http://127.0.0.1:5000/v2/x"]
        );
    }

    #[test]
    fn what_is_said_of_a_host_decides_how_that_is_asked() {
        let scratch = tempfile::tempdir().unwrap();
        let dirs = [scratch.path().to_owned()];
        write(&dirs[0], "m.example", "[host.\"https://near.example\"]\n");
        write(&dirs[0], "a.example", "server = \"https://moved.example\"");
        assert_eq!(
            asked(&dirs, "a.example/x:1"),
            [
                "https://near.example/v2/a/x",
                "https://m.example/v2/a/x",
                "https://n.example/v2/x",
                "https://moved.example/v2/x"
            ]
        );
    }

    #[test]
    fn what_is_said_of_all_hosts_does_not_undo_what_is_said_of_one() {
        let scratch = tempfile::tempdir().unwrap();
        let dirs = [scratch.path().to_owned()];
        write(&dirs[0], "_default", "[host.\"https://near.example\"]\n");
        assert_eq!(
            asked(&dirs, "127.0.0.1:5000/x"),
            [
                "https://near.example/v2/x",
                "!https://127.0.0.1:5000/v2/x",
                "http://127.0.0.1:5000/v2/x"
            ]
        );
    }
}
