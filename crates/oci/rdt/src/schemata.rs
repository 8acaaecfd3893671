//! The kernel's format of a group's shares: `L3:0=fffff;1=fffff`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Values by resource name and domain ID.
pub(crate) type Schemata = BTreeMap<String, BTreeMap<u32, u64>>;

/// Parses the content of a `schemata` file. Unknown lines are skipped.
pub(crate) fn parse(text: &str) -> Schemata {
    let mut found = Schemata::new();
    for line in text.lines() {
        let Some((resource, domains)) = line.split_once(':') else {
            continue;
        };
        let resource = resource.trim();
        let radix = if resource.starts_with('L') { 16 } else { 10 };
        let of = |domain: &str| {
            let (id, value) = domain.split_once('=')?;
            let value = u64::from_str_radix(value.trim(), radix).ok()?;
            Some((id.trim().parse().ok()?, value))
        };
        if let Some(domains) = domains.split(';').map(of).collect() {
            found.insert(resource.to_owned(), domains);
        }
    }
    found
}

/// Formats the values in the kernel's format.
pub(crate) fn render(schemata: &Schemata) -> String {
    let mut text = String::new();
    for (resource, domains) in schemata {
        let of = |(id, value): (&u32, &u64)| {
            if resource.starts_with('L') {
                format!("{id}={value:x}")
            } else {
                format!("{id}={value}")
            }
        };
        let domains: Vec<String> = domains.iter().map(of).collect();
        let _ = writeln!(text, "{resource}:{}", domains.join(";"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read_and_written() {
        let text = "    MB:0= 100;1=  50\nL3CODE:0=fffff;1=0000f\nodd\nL2:x=1\n";
        let found = parse(text);
        assert_eq!(found["MB"], [(0, 100), (1, 50)].into());
        assert_eq!(found["L3CODE"], [(0, 0xf_ffff), (1, 0xf)].into());
        assert_eq!(found.len(), 2);
        assert_eq!(render(&found), "L3CODE:0=fffff;1=f\nMB:0=100;1=50\n");
    }
}
