//! Descriptors of all messages, decoded on first use.

use std::sync::OnceLock;

use prost::Name;
use prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor};

static ENCODED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Returns the descriptor of a generated message.
pub(super) fn of<T: Name>() -> MessageDescriptor {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    #[allow(
        clippy::expect_used,
        reason = "both sides come from one run of build.rs"
    )]
    let pool = POOL.get_or_init(|| {
        DescriptorPool::decode(ENCODED).expect("the descriptors that build.rs wrote are valid")
    });
    #[allow(
        clippy::expect_used,
        reason = "both sides come from one run of build.rs"
    )]
    pool.get_message_by_name(&T::full_name())
        .expect("every generated message has a descriptor")
}

/// Whether a field of type `bytes` contains text: values of environment variables, which tools have always written as
/// plain text.
pub(super) fn is_text(field: &FieldDescriptor) -> bool {
    field.full_name() == "runtime.v1.KeyValue.value"
}
