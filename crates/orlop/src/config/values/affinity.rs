//! CPU affinity of a command that is executed in a container.

use orlop_engine::config::ExecAffinity;

use super::text::text_value;

/// Value for the first CPU of a container.
const FIRST: &str = "first";

fn read(text: &str) -> Result<ExecAffinity, String> {
    let number = |text: &str| text.parse::<u16>().ok();
    let fits = |part: &str| match part.split_once('-') {
        Some((first, last)) => {
            matches!((number(first), number(last)), (Some(first), Some(last)) if first <= last)
        }
        None => number(part).is_some(),
    };
    match text {
        FIRST => Ok(ExecAffinity::First),
        list if !list.is_empty() && list.split(',').all(fits) => {
            Ok(ExecAffinity::Cpus(list.to_owned()))
        }
        _ => Err(format!(
            "{text:?} is neither \"first\" nor a list of processors like \"0-3,7\""
        )),
    }
}

fn write(affinity: &ExecAffinity) -> String {
    match affinity {
        ExecAffinity::First => FIRST.to_owned(),
        ExecAffinity::Cpus(list) => list.clone(),
    }
}

text_value!(ExecAffinity, "processors", read, write);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_word_or_a_list() {
        for good in ["first", "0", "0-3,7"] {
            assert_eq!(write(&read(good).unwrap()), good);
        }
        for bad in ["", "last", "3-1", "0,", "a"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
