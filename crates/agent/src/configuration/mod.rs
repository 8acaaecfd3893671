//! A kubelet's configuration: `KubeletConfiguration`, read from a file.

mod file;
pub(crate) mod gates;
mod kubelet;
mod table;

pub use file::{ConfigurationError, FileRemark, read_configuration};
pub use kubelet::{
    Anonymous, Authentication, Authorization, KubeletConfiguration, PriorityGrace, Webhook, X509,
};
