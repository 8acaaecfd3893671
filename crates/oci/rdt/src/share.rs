//! Parses shares of a cache or of memory bandwidth.

use orlop_yaml::{Content, Entry, Node};

use crate::mask::{block, is_block};

/// An error with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) line: usize,
    pub(crate) why: String,
}

impl Wrong {
    pub(crate) fn at(line: usize, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { line, why }
    }
}

/// The result of parsing.
pub(crate) type Read<T> = Result<T, Wrong>;

/// A request for ways of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ways {
    /// A percentage.
    Percent(u32),
    /// A range of percentages, both inclusive.
    Range(u32, u32),
    /// A bit mask.
    Bits(u64),
}

/// A request for ways, with its position in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) ways: Ways,
}

/// The use of a cache, if code and data are separate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Any,
    Code,
    Data,
}

/// The share of one cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CacheShare {
    unified: Share,
    code_and_data: Option<(Share, Share)>,
}

impl CacheShare {
    /// Returns the share for a use.
    pub(crate) fn of(&self, used: Use) -> &Share {
        match (used, &self.code_and_data) {
            (Use::Code, Some((code, _))) => code,
            (Use::Data, Some((_, data))) => data,
            _ => &self.unified,
        }
    }
}

/// The share of the bandwidth, in each unit that a machine may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bandwidth {
    pub(crate) line: usize,
    pub(crate) percent: Option<u32>,
    pub(crate) mbps: Option<u32>,
}

/// A value for each cache: for named ones, and a default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PerCache<T> {
    pub(crate) line: usize,
    others: Option<T>,
    named: Vec<(Vec<(u32, u32)>, T)>,
}

impl<T> PerCache<T> {
    /// Returns the value for a cache; `None` if it is unset, which means all.
    pub(crate) fn of(&self, id: u32) -> Option<&T> {
        let named = self.named.iter().find(|(ids, _)| holds(ids, id));
        named.map(|(_, value)| value).or(self.others.as_ref())
    }
}

fn holds(ids: &[(u32, u32)], id: u32) -> bool {
    ids.iter().any(|(from, to)| (*from..=*to).contains(&id))
}

/// Parses `"60%"`, `{all: "60%", 2-3: {unified: …}}`.
pub(crate) fn caches(node: &Node) -> Read<PerCache<CacheShare>> {
    match &node.content {
        Content::Map(entries) => per_cache(node.at.line, entries, cache),
        _ => Ok(PerCache {
            line: node.at.line,
            others: Some(cache(node)?),
            named: Vec::new(),
        }),
    }
}

/// Parses `[50%, 1000MBps]`, `{all: [50%], 0: [100%]}`.
pub(crate) fn bandwidths(node: &Node) -> Read<PerCache<Bandwidth>> {
    match &node.content {
        Content::Map(entries) => per_cache(node.at.line, entries, bandwidth),
        _ => Ok(PerCache {
            line: node.at.line,
            others: Some(bandwidth(node)?),
            named: Vec::new(),
        }),
    }
}

fn per_cache<T>(line: usize, entries: &[Entry], read: fn(&Node) -> Read<T>) -> Read<PerCache<T>> {
    let mut found = PerCache {
        line,
        others: None,
        named: Vec::new(),
    };
    let mut taken: Vec<(u32, u32)> = Vec::new();
    for entry in entries {
        let value = read(&entry.value)?;
        if entry.key == "all" {
            found.others = Some(value);
            continue;
        }
        let line = entry.at.line;
        let ids = numbers(&entry.key).ok_or_else(|| {
            let key = &entry.key;
            let why = format!(
                "{key:?} is not a list of cache IDs; use \"all\", or IDs such as \"0,2-3\""
            );
            Wrong::at(line, why)
        })?;
        for (from, to) in &ids {
            if taken.iter().any(|(low, high)| from <= high && low <= to) {
                let why = format!("{:?} contains a cache ID that is already used", entry.key);
                return Err(Wrong::at(line, why));
            }
            taken.push((*from, *to));
        }
        found.named.push((ids, value));
    }
    Ok(found)
}

