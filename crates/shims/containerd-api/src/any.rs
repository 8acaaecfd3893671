//! Packed messages (`Any`) and timestamps.

use prost::{Message, Name};

use crate::{Any, Timestamp};

impl Any {
    /// Encodes a message with the name of its type.
    pub fn pack<M: Message + Name>(message: &M) -> Self {
        Self {
            type_url: M::full_name(),
            value: message.encode_to_vec(),
        }
    }

    /// Returns the name of the type, without the URL prefix that may precede it.
    pub fn type_name(&self) -> &str {
        self.type_url.rsplit('/').next().unwrap_or_default()
    }

    /// Whether this contains a message of the type.
    pub fn is<M: Name>(&self) -> bool {
        self.type_name() == M::full_name()
    }

    /// Decodes a message of the type; `None` if it is malformed or has another type.
    pub fn unpack<M: Message + Name + Default>(&self) -> Option<M> {
        self.is::<M>().then(|| M::decode(&*self.value).ok())?
    }
}

impl Timestamp {
    /// Creates a timestamp from nanoseconds since the epoch.
    pub fn from_nanos(nanos: u64) -> Self {
        const SECOND: u64 = 1_000_000_000;
        Self {
            seconds: (nanos / SECOND) as i64,
            nanos: (nanos % SECOND) as i32,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::events::TaskOom;
    use crate::types::Mount;
    use crate::{Any, Timestamp};

    #[test]
    fn messages_are_found_by_the_name_of_their_type() {
        let oom = TaskOom {
            container_id: "c".into(),
        };
        let mut any = Any::pack(&oom);
        assert_eq!(any.type_url, "containerd.events.TaskOOM");
        any.type_url.insert_str(0, "types.containerd.io/");
        assert_eq!(any.unpack::<TaskOom>(), Some(oom));
        assert_eq!(any.unpack::<Mount>(), None);
        any.value.pop();
        assert_eq!(any.unpack::<TaskOom>(), None);
    }

    #[test]
    fn times_are_seconds_and_the_rest() {
        let time = Timestamp::from_nanos(2_000_000_003);
        assert_eq!((time.seconds, time.nanos), (2, 3));
    }
}
