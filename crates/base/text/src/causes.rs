//! Formats an error with all its causes on one line.

use std::error::Error;

/// Returns the messages of an error and its causes, without those that an earlier message contains.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Link(&'static str, Option<Box<Link>>);

    impl fmt::Display for Link {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Link {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn each_cause_is_told_once() {
        let root = Link("connection refused", None);
        let repeated = Link("asking: connection refused", Some(Box::new(root)));
        let error = Link("pulling", Some(Box::new(repeated)));
        assert_eq!(with_causes(&error), "pulling: asking: connection refused");
    }
}
