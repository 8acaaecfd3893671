//! The platform of an image.

use orlop_engine::config::Platform;

use super::text::text_value;

/// Parses an operating system, an architecture and an optional variant: `linux/arm64`, `linux/arm/v7`.
fn read(text: &str) -> Result<Platform, String> {
    let is_word = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let platform = text.parse().ok().filter(|_| text.split('/').all(is_word));
    platform
        .ok_or_else(|| format!("{text:?} is not a platform such as linux/arm64 or linux/arm/v7"))
}

text_value!(Platform, "platform", read, Platform::to_string);
