//! Where a call comes from: when it arrived, and which trace of its client's it belongs to.

use std::sync::Arc;
use std::time::Instant;

use crate::events::Caller;
use orlop_text::hex::{decode, is_hex};

/// When a call arrived: put into the extensions of a request by whoever took it in.
#[derive(Debug, Clone, Copy)]
pub struct Arrival(pub Instant);

/// The client's span, from the headers `traceparent` and `tracestate` of W3C's Trace Context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent {
    /// The whole trace.
    pub trace: [u8; 16],
    /// The span that called us.
    pub span: [u8; 8],
    /// Whether the client keeps the trace, so that we should keep our part of it.
    pub sampled: bool,
    /// What the tracing systems on the way say of it, in their own words.
    pub state: Option<Arc<str>>,
}

/// What W3C's Trace Context has everybody hand on of `tracestate`; a longer one is left out.
const LONGEST_STATE: usize = 512;

/// What is known of where the call at work comes from.
#[derive(Debug, Clone, Default)]
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
        let header = |name| {
            let mut values = request.metadata().get_all(name).iter();
            let value = values.next()?.to_str().ok();
            // Of several nobody can tell which is meant.
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

    /// Answers a call that comes from here.
    pub async fn scope<F: Future>(self, answer: F) -> F::Output {
        ORIGIN.scope(self, answer).await
    }

    /// The origin of the call at work; nothing in tasks of their own.
    pub fn current() -> Self {
        ORIGIN.try_with(Self::clone).unwrap_or_default()
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

    /// With the state that came beside it, where that is one and somebody will read it.
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
