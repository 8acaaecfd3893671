//! Pod annotations that request network settings.
//!
//! The kubelet's bandwidth annotations limit a pod's traffic; the `network.orlop/` annotations request settings for
//! which Kubernetes has no field. A request takes effect only if a plugin of the network declares the capability: the
//! administrator decides.

use std::collections::BTreeMap;

use crate::bandwidth::InvalidBandwidth;
use crate::cidr::Cidr;
use crate::{Attachment, Bandwidth};

/// IP addresses, with or without a prefix length, separated by commas.
const IPS: &str = "network.orlop/ips";
/// An Ethernet address.
const MAC: &str = "network.orlop/mac";
/// Names, separated by commas.
const ALIASES: &str = "network.orlop/aliases";
/// Eight bytes in hexadecimal, separated by colons.
const INFINIBAND_GUID: &str = "network.orlop/infiniband-guid";

/// Maximum number of addresses or names that a pod can request.
const MAX_ITEMS: usize = 32;

/// An annotation that cannot be honoured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAnnotation {
    /// A bandwidth annotation of the kubelet.
    #[error(transparent)]
    Bandwidth(#[from] InvalidBandwidth),
    /// An annotation of `network.orlop/`.
    #[error("annotation {key}: {value:?} is not {rule}")]
    Malformed {
        /// The annotation's key.
        key: &'static str,
        /// The annotation's value.
        value: String,
        /// The expected form of the value.
        rule: &'static str,
    },
}

impl Attachment {
    /// Stores a pod's annotations and the settings that they request.
    pub fn annotate(
        &mut self,
        annotations: BTreeMap<String, String>,
    ) -> Result<(), InvalidAnnotation> {
        self.bandwidth = Bandwidth::from_annotations(&annotations)?;
        let read = |key: &'static str| annotations.get(key).map(|value| Asked { key, value });
        if let Some(asked) = read(IPS) {
            self.ips = asked.ips()?;
        }
        if let Some(asked) = read(MAC) {
            let rule = "an Ethernet address such as 02:00:0a:01:02:03";
            let mac = asked.value.trim().parse().map_err(|_| asked.wrong(rule))?;
            self.mac = Some(mac);
        }
        if let Some(asked) = read(ALIASES) {
            self.aliases = asked.aliases()?;
        }
        if let Some(asked) = read(INFINIBAND_GUID) {
            self.infiniband_guid = Some(asked.guid()?);
        }
        self.annotations = annotations;
        Ok(())
    }
}

/// An annotation that the pod has.
struct Asked<'a> {
    key: &'static str,
    value: &'a str,
}

impl Asked<'_> {
    fn ips(&self) -> Result<Vec<Cidr>, InvalidAnnotation> {
        let rule = "a list of addresses such as 10.0.0.7/24,fd00::7/64";
        let one = |text: &str| {
            let whole = text.parse::<Cidr>().ok();
            whole.or_else(|| text.parse().ok().map(Cidr::host))
        };
        self.items()
            .map(|text| one(text).ok_or_else(|| self.wrong(rule)))
            .collect::<Result<Vec<_>, _>>()
            .and_then(|ips| self.bounded(ips, rule))
    }

    fn aliases(&self) -> Result<Vec<String>, InvalidAnnotation> {
        let rule = "a list of host names such as web,web.example";
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let one = |text: &str| {
            let good = (1..=253).contains(&text.len()) && text.chars().all(allowed);
            good.then(|| text.to_owned())
        };
        self.items()
            .map(|text| one(text).ok_or_else(|| self.wrong(rule)))
            .collect::<Result<Vec<_>, _>>()
            .and_then(|names| self.bounded(names, rule))
    }

    fn guid(&self) -> Result<String, InvalidAnnotation> {
        let text = self.value.trim();
        let is_byte = |part: &str| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit());
        if text.split(':').count() == 8 && text.split(':').all(is_byte) {
            return Ok(text.to_owned());
        }
        Err(self.wrong("an InfiniBand GUID such as c2:11:22:33:44:55:66:77"))
    }

    fn items(&self) -> impl Iterator<Item = &str> {
        self.value.split(',').map(str::trim)
    }

    fn bounded<T>(&self, items: Vec<T>, rule: &'static str) -> Result<Vec<T>, InvalidAnnotation> {
        if items.len() > MAX_ITEMS {
            return Err(self.wrong(rule));
        }
        Ok(items)
    }

    fn wrong(&self, rule: &'static str) -> InvalidAnnotation {
        InvalidAnnotation::Malformed {
            key: self.key,
            value: self.value.chars().take(64).collect(),
            rule,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotate(pairs: &[(&str, &str)]) -> Result<Attachment, String> {
        let mut pod = Attachment::new("a".parse().unwrap(), "/x");
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pod.annotate(pairs.iter().map(own).collect())
            .map_err(|error| error.to_string())?;
        Ok(pod)
    }

    #[test]
    fn what_is_asked_for_is_taken() {
        let pod = annotate(&[
            ("kubernetes.io/egress-bandwidth", "10M"),
            (IPS, "10.0.0.7/24, fd00::7"),
            (MAC, "02:00:0a:01:02:03"),
            (ALIASES, "web, web.example"),
            (INFINIBAND_GUID, "c2:11:22:33:44:55:66:77"),
            ("other", "kept"),
        ])
        .unwrap();
        assert_eq!(pod.bandwidth.unwrap().egress_rate, 10_000_000);
        let ips: Vec<_> = pod.ips.iter().map(ToString::to_string).collect();
        assert_eq!(ips, ["10.0.0.7/24", "fd00::7/128"]);
        assert_eq!(pod.mac.unwrap().to_string(), "02:00:0a:01:02:03");
        assert_eq!(pod.aliases, ["web", "web.example"]);
        assert_eq!(
            pod.infiniband_guid.as_deref(),
            Some("c2:11:22:33:44:55:66:77")
        );
        assert_eq!(pod.annotations.len(), 6);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let many = vec!["10.0.0.1"; 33].join(",");
        for (key, value) in [
            ("kubernetes.io/ingress-bandwidth", "fast"),
            (IPS, ""),
            (IPS, "10.0.0.1,"),
            (IPS, many.as_str()),
            (MAC, "02:00"),
            (ALIASES, "a b"),
            (ALIASES, "a;K8S_POD_NAME=b"),
            (INFINIBAND_GUID, "c2:11"),
        ] {
            let error = annotate(&[(key, value)]).unwrap_err();
            assert!(error.contains(key), "{error}");
        }
    }
}
