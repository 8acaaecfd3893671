//! Address ranges in CIDR notation.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::text::text_value;

/// An address range such as `10.85.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subnet {
    address: IpAddr,
    prefix: u8,
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a subnet such as 10.85.0.0/16");
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        let (bits, width) = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        if prefix == 0 || prefix > width {
            return Err(wrong());
        }
        if bits.checked_shl(prefix.into()).unwrap_or(0) != 0 {
            return Err(format!(
                "{text:?} has address bits set beyond its /{prefix}"
            ));
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

text_value!(Subnet, "subnet");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_is_an_address_without_host_bits() {
        for good in [
            "10.85.0.0/16",
            "192.168.1.128/25",
            "fd00:85::/64",
            "1.2.3.4/32",
        ] {
            assert_eq!(good.parse::<Subnet>().unwrap().to_string(), good);
        }
        for wrong in [
            "10.85.0.1/16",
            "10.85.0.0",
            "10.85.0.0/33",
            "0.0.0.0/0",
            "fd00::1/64",
            "x/8",
        ] {
            assert!(wrong.parse::<Subnet>().is_err(), "{wrong}");
        }
    }
}
