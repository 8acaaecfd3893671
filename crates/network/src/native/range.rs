//! Address ranges of the host-local plugin's configuration.

use std::net::IpAddr;

use serde::Deserialize;

use crate::Cidr;
use crate::cidr::{next_address, previous_address};
use crate::error::NativeError;

/// A range in the configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RangeConf {
    subnet: Cidr,
    #[serde(default)]
    range_start: Option<IpAddr>,
    #[serde(default)]
    range_end: Option<IpAddr>,
    #[serde(default)]
    gateway: Option<IpAddr>,
}

/// A range with all its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) subnet: Cidr,
    pub(super) start: IpAddr,
    pub(super) end: IpAddr,
    pub(super) gateway: IpAddr,
}

/// Ranges of one family, of which an attachment gets one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RangeSet(pub(super) Vec<Range>);

impl Range {
    fn new(conf: &RangeConf) -> Result<Self, String> {
        let subnet = conf.subnet;
        let bits = if subnet.is_ipv4() { 32 } else { 128 };
        if subnet.prefix() > bits - 2 {
            return Err(format!("Network {subnet} too small to allocate from"));
        }
        if subnet.network() != subnet {
            return Err(format!(
                "Network has host bits set. For a subnet mask of length {} the network address is {}",
                subnet.prefix(),
                subnet.network().address()
            ));
        }
        let first = next_address(subnet.address()).unwrap_or(subnet.address());
        let last = subnet.last();
        // IPv4's last address is the broadcast address.
        let last = if subnet.is_ipv4() {
            previous_address(last).unwrap_or(last)
        } else {
            last
        };
        let start = conf.range_start.unwrap_or(first);
        if !subnet.contains(start) {
            return Err(format!("RangeStart {start} not in network {subnet}"));
        }
        let end = conf.range_end.unwrap_or(last);
        if !subnet.contains(end) {
            return Err(format!("RangeEnd {end} not in network {subnet}"));
        }
        if end < start {
            return Err(format!("RangeStart {start} not in network {subnet}"));
        }
        Ok(Self {
            subnet,
            start,
            end,
            gateway: conf.gateway.unwrap_or(first),
        })
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.subnet.contains(address) && self.start <= address && address <= self.end
    }
}

impl RangeSet {
    /// Checks a set of ranges, and fills in missing bounds.
    pub(super) fn new(confs: &[RangeConf]) -> Result<Self, String> {
        let ranges = confs
            .iter()
            .map(Range::new)
            .collect::<Result<Vec<_>, _>>()?;
        let Some(first) = ranges.first() else {
            return Err("empty range set".to_owned());
        };
        if ranges
            .iter()
            .any(|range| range.subnet.is_ipv4() != first.subnet.is_ipv4())
        {
            return Err("mixed address families".to_owned());
        }
        for (index, range) in ranges.iter().enumerate() {
            if let Some(other) = ranges[..index].iter().find(|other| overlap(range, other)) {
                return Err(format!(
                    "subnets {}-{} and {}-{} overlap",
                    other.start, other.end, range.start, range.end
                ));
            }
        }
        Ok(Self(ranges))
    }

    pub(super) fn containing(&self, address: IpAddr) -> Option<&Range> {
        self.0.iter().find(|range| range.contains(address))
    }

    /// Iterates over all addresses except the gateways, from the one after `last` round to `last`.
    pub(super) fn after(&self, last: Option<IpAddr>) -> impl Iterator<Item = (&Range, IpAddr)> {
        let from =
            last.and_then(|last| Some((self.0.iter().position(|r| r.contains(last))?, last)));
        let (index, next) = match from {
            Some((index, last)) => (index, next_address(last)),
            None => (0, self.0.first().map(|range| range.start)),
        };
        Walk {
            set: self,
            index,
            next,
            left_rounds: 2,
            stop: from.map(|(_, last)| last),
        }
        .filter(|(range, address)| *address != range.gateway)
    }

    pub(super) fn describe(&self) -> String {
        let ranges: Vec<_> = self
            .0
            .iter()
            .map(|r| format!("{}-{}", r.start, r.end))
            .collect();
        ranges.join(",")
    }
}

