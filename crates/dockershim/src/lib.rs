//! The CRI service over a Docker Engine.
