//! Requests to CRIU.

use std::collections::BTreeMap;

use super::options::Options;
use super::rpc::{
    CriuCgMode, CriuFeatures, CriuOpts, CriuReq, CriuReqType, ExtMountMap, InheritFd,
};

/// CRIU's cgroup modes, by the names of `--manage-cgroups-mode`.
pub(crate) const CGROUP_MODES: [(&str, CriuCgMode); 5] = [
    ("", CriuCgMode::Default),
    ("soft", CriuCgMode::Soft),
    ("full", CriuCgMode::Full),
    ("strict", CriuCgMode::Strict),
    ("ignore", CriuCgMode::Ignore),
];

/// The annotation that names a configuration file for CRIU.
const CONFIG_FILE: &str = "org.criu.config";
/// The default configuration file.
const USUAL_CONFIG_FILE: &str = "/etc/criu/runc.conf";

/// The log level: everything but messages for CRIU's own developers.
const LOG_LEVEL: i32 = 4;

impl CriuOpts {
    /// Options that checkpoint and restore share.
    pub(super) fn new(
        options: &Options,
        log: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Self {
        let config_file = match annotations.get(CONFIG_FILE).map(String::as_str) {
            None => Some(USUAL_CONFIG_FILE),
            Some("") => None,
            given => given,
        };
        Self {
            log_level: Some(LOG_LEVEL),
            log_file: Some(log.into()),
            // CRIU uses the mode only if this is set.
            manage_cgroups: Some(true),
            manage_cgroups_mode: Some(options.cgroups_mode.into()),
            notify_scripts: Some(true),
            ext_unix_sk: Some(options.ext_unix_sk),
            tcp_established: Some(options.tcp_established),
            shell_job: Some(options.shell_job),
            file_locks: Some(options.file_locks),
            auto_dedup: Some(options.auto_dedup),
            lazy_pages: Some(options.lazy_pages),
            orphan_pts_master: Some(true),
            // The runtime never handles network devices and their settings.
            empty_ns: Some(libc::CLONE_NEWNET as u32),
            config_file: config_file.map(str::to_owned),
            ..Self::default()
        }
    }

    /// Adds an external mount. At a checkpoint: its path and its name. At a restore: its name and its source.
    pub(super) fn mount(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.ext_mnt.push(ExtMountMap {
            key: key.into(),
            val: value.into(),
        });
    }

    /// Adds an existing external resource, by a descriptor that CRIU has inherited.
    pub(super) fn inherit(&mut self, key: impl Into<String>, fd: i32) {
        let key = key.into();
        self.inherit_fd.push(InheritFd { key, fd });
    }

    /// Returns a request with these options.
    pub(super) fn request(self, kind: CriuReqType) -> CriuReq {
        CriuReq {
            r#type: kind.into(),
            opts: Some(self),
            ..CriuReq::default()
        }
    }
}

/// Returns a check whether CRIU and the kernel support features.
pub(super) fn feature_check(features: CriuFeatures) -> CriuReq {
    CriuReq {
        r#type: CriuReqType::FeatureCheck.into(),
        features: Some(features),
        ..CriuReq::default()
    }
}

/// Returns the reply to a notification.
pub(super) fn noticed() -> CriuReq {
    CriuReq {
        r#type: CriuReqType::Notify.into(),
        notify_success: Some(true),
        ..CriuReq::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_may_name_its_settings_or_decline_any() {
        let file = |annotations: &[(&str, &str)]| {
            let annotations = annotations
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            CriuOpts::new(&Options::default(), "log", &annotations).config_file
        };
        assert_eq!(file(&[]).as_deref(), Some("/etc/criu/runc.conf"));
        assert_eq!(file(&[("org.criu.config", "")]), None);
        assert_eq!(file(&[("org.criu.config", "/c")]).as_deref(), Some("/c"));
    }
}
