//! DNS settings in configurations.

use std::path::Path;

use serde::Deserialize as _;

use super::call::Call;
use crate::cni::Dns;
use crate::error::NativeError;

/// Returns the DNS settings in a plugin's own configuration, which override those of its address plugin; `None` if it
/// has none.
pub(super) fn configured(call: &Call<'_>) -> Option<Dns> {
    let dns = call.conf.get("dns")?;
    let dns = Dns::deserialize(dns).ok()?;
    (!dns.is_empty()).then_some(dns)
}

/// Reads the settings from a file in the form of `/etc/resolv.conf`.
pub(super) fn read_resolv_conf(path: &Path) -> Result<Dns, NativeError> {
    let text = orlop_fs::read_text(path, orlop_fs::SMALL_FILE)
        .map_err(NativeError::system(format!("read {}", path.display())))?;
    let mut dns = Dns::default();
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            continue;
        }
        let mut words = line.split_whitespace();
        let keyword = words.next();
        let words = words.map(str::to_owned);
        match keyword {
            Some("nameserver") => dns.nameservers.extend(words.take(1)),
            Some("domain") => dns.domain = words.take(1).collect(),
            Some("search") => dns.search.extend(words),
            Some("options") => dns.options.extend(words),
            _ => {}
        }
    }
    Ok(dns)
}
