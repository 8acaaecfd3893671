//! Images that somebody holds.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::front::Images;
use super::image::Image;
use crate::blocking::blocking;
use crate::store::{Change, Form, Freed, LeaseRecord, State};
use crate::{Digest, Error, Result};

/// A claim on an image's layers, as [`Images::leases`] lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Who holds it.
    pub owner: String,
    /// The image.
    pub image: Digest,
}

impl Images {
    /// Claims an image's layers for `owner` until [`Images::release`], durably. A second lease
    /// of the same owner replaces the first. What was found and judged is what is held: where the image
    /// has become another one since, [`Error::Changed`].
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

    /// Gives up a claim; layers that nothing else needs go with it. No such lease is no error.
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

    /// All claims.
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

    /// The layers that `owner` holds, as [`Images::layers`] gives them, whatever has become of the image.
    pub async fn held_layers(&self, owner: &str) -> Result<Vec<PathBuf>> {
        let lease = self.store().state().leases.get(owner).cloned();
        let lease = lease.ok_or_else(|| Error::NotFound(format!("lease of {owner}")))?;
        self.lower_dirs(lease.layers).await
    }

    /// The registry that reads of what `owner` holds may wait for, where some of its layers come as they are read.
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

    /// Mounts what `owner` holds as [`Images::mount_read_only`] does, with this SELinux context of its
    /// files if there is one.
    pub async fn mount_held(&self, owner: &str, label: Option<String>) -> Result<OwnedFd> {
        let lower = self.held_layers(owner).await?;
        self.mount_lower(lower, label).await
    }

    /// The image's layers as [`Images::layers`] gives them, if it is still what was found.
    pub async fn layers_of(&self, image: &Image) -> Result<Vec<PathBuf>> {
        check_still(&self.store().state(), image)?;
        self.lower_dirs(image.layers.clone()).await
    }
}

/// Refuses what was found if it is not what is here.
fn check_still(state: &State, image: &Image) -> Result<()> {
    let record = state.images.get(&image.id);
    let record = record.ok_or_else(|| Error::NotFound(image.id.to_string()))?;
    if record.layers == image.layers && record.is_encrypted == image.is_encrypted {
        Ok(())
    } else {
        Err(Error::Changed(image.id))
    }
}
