//! The ID of a request: the client's own, or a generated one.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};

/// Header of the ID in requests and responses.
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

const LONGEST: usize = 64;

/// Returns the client's request ID if it is safe to log, else a new one.
pub(super) fn of(headers: &HeaderMap) -> HeaderValue {
    headers
        .get(HEADER)
        .filter(|value| is_fit(value.as_bytes()))
        .cloned()
        .unwrap_or_else(make)
}

fn is_fit(value: &[u8]) -> bool {
    (1..=LONGEST).contains(&value.len())
        && value
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/".contains(byte))
}

/// Creates an ID that is unique in this run and differs from those of the last run.
fn make() -> HeaderValue {
    static RUN: LazyLock<u32> = LazyLock::new(|| RandomState::new().hash_one(0_u8) as u32);
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    HeaderValue::try_from(format!("{:08x}-{number}", *RUN))
        .unwrap_or(HeaderValue::from_static("none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(value: &'static str) -> HeaderValue {
        of(&HeaderMap::from_iter([(
            HEADER,
            HeaderValue::from_static(value),
        )]))
    }

    #[test]
    fn a_client_s_own_id_is_kept_where_it_is_fit_for_a_log() {
        assert_eq!(id("kubelet-7"), "kubelet-7");
        assert_ne!(id("a b"), "a b");
        assert_ne!(id(""), "");
    }

    #[test]
    fn made_ids_differ() {
        assert_ne!(make(), make());
    }
}
