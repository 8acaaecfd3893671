//! The kubelet's side of CRI, on any endpoint.
