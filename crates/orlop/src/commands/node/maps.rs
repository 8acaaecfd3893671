//! Flags that hold several pairs, as the kubelet writes them.

use std::collections::BTreeMap;

use anyhow::bail;

/// `a=b,c=d`.
pub(super) fn pairs(flag: &str, text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    split(flag, text, '=')
}

/// `memory.available<100Mi,nodefs.available<10%`.
pub(super) fn thresholds(flag: &str, text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    split(flag, text, '<')
}

fn split(flag: &str, text: &str, between: char) -> anyhow::Result<BTreeMap<String, String>> {
    let mut map = BTreeMap::new();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        match part.split_once(between) {
            Some((key, value)) if !key.trim().is_empty() => {
                map.insert(key.trim().to_owned(), value.trim().to_owned());
            }
            _ => bail!("--{flag}: `{part}` is not of the form key{between}value"),
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_the_kubelet_reads_them() {
        let read = thresholds(
            "eviction-hard",
            "memory.available<100Mi, nodefs.available<10%",
        )
        .unwrap();
        assert_eq!(read["nodefs.available"], "10%");
        assert_eq!(pairs("x", "").unwrap().len(), 0);
        assert!(pairs("x", "a").is_err() && pairs("x", "=a").is_err());
    }
}
