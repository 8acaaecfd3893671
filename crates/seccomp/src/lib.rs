//! Seccomp profiles as the OCI writes them, compiled for the kernel.
