//! The processors of a command that is executed in a container.

use std::fmt;
use std::str::FromStr;

use super::text::text_value;

/// The word for a container's first processor.
const FIRST: &str = "first";

/// Which processors a command runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Affinity {
    /// The first of those that its container may use.
    First,
    /// These, as `0-3,7`.
    Cpus(String),
}

impl FromStr for Affinity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u16>().ok();
        let fits = |part: &str| match part.split_once('-') {
            Some((first, last)) => {
                matches!((number(first), number(last)), (Some(first), Some(last)) if first <= last)
            }
            None => number(part).is_some(),
        };
        match text {
            FIRST => Ok(Self::First),
            list if !list.is_empty() && list.split(',').all(fits) => {
                Ok(Self::Cpus(list.to_owned()))
            }
            _ => Err(format!(
                "{text:?} is neither \"first\" nor a list of processors like \"0-3,7\""
            )),
        }
    }
}

impl fmt::Display for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str(FIRST),
            Self::Cpus(list) => f.write_str(list),
        }
    }
}

text_value!(Affinity, "processors");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_word_or_a_list() {
        for good in ["first", "0", "0-3,7"] {
            assert_eq!(good.parse::<Affinity>().unwrap().to_string(), good);
        }
        for bad in ["", "last", "3-1", "0,", "a"] {
            assert!(bad.parse::<Affinity>().is_err(), "{bad}");
        }
    }
}
