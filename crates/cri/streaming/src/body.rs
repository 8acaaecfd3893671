//! Size-limited reading of HTTP bodies and other untrusted streams.

use std::io;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Body;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Reads a whole body of at most `limit` bytes.
#[expect(clippy::disallowed_methods, reason = "a limit is what it has here")]
pub async fn read_body<B>(body: B, limit: usize) -> io::Result<Bytes>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let read = Limited::new(body, limit).collect().await;
    read.map(http_body_util::Collected::to_bytes)
        .map_err(|error| {
            if error.is::<http_body_util::LengthLimitError>() {
                let problem = format!("larger than the limit of {limit} bytes");
                return io::Error::new(io::ErrorKind::FileTooLarge, problem);
            }
            io::Error::other(error)
        })
}

/// Reads the start of a stream, at most `most` bytes. `read` also contains what came before an error or a
/// cancellation.
#[expect(clippy::disallowed_methods, reason = "a limit is what it has here")]
pub(crate) async fn read_start(
    from: impl AsyncRead + Unpin,
    most: u64,
    read: &mut Vec<u8>,
) -> io::Result<()> {
    from.take(most).read_to_end(read).await.map(drop)
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit_and_no_further() {
        let body = || Full::new(Bytes::from_static(b"12345"));
        assert_eq!(read_body(body(), 5).await.unwrap(), "12345");
        let error = read_body(body(), 4).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("4 bytes"), "{error}");
    }

    #[tokio::test]
    async fn of_a_stream_without_end_only_the_start_is_read() {
        let mut read = Vec::new();
        read_start(tokio::io::repeat(b'x'), 3, &mut read)
            .await
            .unwrap();
        assert_eq!(read, b"xxx");
    }
}
