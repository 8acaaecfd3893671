//! The native CRI service.