fn cache(node: &Node) -> Read<CacheShare> {
    let Content::Map(entries) = &node.content else {
        return Ok(CacheShare {
            unified: share(node)?,
            code_and_data: None,
        });
    };
    let (mut unified, mut code, mut data) = (None, None, None);
    for entry in entries.iter() {
        let place = match entry.key.as_str() {
            "unified" => &mut unified,
            "code" => &mut code,
            "data" => &mut data,
            other => {
                let why = format!("unknown key {other:?}; valid keys are unified, code and data");
                return Err(Wrong::at(entry.at.line, why));
            }
        };
        *place = Some(share(&entry.value)?);
    }
    let line = node.at.line;
    let Some(unified) = unified else {
        let why =
            "\"unified\" is missing; machines without code and data prioritization (CDP) need it";
        return Err(Wrong::at(line, why));
    };
    let code_and_data = match (code, data) {
        (Some(code), Some(data)) => Some((code, data)),
        (None, None) => None,
        (Some(_), None) => return Err(Wrong::at(line, "\"code\" is set, but \"data\" is missing")),
        (None, Some(_)) => return Err(Wrong::at(line, "\"data\" is set, but \"code\" is missing")),
    };
    Ok(CacheShare {
        unified,
        code_and_data,
    })
}

/// Parses `60%`, `0-50%`, `0xff0`, `0-7`.
fn share(node: &Node) -> Read<Share> {
    let line = node.at.line;
    let Some(text) = node.text() else {
        let what = node.what();
        let why =
            format!("a share is a quoted string such as \"60%\", \"0xff\" or \"0-7\", not {what}");
        return Err(Wrong::at(line, why));
    };
    let ways = ways(text).map_err(|why| Wrong::at(line, format!("{text:?}: {why}")))?;
    Ok(Share {
        line,
        text: text.to_owned(),
        ways,
    })
}

fn ways(text: &str) -> Result<Ways, &'static str> {
    if let Some(percents) = text.strip_suffix('%') {
        let hundredth = |text: &str| number(text).filter(|percent| *percent <= 100);
        let wrong = "a percentage must be between 0% and 100%";
        return match percents.split_once('-') {
            None => hundredth(percents).map(Ways::Percent).ok_or(wrong),
            Some((low, high)) => match (hundredth(low), hundredth(high)) {
                (Some(low), Some(high)) if low <= high && high > 0 => Ok(Ways::Range(low, high)),
                _ => Err(
                    "a percentage range must run from the lower to the higher value, up to 100%",
                ),
            },
        };
    }
    let bits = match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()
        }
        Some(_) => None,
        None => numbers(text).and_then(|ranges| {
            ranges.iter().try_fold(0, |mask, (from, to)| {
                (*to < u64::BITS).then(|| mask | block(*from, *to))
            })
        }),
    };
    let bits = bits.ok_or("a share is a percentage (60%), a mask (0xff) or bits (0-7)")?;
    if !is_block(bits) {
        return Err("the mask must contain at least one bit, and its bits must be adjacent");
    }
    Ok(Ways::Bits(bits))
}

fn bandwidth(node: &Node) -> Read<Bandwidth> {
    let line = node.at.line;
    let Content::List(items) = &node.content else {
        let what = node.what();
        let why = format!("the bandwidth must be a list such as [50%, 1000MBps], not {what}");
        return Err(Wrong::at(line, why));
    };
    let mut found = Bandwidth {
        line,
        percent: None,
        mbps: None,
    };
    for item in items.iter() {
        let text = item.text().unwrap_or_default();
        let percent = text.strip_suffix('%').and_then(number);
        let mbps = text.strip_suffix("MBps").and_then(number);
        let (place, amount) = match (percent, mbps) {
            (Some(percent @ 1..=100), _) => (&mut found.percent, percent),
            (_, Some(mbps @ 1..)) => (&mut found.mbps, mbps),
            _ => {
                let what = if text.is_empty() {
                    item.what()
                } else {
                    format!("{text:?}")
                };
                let why = format!(
                    "{what} is not a bandwidth; use a value such as \"50%\" or \"1000MBps\""
                );
                return Err(Wrong::at(item.at.line, why));
            }
        };
        if place.replace(amount).is_some() {
            let why = format!("{text:?} is the second bandwidth in the same unit");
            return Err(Wrong::at(item.at.line, why));
        }
    }
    Ok(found)
}

