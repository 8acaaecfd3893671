//! Programs, held against what their profiles mean.

mod generated;
mod machine;
mod meaning;
mod profiles;
mod words;

use orlop_oci_types::Seccomp;

/// A profile from its JSON.
fn profile(text: &str) -> Seccomp {
    serde_json::from_str(text).unwrap()
}
