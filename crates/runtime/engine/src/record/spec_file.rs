//! The specification file of a container in its OCI bundle.

use std::path::Path;

use orlop_fs::Outlives;
use orlop_oci_types as oci;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Size limit in bytes; requests and plugins determine the size of a specification.
const SPEC_MOST: u64 = 256 << 20;

/// Writes the specification into the bundle. Its environment may contain secrets.
pub fn write(bundle: &Path, spec: &oci::Spec) -> Result<()> {
    write_json(&bundle.join("config.json"), spec)
}

/// Writes a file of the bundle that the runtime reads.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(value).map_err(|error| {
        Error::Internal(format!("cannot encode {} as JSON: {error}", path.display()))
    })?;
    orlop_fs::write_file(path, 0o600, Outlives::Kill, &text)
        .map_err(Error::io(format!("writing {}", path.display())))
        .map_err(Into::into)
}

/// Reads the specification back from the bundle.
pub fn read(bundle: &Path) -> Result<oci::Spec> {
    read_as(bundle)
}

/// Reads the specification as another type, such as one for display.
pub fn read_as<S: DeserializeOwned>(bundle: &Path) -> Result<S> {
    let path = bundle.join("config.json");
    let text = orlop_fs::read_file(&path, SPEC_MOST)
        .map_err(Error::io(format!("reading {}", path.display())))?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::Internal(format!("reading {}: {error}", path.display())).into())
}