/// Parses `0,2-3` to inclusive ranges.
fn numbers(text: &str) -> Option<Vec<(u32, u32)>> {
    let range = |part: &str| match part.split_once('-') {
        None => number(part).map(|one| (one, one)),
        Some((from, to)) => {
            let (from, to) = (number(from)?, number(to)?);
            (from < to).then_some((from, to))
        }
    };
    text.split(',').map(range).collect()
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_in_all_their_forms() {
        for (text, expected) in [
            ("60%", Ok(Ways::Percent(60))),
            ("0%", Ok(Ways::Percent(0))),
            ("25-75%", Ok(Ways::Range(25, 75))),
            ("0xff0", Ok(Ways::Bits(0xff0))),
            ("0-7", Ok(Ways::Bits(0xff))),
            ("8,9-11", Ok(Ways::Bits(0xf00))),
            ("3", Ok(Ways::Bits(8))),
            ("0-63", Ok(Ways::Bits(u64::MAX))),
        ] {
            assert_eq!(ways(text), expected, "{text}");
        }
        for text in [
            "",
            "%",
            "101%",
            "-1%",
            "75-25%",
            "0-0%",
            "50-101%",
            "0x",
            "0xg",
            "0x+f",
            "0xf0f",
            "0,2",
            "64",
            "7-0",
            "a",
            "1-",
            "0x1ffffffffffffffff",
        ] {
            assert!(ways(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_named_cache_has_its_own() {
        let read = |text: &str| {
            let documents = orlop_yaml::documents(text);
            let [orlop_yaml::Document::Good(node)] = documents.as_slice() else {
                panic!("{documents:?}");
            };
            caches(node)
        };
        let found = read("{all: 40%, 2-3: {unified: 20%, code: 10%, data: 30%}}").unwrap();
        let of = |id, used| found.of(id).unwrap().of(used).ways;
        assert_eq!(of(0, Use::Any), Ways::Percent(40));
        assert_eq!(of(0, Use::Data), Ways::Percent(40));
        assert_eq!(of(3, Use::Any), Ways::Percent(20));
        assert_eq!(of(3, Use::Code), Ways::Percent(10));
        assert_eq!(of(2, Use::Data), Ways::Percent(30));
        assert!(read("{1: 40%}").unwrap().of(0).is_none());
        for (text, word) in [
            ("{all: 40%, 0-2: 20%, 2: 10%}", "already used"),
            ("{some: 40%}", "not a list of cache IDs"),
            ("{all: {code: 10%, data: 20%}}", "\"unified\" is missing"),
            ("{all: {unified: 5%, code: 10%}}", "\"data\" is missing"),
            ("{all: {unified: 5%, date: 10%}}", "\"date\""),
            ("0xff", "a quoted string"),
        ] {
            let why = read(text).unwrap_err().why;
            assert!(why.contains(word), "{text}: {why}");
        }
    }

    #[test]
    fn bandwidth_has_both_units() {
        let read = |text: &str| {
            let documents = orlop_yaml::documents(text);
            let [orlop_yaml::Document::Good(node)] = documents.as_slice() else {
                panic!("{documents:?}");
            };
            bandwidths(node)
        };
        let found = read("[50%, 1000MBps]").unwrap();
        let of = found.of(7).unwrap();
        assert_eq!((of.percent, of.mbps), (Some(50), Some(1000)));
        for text in [
            "50%",
            "[50]",
            "[101%]",
            "[0%]",
            "[5GBps]",
            "[1%, 2%]",
            "{all: 5%}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
