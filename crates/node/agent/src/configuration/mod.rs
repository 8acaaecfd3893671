//! The kubelet's configuration file: `KubeletConfiguration`.

mod file;
pub(crate) mod gates;
mod kubelet;
mod setting;

pub use file::{ConfigurationError, FileRemark, read_configuration};
pub use kubelet::{
    Anonymous, Authentication, Authorization, KubeletConfiguration, Logging, PriorityGrace,
    Webhook, X509,
};
pub use setting::read_pairs;
