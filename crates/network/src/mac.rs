//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A 48-bit Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

/// A text that is not an Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an Ethernet address such as 02:00:0a:01:02:03")]
pub struct InvalidMac(String);

impl MacAddress {
    /// Returns a random unicast address with the "locally administered" bit set.
    pub(crate) fn random() -> std::io::Result<Self> {
        let mut bytes = [0_u8; 6];
        random_bytes(&mut bytes)?;
        bytes[0] = (bytes[0] & 0xfe) | 0x02;
        Ok(Self(bytes))
    }

    /// Derives the "locally administered" address for an IPv4 address. The next pod with the same IPv4 address has
    /// the same Ethernet address, so that neighbours need no update.
    pub(crate) fn of_address(address: std::net::Ipv4Addr) -> Self {
        let [a, b, c, d] = address.octets();
        Self([0x0a, 0x58, a, b, c, d])
    }
}

/// Fills `buffer` from the kernel's random generator.
pub(crate) fn random_bytes(buffer: &mut [u8]) -> std::io::Result<()> {
    use std::io::Read as _;
    std::fs::File::open("/dev/urandom")?.read_exact(buffer)
}

impl FromStr for MacAddress {
    type Err = InvalidMac;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidMac(text.chars().take(64).collect());
        let mut bytes = [0_u8; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2).ok_or_else(invalid)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| invalid())?;
        }
        if parts.next().is_some() {
            return Err(invalid());
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.0.map(|byte| format!("{byte:02x}"));
        f.write_str(&parts.join(":"))
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for MacAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MacAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trip() {
        let mac: MacAddress = "02:00:0A:01:02:ff".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:0a:01:02:ff");
        for text in [
            "",
            "02:00",
            "02:00:0a:01:02:ff:00",
            "02:00:0a:01:02:gg",
            "+2:00:0a:01:02:0",
        ] {
            assert!(text.parse::<MacAddress>().is_err(), "{text}");
        }
        assert_eq!(MacAddress::random().unwrap().0[0] & 3, 2);
    }
}