/// Refuses sets that share addresses.
pub(super) fn refuse_overlaps(sets: &[RangeSet]) -> Result<(), NativeError> {
    for (index, set) in sets.iter().enumerate() {
        for (offset, other) in sets[index + 1..].iter().enumerate() {
            if set.0.iter().any(|a| other.0.iter().any(|b| overlap(a, b))) {
                return Err(NativeError::Config(format!(
                    "range set {index} overlaps with {}",
                    index + offset + 1
                )));
            }
        }
    }
    Ok(())
}

fn overlap(a: &Range, b: &Range) -> bool {
    a.contains(b.start) || a.contains(b.end) || b.contains(a.start) || b.contains(a.end)
}

/// Iterator over a set's addresses, once each, from any start.
struct Walk<'a> {
    set: &'a RangeSet,
    index: usize,
    next: Option<IpAddr>,
    left_rounds: u8,
    stop: Option<IpAddr>,
}

impl<'a> Iterator for Walk<'a> {
    type Item = (&'a Range, IpAddr);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let range = self.set.0.get(self.index)?;
            if let Some(address) = self.next.filter(|address| *address <= range.end) {
                self.next = next_address(address);
                if self.left_rounds < 2 && self.stop == Some(address) {
                    // Back at the start: this address is the last one.
                    self.left_rounds = 0;
                    self.index = usize::MAX;
                }
                return Some((range, address));
            }
            self.index += 1;
            if self.index >= self.set.0.len() {
                // If it began at the first address, one round is complete.
                if self.stop.is_none() || self.left_rounds < 2 {
                    return None;
                }
                self.index = 0;
                self.left_rounds -= 1;
            }
            self.next = self.set.0.get(self.index).map(|range| range.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: serde_json::Value) -> Result<RangeSet, String> {
        RangeSet::new(&serde_json::from_value::<Vec<RangeConf>>(value).unwrap())
    }

    fn walk(set: &RangeSet, last: Option<&str>) -> Vec<String> {
        let last = last.map(|text| text.parse().unwrap());
        set.after(last)
            .map(|(_, address)| address.to_string())
            .collect()
    }

    #[test]
    fn addresses_come_round_robin_without_the_gateway() {
        let set = set(json!([
            {"subnet": "10.0.0.0/29"},
            {"subnet": "10.0.1.0/24", "rangeStart": "10.0.1.9", "rangeEnd": "10.0.1.10"},
        ]))
        .unwrap();
        let all = [
            "10.0.0.2",
            "10.0.0.3",
            "10.0.0.4",
            "10.0.0.5",
            "10.0.0.6",
            "10.0.1.9",
            "10.0.1.10",
        ];
        assert_eq!(walk(&set, None), all);
        assert_eq!(walk(&set, Some("10.9.9.9")), all);
        let mut turned = all.to_vec();
        turned.rotate_left(4);
        assert_eq!(walk(&set, Some("10.0.0.5")), turned);
        assert_eq!(walk(&set, Some("10.0.1.10")), all);
        assert_eq!(
            walk(&set, Some("10.0.0.1")),
            all,
            "the last one was the gateway"
        );
    }

    #[test]
    fn a_large_ipv6_range_is_walked_lazily() {
        let set = set(json!([{"subnet": "fd00::/64"}])).unwrap();
        let (range, first) = set.after(None).next().unwrap();
        assert_eq!(
            (
                first.to_string().as_str(),
                range.gateway.to_string().as_str()
            ),
            ("fd00::2", "fd00::1")
        );
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        for (value, part) in [
            (json!([{"subnet": "10.0.0.0/31"}]), "too small"),
            (json!([{"subnet": "10.0.0.1/24"}]), "host bits"),
            (
                json!([{"subnet": "10.0.0.0/24", "rangeStart": "10.0.1.1"}]),
                "RangeStart",
            ),
            (
                json!([{"subnet": "10.0.0.0/24", "rangeEnd": "10.0.1.1"}]),
                "RangeEnd",
            ),
            (
                json!([{"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/64"}]),
                "mixed",
            ),
            (
                json!([{"subnet": "10.0.0.0/24"}, {"subnet": "10.0.0.0/25"}]),
                "overlap",
            ),
            (json!([]), "empty"),
        ] {
            let error = set(value).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
