//! OCI and Docker media types of image parts.

/// OCI image manifest.
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// OCI image index.
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// OCI image configuration.
pub(crate) const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// OCI layer, uncompressed.
pub(crate) const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
/// Layer that is an EROFS image.
pub(crate) const EROFS_LAYER: &str = "application/vnd.erofs.layer.v1";
/// Docker manifest, schema 2.
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// Docker manifest list.
pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";

/// CNCF's "Wasm OCI Artifact Layout".
const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";

/// The `Accept` header of a request for a manifest.
pub(crate) const ACCEPT_MANIFEST: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.docker.distribution.manifest.v2+json, */*;q=0.1";

/// The role of a piece of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Index,
    Manifest,
    Config,
    Layer,
    /// A layer that is a filesystem image.
    ErofsLayer,
    EncryptedLayer,
    /// A WebAssembly module.
    Module,
    Other,
}

/// Determines the role from the media type, without its parameters after `;`.
pub(crate) fn kind(media_type: &str) -> Kind {
    let bare = media_type.split(';').next().unwrap_or("").trim();
    match bare {
        OCI_INDEX | DOCKER_LIST => Kind::Index,
        OCI_MANIFEST | DOCKER_MANIFEST => Kind::Manifest,
        OCI_CONFIG | DOCKER_CONFIG | WASM_CONFIG => Kind::Config,
        "application/wasm" => Kind::Module,
        // runwasi, wasm-to-oci and Istio use types of their own.
        other if other.ends_with("+wasm") => Kind::Module,
        other => layer_kind(other),
    }
}

/// Ignores the compression in the name, which is often wrong; unpacking detects it from the bytes.
fn layer_kind(bare: &str) -> Kind {
    const PREFIXES: [&str; 4] = [
        OCI_LAYER,
        "application/vnd.oci.image.layer.nondistributable.v1.tar",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.foreign.diff.tar",
    ];
    // The last one is used by earlier builders.
    const EROFS: [&str; 3] = [
        EROFS_LAYER,
        "application/vnd.erofs",
        "application/vnd.oci.image.layer.v1.erofs",
    ];
    let unpacked = bare.strip_suffix("+zstd").unwrap_or(bare);
    if EROFS.contains(&unpacked) {
        return Kind::ErofsLayer;
    }
    for prefix in PREFIXES {
        match bare.strip_prefix(prefix) {
            Some("" | "+gzip" | "+zstd" | ".gzip" | ".zstd") => return Kind::Layer,
            Some(suffix) if suffix.ends_with("+encrypted") => return Kind::EncryptedLayer,
            _ => {}
        }
    }
    Kind::Other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_every_dialect_are_layers() {
        for layer in [
            "application/vnd.oci.image.layer.v1.tar",
            "application/vnd.oci.image.layer.v1.tar+zstd",
            "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
            "application/vnd.docker.image.rootfs.diff.tar.gzip",
            "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        ] {
            assert_eq!(kind(layer), Kind::Layer, "{layer}");
        }
        for erofs in [
            "application/vnd.erofs.layer.v1",
            "application/vnd.erofs.layer.v1+zstd",
            "application/vnd.erofs+zstd",
            "application/vnd.oci.image.layer.v1.erofs",
        ] {
            assert_eq!(kind(erofs), Kind::ErofsLayer, "{erofs}");
        }
        assert_eq!(kind("application/vnd.erofs+gzip"), Kind::Other);
        assert_eq!(
            kind("application/vnd.oci.image.layer.v1.tar+gzip+encrypted"),
            Kind::EncryptedLayer
        );
        for module in [
            "application/wasm",
            "application/vnd.wasm.content.layer.v1+wasm",
            "application/vnd.bytecodealliance.wasm.component.layer.v0+wasm",
        ] {
            assert_eq!(kind(module), Kind::Module, "{module}");
        }
        assert_eq!(
            kind("application/vnd.cncf.helm.chart.content.v1.tar+gzip"),
            Kind::Other
        );
        assert_eq!(
            kind("application/vnd.oci.image.index.v1+json; charset=utf-8"),
            Kind::Index
        );
    }
}
