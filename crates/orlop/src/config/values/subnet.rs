//! Address ranges in CIDR notation.

use orlop_engine::config::Cidr;

use super::text::text_value;

fn read(text: &str) -> Result<Cidr, String> {
    let subnet = text.parse().ok().filter(|cidr: &Cidr| cidr.prefix() > 0);
    let subnet = subnet.ok_or_else(|| format!("{text:?} is not a subnet such as 10.85.0.0/16"))?;
    if subnet.network() != subnet {
        let prefix = subnet.prefix();
        return Err(format!(
            "{text:?} has host bits; all bits after the prefix /{prefix} must be zero"
        ));
    }
    Ok(subnet)
}

text_value!(Cidr, "subnet", read, Cidr::to_string);

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
            assert_eq!(read(good).unwrap().to_string(), good);
        }
        for wrong in [
            "10.85.0.1/16",
            "10.85.0.0",
            "10.85.0.0/33",
            "0.0.0.0/0",
            "fd00::1/64",
            "x/8",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
