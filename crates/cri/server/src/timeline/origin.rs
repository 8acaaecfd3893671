//! Origin of a call: its arrival time, and the client's trace.

use std::sync::Arc;
use std::time::Instant;

use crate::events::Caller;
use orlop_text::hex::{decode, is_hex};

/// The arrival time of a call, set as a request extension by the server that accepted it.
#[derive(Debug, Clone, Copy)]
pub struct Arrival(pub Instant);

/// The client's span, from the headers `traceparent` and `tracestate` of W3C's Trace Context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace id.
    pub trace: [u8; 16],
    /// The id of the calling span.
    pub span: [u8; 8],
    /// Whether the client samples the trace, so that we should keep our part of it.
    pub sampled: bool,
    /// The opaque `tracestate` of the tracing systems on the way.
    pub state: Option<Arc<str>>,
}

/// The length of `tracestate` that W3C's Trace Context requires to propagate; longer values are dropped.
const LONGEST_STATE: usize = 512;

/// The origin of the current call.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The arrival time.
    pub arrived: Option<Instant>,
    /// The client's span.
    pub parent: Option<TraceParent>,
    /// The client's process.
    pub caller: Option<Caller>,
}

tokio::task_local! {
    static ORIGIN: Origin;
}

impl Origin {
    /// Extracts the origin of a request.
    pub fn of<T>(request: &tonic::Request<T>) -> Self {
        let arrival = request.extensions().get::<Arrival>();
        let header = |name| {
            let mut values = request.metadata().get_all(name).iter();
            let value = values.next()?.to_str().ok();
            // Several values are ambiguous and ignored.
            value.filter(|_| values.next().is_none())
        };
        let parent = header("traceparent").and_then(TraceParent::parse);
        let parent = parent.map(|parent| parent.with_state(header("tracestate")));
        Self {
            arrived: arrival.map(|arrival| arrival.0),
            parent,
            caller: request.extensions().get::<Caller>().copied(),
        }
    }

    /// Runs a future with this origin as the current one.
    pub async fn scope<F: Future>(self, answer: F) -> F::Output {
        ORIGIN.scope(self, answer).await
    }

    /// Returns the origin of the current call; empty in spawned tasks.
    pub fn current() -> Self {
        ORIGIN.try_with(Self::clone).unwrap_or_default()
    }
}

impl TraceParent {
    /// Parses `00-<trace>-<span>-<flags>`; later versions may append more.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version = parts.next()?;
        if version.len() != 2 || version == "ff" || !is_hex(version) {
            return None;
        }
        let (trace, span) = (decode(parts.next()?)?, decode(parts.next()?)?);
        let [flags]: [u8; 1] = decode(parts.next()?)?;
        let known = version != "00" || parts.next().is_none();
        (known && trace != [0; 16] && span != [0; 8]).then_some(Self {
            trace,
            span,
            sampled: flags & 1 == 1,
            state: None,
        })
    }

    /// Adds the `tracestate`, if it is valid and the trace is sampled.
    fn with_state(self, state: Option<&str>) -> Self {
        let state = state.filter(|state| {
            let fits = (1..=LONGEST_STATE).contains(&state.len());
            self.sampled && fits && state.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        });
        Self {
            state: state.map(Into::into),
            ..self
        }
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
        let unsampled = format!("{}02", &text[..53]);
        assert!(!TraceParent::parse(&unsampled).unwrap().sampled);
        for wrong in [
            "",
            "00-0-0-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-010",
        ] {
            assert_eq!(TraceParent::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn state_comes_with_one_span_that_is_kept() {
        let kept = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let left = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let state = |parents: &[&str], state: &str| {
            let mut request = tonic::Request::new(());
            for parent in parents {
                let parent = parent.parse().unwrap();
                request.metadata_mut().append("traceparent", parent);
            }
            let state = state.parse().unwrap();
            request.metadata_mut().insert("tracestate", state);
            let parent = Origin::of(&request).parent;
            parent.map(|parent| parent.state.as_deref().map(str::to_owned))
        };
        assert_eq!(state(&[kept], "a=1,b=2"), Some(Some("a=1,b=2".to_owned())));
        assert_eq!(state(&[left], "a=1"), Some(None));
        assert_eq!(state(&[kept], &"a".repeat(LONGEST_STATE + 1)), Some(None));
        assert_eq!(state(&[kept], "\t"), Some(None));
        assert_eq!(state(&[kept, kept], "a=1"), None);
        assert_eq!(state(&[], "a=1"), None);
    }
}
