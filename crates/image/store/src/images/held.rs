//! Leases on images.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::front::Images;
use super::image::Image;
use crate::blocking::blocking;
use crate::store::{Change, Form, Freed, LeaseRecord, State};
use crate::{Digest, Error, Result};

/// A lease on an image's layers, as listed by [`Images::leases`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The owner of the lease.
    pub owner: String,
    /// The image.
    pub image: Digest,
}

impl Images {
    /// Leases an image's layers to `owner` durably, until [`Images::release`]. A second lease of the same owner
    /// replaces the first. Fails with [`Error::Changed`] if the image is no longer the one that was found and
    /// checked.
    pub async fn lease(&self, owner: &str, image: &Image) -> Result<()> {
        let (store, owner, image) = (Arc::clone(self.store()), owner.to_owned(), image.clone());
        blocking(move || {
            store.update(|state, change| {
                check_still(state, &image)?;
                let lease = LeaseRecord {
                    image: image.id,
                    layers: image.layers,
                };
                if state.leases.get(&owner) != Some(&lease) {
                    change.leases.push((owner, Some(lease)));
                }
                Ok(())
            })
        })
        .await
    }

    /// Releases a lease, and removes layers that nothing else needs. A missing lease is no error.
    pub async fn release(&self, owner: &str) -> Result<Freed> {
        let (store, owner) = (Arc::clone(self.store()), owner.to_owned());
        let grace = self.context().config.orphan_grace;
        let freed = blocking(move || {
            let decide = |state: &State, change: &mut Change| {
                if state.leases.contains_key(&owner) {
                    change.leases.push((owner, None));
                }
                Ok(())
            };
            let ((), freed) = store.update_and_sweep(grace, decide)?;
            store.sweep_replaced()?;
            Ok(freed)
        })
        .await;
        self.lazies().end_when_idle().await;
        freed
    }

    /// Returns all leases.
    pub fn leases(&self) -> Vec<Lease> {
        let state = self.store().state();
        state
            .leases
            .iter()
            .map(|(owner, lease)| Lease {
                owner: owner.clone(),
                image: lease.image,
            })
            .collect()
    }

    /// Returns the layers of the owner's lease like [`Images::layers`], even if the image was changed or removed.
    pub async fn held_layers(&self, owner: &str) -> Result<Vec<PathBuf>> {
        let lease = self.store().state().leases.get(owner).cloned();
        let lease = lease.ok_or_else(|| Error::NotFound(format!("lease of {owner}")))?;
        self.lower_dirs(lease.layers).await
    }

    /// If any of the owner's layers is lazy, returns the registry that reads of it may have to wait for.
    pub fn reads_wait_for(&self, owner: &str) -> Option<String> {
        let state = self.store().state();
        let keys = &state.leases.get(owner)?.layers;
        let mut records = keys.iter().filter_map(|key| state.layers.get(key));
        records.find_map(|record| match &record.form {
            Form::Lazy(lazy) => {
                let domain = lazy.repository.split('/').next();
                Some(domain.unwrap_or_default().to_owned())
            }
            _ => None,
        })
    }

    /// Mounts the layers of the owner's lease like [`Images::mount_read_only`], with an optional SELinux context for
    /// its files.
    pub async fn mount_held(&self, owner: &str, label: Option<String>) -> Result<OwnedFd> {
        let lower = self.held_layers(owner).await?;
        self.mount_lower(lower, label).await
    }

    /// Returns the image's layers like [`Images::layers`], if the image has not changed.
    pub async fn layers_of(&self, image: &Image) -> Result<Vec<PathBuf>> {
        check_still(&self.store().state(), image)?;
        self.lower_dirs(image.layers.clone()).await
    }
}

/// Fails if the image has changed since it was found.
fn check_still(state: &State, image: &Image) -> Result<()> {
    let record = state.images.get(&image.id);
    let record = record.ok_or_else(|| Error::NotFound(image.id.to_string()))?;
    if record.layers == image.layers && record.is_encrypted == image.is_encrypted {
        Ok(())
    } else {
        Err(Error::Changed(image.id))
    }
}
