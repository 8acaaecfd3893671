//! Where a call comes from: when it arrived, and which trace of its client's it belongs to.

use std::time::Instant;

use crate::events::Caller;
use orlop_hex::{decode, is_hex};

/// When a call arrived: put into the extensions of a request by whoever took it in.
#[derive(Debug, Clone, Copy)]
pub struct Arrival(pub Instant);

/// The client's span, from the header `traceparent` of W3C's Trace Context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The whole trace.
    pub trace: [u8; 16],
    /// The span that called us.
    pub span: [u8; 8],
}

/// What is known of where the call at work comes from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Origin {
    /// When it arrived.
    pub arrived: Option<Instant>,
    /// Its client's span.
    pub parent: Option<TraceParent>,
    /// Its client's process.
    pub caller: Option<Caller>,
}

tokio::task_local! {
    static ORIGIN: Origin;
}

impl Origin {
    /// The origin of a request.
    pub fn of<T>(request: &tonic::Request<T>) -> Self {
        let arrival = request.extensions().get::<Arrival>();
        let parent = request.metadata().get("traceparent");
        Self {
            arrived: arrival.map(|arrival| arrival.0),
            parent: parent
                .and_then(|value| value.to_str().ok())
                .and_then(TraceParent::parse),
            caller: request.extensions().get::<Caller>().copied(),
        }
    }

    /// Answers a call that comes from here.
    pub async fn scope<F: Future>(self, answer: F) -> F::Output {
        ORIGIN.scope(self, answer).await
    }

    /// The origin of the call at work; nothing in tasks of their own.
    pub fn current() -> Self {
        ORIGIN.try_with(|origin| *origin).unwrap_or_default()
    }
}

impl TraceParent {
    /// As `00-<trace>-<span>-<flags>`; later versions may say more behind that.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version = parts.next()?;
        if version.len() != 2 || version == "ff" || !is_hex(version) {
            return None;
        }
        let parent = Self {
            trace: decode(parts.next()?)?,
            span: decode(parts.next()?)?,
        };
        let flags = parts.next()?;
        let known =
            flags.len() == 2 && is_hex(flags) && (version != "00" || parts.next().is_none());
        (known && parent.trace != [0; 16] && parent.span != [0; 8]).then_some(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_s_span_is_read_as_w3c_has_it() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = TraceParent::parse(text).unwrap();
        assert_eq!((parent.trace[0], parent.span[7]), (0x0a, 0x31));
        let later = format!("01{}-more", &text[2..]);
        assert_eq!(TraceParent::parse(&later), Some(parent));
        for wrong in [
            "",
            "00-0-0-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
        ] {
            assert_eq!(TraceParent::parse(wrong), None, "{wrong}");
        }
    }
}
