//! Validation of names, by the rules of Kubernetes.

/// Checks a DNS label: the name of a container, volume or namespace.
pub(super) fn label(text: &str) -> Result<(), &'static str> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let bytes = text.as_bytes();
    if text.is_empty() || text.len() > 63 {
        return Err("must have between 1 and 63 characters");
    }
    if !bytes.iter().copied().all(inner) || bytes.starts_with(b"-") || bytes.ends_with(b"-") {
        return Err(
            "must consist of lower case letters, digits and -, and must not begin or end with -",
        );
    }
    Ok(())
}

/// Checks a DNS subdomain: the name of a pod.
pub(super) fn subdomain(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.len() > 253 {
        return Err("must have between 1 and 253 characters");
    }
    let fine = text.split('.').all(|part| {
        let bytes = part.as_bytes();
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty()
            && bytes.iter().copied().all(inner)
            && !bytes.starts_with(b"-")
            && !bytes.ends_with(b"-")
    });
    if fine {
        Ok(())
    } else {
        Err(
            "must consist of lower case letters, digits, - and ., and each part must begin and \
             end with a letter or digit",
        )
    }
}

/// Checks the key of a label or annotation: `name` or `domain/name`.
pub(super) fn qualified(text: &str) -> Result<(), &'static str> {
    let name = match text.split_once('/') {
        None => text,
        Some((domain, name)) => {
            subdomain(domain)?;
            name
        }
    };
    if name.is_empty() || name.len() > 63 {
        return Err("must have a name of 1 to 63 characters, optionally after a domain and /");
    }
    token(name)
}

/// Checks the value of a label.
pub(super) fn label_value(text: &str) -> Result<(), &'static str> {
    if text.len() > 63 {
        return Err("must have no more than 63 characters");
    }
    if text.is_empty() { Ok(()) } else { token(text) }
}

/// Checks the key of a value in a ConfigMap or Secret.
pub(super) fn data_key(text: &str) -> Result<(), &'static str> {
    let fine = !text.is_empty()
        && text.len() <= 253
        && text != "."
        && !text.starts_with("..")
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    if fine {
        Ok(())
    } else {
        Err("must consist of letters, digits, -, _ and .")
    }
}

/// Checks the name of a port.
pub(super) fn port(text: &str) -> Result<(), &'static str> {
    let bytes = text.as_bytes();
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fine = (1..=15).contains(&text.len())
        && bytes.iter().copied().all(inner)
        && bytes.iter().any(u8::is_ascii_lowercase)
        && !bytes.starts_with(b"-")
        && !bytes.ends_with(b"-")
        && !text.contains("--");
    if fine {
        Ok(())
    } else {
        Err("must have 1 to 15 lower case letters, digits and single -, with at least one letter")
    }
}

fn token(text: &str) -> Result<(), &'static str> {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if bytes.iter().all(inner) && edge(bytes.first()) && edge(bytes.last()) {
        Ok(())
    } else {
        Err("must consist of letters, digits, -, _ and ., and begin and end with a letter or digit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        type Check = fn(&str) -> Result<(), &'static str>;
        let long = "a".repeat(64);
        let rows: [(Check, &[&str], &[&str]); 6] = [
            (
                label,
                &["a", "a-1", "0"],
                &["", "-a", "a-", "A", "a.b", "a_b", &long],
            ),
            (
                subdomain,
                &["a", "a.b-c.0"],
                &["", ".", "a.", "-a", "a.-b", "A"],
            ),
            (
                qualified,
                &["a", "A_b.c", "x.io/n"],
                &["", "/n", "x.io/", "-a", "X/n", &long],
            ),
            (label_value, &["", "a", "A.b"], &["-", "a b", &long]),
            (
                data_key,
                &["a", ".x", "A_b-c.d"],
                &["", ".", "..x", "a/b", "a b"],
            ),
            (
                port,
                &["http", "p-1"],
                &["", "80", "a--b", "HTTP", "-a", "sixteen-letters-"],
            ),
        ];
        for (check, good, bad) in rows {
            for text in good {
                assert_eq!(check(text), Ok(()), "{text}");
            }
            for text in bad {
                assert!(check(text).is_err(), "{text}");
            }
        }
    }
}
