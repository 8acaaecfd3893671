//! IP addresses with a prefix length.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An IP address and the length of its network prefix, as in `10.0.0.5/24`.
///
/// The host bits are kept: the same type describes an interface's address and
/// a subnet ([`Cidr::network`] clears them).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

/// A text that is not an address with a prefix length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address with a prefix length such as 10.0.0.0/24 or fd00::/64")]
pub struct InvalidCidr(String);

impl Cidr {
    /// Combines an address and a prefix length; returns `None` if the prefix is longer than the address.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        (prefix <= width(address)).then_some(Self { address, prefix })
    }

    /// Returns the address as a network of one host (`/32` or `/128`).
    pub fn host(address: IpAddr) -> Self {
        Self {
            address,
            prefix: width(address),
        }
    }

    /// Returns the network of all addresses of a family: `0.0.0.0/0` or `::/0`.
    pub(crate) fn everywhere(v4: bool) -> Self {
        let address: IpAddr = if v4 {
            [0_u8; 4].into()
        } else {
            [0_u8; 16].into()
        };
        Self { address, prefix: 0 }
    }

    /// Returns the address, including the host bits.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the prefix length.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Reports whether the address is IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Returns the network: the same prefix with the host bits cleared.
    pub fn network(&self) -> Self {
        let cleared = to_bits(self.address) & self.mask();
        Self {
            address: from_bits(cleared, self.address),
            prefix: self.prefix,
        }
    }

    /// Returns the highest address of the network (IPv4: the broadcast address).
    pub fn last(&self) -> IpAddr {
        let host_bits = !self.mask() & full(self.address);
        from_bits(to_bits(self.address) | host_bits, self.address)
    }

    /// Reports whether `address` lies in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.is_ipv4()
            && to_bits(address) & self.mask() == to_bits(self.address) & self.mask()
    }

    fn mask(&self) -> u128 {
        let host = u32::from(width(self.address) - self.prefix);
        let all = full(self.address);
        all.checked_shl(host).unwrap_or(0) & all
    }
}

/// Returns the address after `address`, if there is one.
pub(crate) fn next_address(address: IpAddr) -> Option<IpAddr> {
    let next = to_bits(address).checked_add(1)?;
    (next <= full(address)).then(|| from_bits(next, address))
}

/// Returns the address before `address`, if there is one.
pub(crate) fn previous_address(address: IpAddr) -> Option<IpAddr> {
    to_bits(address)
        .checked_sub(1)
        .map(|bits| from_bits(bits, address))
}

/// Returns the bytes of an address, in network order.
pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn full(address: IpAddr) -> u128 {
    if address.is_ipv4() {
        u128::from(u32::MAX)
    } else {
        u128::MAX
    }
}

fn to_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn from_bits(bits: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidCidr(text.chars().take(64).collect());
        let (address, prefix) = text.split_once('/').ok_or_else(invalid)?;
        if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
            return Err(invalid());
        }
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let prefix = prefix.parse().map_err(|_| invalid())?;
        Self::new(address, prefix).ok_or_else(invalid)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Cidr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cidr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn subnet_arithmetic() {
        assert_eq!(cidr("10.1.2.3/20").network(), cidr("10.1.0.0/20"));
        assert_eq!(cidr("10.1.2.3/20").last().to_string(), "10.1.15.255");
        assert_eq!(cidr("0.0.0.0/0").last().to_string(), "255.255.255.255");
        assert_eq!(cidr("fd00::7/64").network(), cidr("fd00::/64"));
        assert!(cidr("fd00::/64").contains("fd00::ffff".parse().unwrap()));
        assert!(!cidr("10.0.0.0/24").contains("10.0.1.0".parse().unwrap()));
        assert!(!cidr("0.0.0.0/0").contains("::1".parse().unwrap()));
        assert_eq!(next_address("255.255.255.255".parse().unwrap()), None);
    }

    #[test]
    fn refuses_what_is_no_cidr() {
        for text in [
            "",
            "10.0.0.1",
            "10.0.0.1/33",
            "10.0.0.1/+4",
            "fe80::1/129",
            "x/8",
            "1.2.3.4/",
        ] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }
}
