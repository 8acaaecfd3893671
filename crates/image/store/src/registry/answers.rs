//! Reads headers and bodies of responses.

use std::time::{Duration, SystemTime};

use http::header::{CONTENT_RANGE, DATE, LOCATION, RETRY_AFTER};
use reqwest::{Response, Url};

/// Returns a header as text.
pub(super) fn header(response: &Response, name: impl http::header::AsHeaderName) -> Option<String> {
    response
        .headers()
        .get(name)?
        .to_str()
        .ok()
        .map(str::to_owned)
}

/// Returns the target of a redirect.
pub(super) fn redirect_target(from: &Url, response: &Response) -> Option<Url> {
    let target = from.join(&header(response, &LOCATION)?).ok()?;
    matches!(target.scheme(), "http" | "https").then_some(target)
}

/// Returns the start of a partial response: `bytes START-END/SIZE`.
pub(super) fn range_start(response: &Response) -> Option<u64> {
    let text = header(response, &CONTENT_RANGE)?;
    text.strip_prefix("bytes ")?
        .split('-')
        .next()?
        .trim()
        .parse()
        .ok()
}

/// Returns how long the host asks to wait (RFC 9110, "Retry-After").
pub(super) fn retry_after(response: &Response) -> Option<Duration> {
    let now = header(response, &DATE).and_then(|date| httpdate::parse_http_date(&date).ok());
    pause_until(
        header(response, &RETRY_AFTER)?.trim(),
        // Uses the host's clock if the response contains it, because the local clock may differ.
        now.unwrap_or_else(SystemTime::now),
    )
}

/// Parses seconds or a date.
fn pause_until(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let then = httpdate::parse_http_date(text).ok()?;
    Some(then.duration_since(now).unwrap_or_default())
}

/// Returns the message in a registry's error body, as one line.
pub(super) fn explanation(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Errors {
        errors: Vec<One>,
    }
    #[derive(serde::Deserialize)]
    struct One {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let Ok(errors) = serde_json::from_slice::<Errors>(body) else {
        return String::new();
    };
    let lines: Vec<String> = errors
        .errors
        .iter()
        .map(|one| {
            if one.message.is_empty() {
                one.code.clone()
            } else {
                one.message.clone()
            }
        })
        .collect();
    lines
        .join("; ")
        .chars()
        .filter(|c| !c.is_control())
        .take(300)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_read_as_seconds_and_as_dates() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (text, seconds) in [
            ("7", Some(7)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30)),
            ("Sunday, 06-Nov-94 08:50:07 GMT", Some(30)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
        ] {
            let pause = pause_until(text, now);
            assert_eq!(pause, seconds.map(Duration::from_secs), "{text}");
        }
    }
}
