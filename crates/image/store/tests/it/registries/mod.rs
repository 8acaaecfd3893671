//! `registries.conf`, and the credentials of namespaces, with registries on loopback.

mod credentials;
mod names;
mod podman;
mod routes;
mod scene;
