//! Network namespaces, CNI, port mapping.
