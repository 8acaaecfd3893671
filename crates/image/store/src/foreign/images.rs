//! Policy checks of images that another program stores.

use std::fmt;
use std::sync::Arc;

use super::examined::Examined;
use super::on_its_way::{OnItsWay, Sweep, Ways};
use super::records::Records;
use crate::admission::{self, Asker, PullRequest, asked};
use crate::blocking::blocking;
use crate::evidence::Evidence;
use crate::policy::{PolicyFor, SIGNED_BY, SIGSTORE_SIGNED, Verdict, judge_by_names};
use crate::registries::{is_id, name_meant, names_here, needs_file};
use crate::registry::Transport;
use crate::{Config, Digest, Error, Platform, Reference, RegistriesFile, Result};

/// Advice for an image without stored signatures.
const WAY_OUT: &str = "this node stores no signature of the image, because the image was pulled \
                       before a policy required a signature or was not pulled over the CRI; pull \
                       it over the CRI";

/// Policy checks of another program's images, with the stored findings about their signatures. Clones share the same
/// data.
#[derive(Clone)]
pub struct ForeignImages(Arc<Inner>);

struct Inner {
    settings: admission::Settings,
    transport: Arc<Transport>,
    records: Records,
    ways: Ways,
}

/// An image as the other program reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignImage {
    /// Its id.
    pub id: Digest,
    /// Its names, tags first.
    pub names: Vec<String>,
}

impl ForeignImages {
    /// Uses the policies of this configuration. Stores evidence in its root, and ignores its settings about layers
    /// and stores.
    pub async fn open(config: Config) -> Result<Self> {
        let root = config.root.clone();
        let records = blocking(move || Records::open(&root)).await?;
        let settings = config.admission();
        Ok(Self(Arc::new(Inner {
            transport: Arc::new(Transport::new(&settings.registry)),
            records,
            ways: Ways::default(),
            settings,
        })))
    }

    pub(super) fn settings(&self) -> &admission::Settings {
        &self.0.settings
    }

    fn registries(&self) -> &RegistriesFile {
        &self.0.settings.registry.registries
    }

    pub(super) fn transport(&self) -> &Arc<Transport> {
        &self.0.transport
    }

    /// Registers a pull of the image with this id. If nothing is stored about the image, stores the findings now. An
    /// image without them could not be used, and would not be pulled again.
    pub async fn begin(&self, examined: &Examined, id: Digest) -> Result<OnItsWay> {
        let (records, ways) = (self.0.records.clone(), self.0.ways.clone());
        let found = examined.found_of(id);
        blocking(move || OnItsWay::begin(records, &ways, id, found)).await
    }

    /// Returns whether findings about an image's signatures are stored.
    pub async fn knows(&self, image: Digest) -> Result<bool> {
        let records = self.0.records.clone();
        blocking(move || Ok(records.has(&image))).await
    }

    /// Returns whether the limit of stored findings is reached.
    pub async fn are_full(&self) -> Result<bool> {
        let records = self.0.records.clone();
        blocking(move || records.are_full()).await
    }

    /// Starts a sweep of removed images, which must precede the query of the existing images.
    pub fn sweep(&self) -> Sweep {
        Sweep::begin(self.0.records.clone(), &self.0.ways)
    }

    /// Returns the full names that a short name may refer to, or `None` if `text` is an id or a name with a fixed
    /// meaning.
    pub async fn stands_for(&self, text: &str) -> Result<Option<Vec<Reference>>> {
        let file = self.registries();
        if is_id(text) || !needs_file(file, text) {
            return Ok(None);
        }
        let (file, text) = (file.clone(), text.to_owned());
        blocking(move || names_here(&file, &text).map(Some)).await
    }

    /// Returns whether `text` identifies an image independently of its other names.
    pub fn is_full_name(&self, text: &str, image: &Digest) -> bool {
        let stands_for = text.parse().into_iter().collect();
        let none = std::iter::empty();
        let registries = self.registries();
        registries.path().is_none() && name_meant(text, stands_for, none, image).is_some()
    }

    /// Refuses an image that the pods of `namespace` may not use. `asked` is the requested name or id; an id stands
    /// for any of the image's names. Asks no registry.
    pub async fn admit(&self, image: ForeignImage, asked: &str, namespace: &str) -> Result<()> {
        match self.judge(image, asked, namespace).await? {
            Some(verdict) => verdict.into_result(),
            None => Ok(()),
        }
    }

    /// Returns the policy's verdict on an image for `namespace`, or `None` if there is no policy.
    pub async fn judge(
        &self,
        image: ForeignImage,
        asked: &str,
        namespace: &str,
    ) -> Result<Option<Verdict>> {
        let namespace = PolicyFor::Namespace(namespace.to_owned());
        let Some(policy) = namespace.read(&self.settings().policies).await? else {
            return Ok(None);
        };
        let (own, asked) = (self.clone(), asked.to_owned());
        blocking(move || {
            let full = image.names.iter().filter_map(|name| name.parse().ok());
            let full: Vec<Reference> = full.collect();
            let texts: Vec<String> = full.iter().map(ToString::to_string).collect();
            let registries = own.registries();
            let texts = texts.iter().map(String::as_str);
            let stands_for = names_here(registries, &asked).unwrap_or_default();
            let names = match name_meant(&asked, stands_for, texts, &image.id) {
                Some(name) => vec![name],
                None => full,
            };
            let evidence = own.0.records.read(&image.id)?.unwrap_or_default();
            let mut verdict = judge_by_names(&policy, &names, &evidence)?;
            if speaks_not(&evidence) {
                tell_way_out(&mut verdict);
            }
            Ok(Some(verdict))
        })
        .await
    }

    /// Returns the policy's verdict on a pull, and stores nothing.
    pub async fn judge_pull(
        &self,
        request: PullRequest,
        platform: &Platform,
    ) -> Result<Option<Verdict>> {
        let mut asked = asked(self.settings(), request).await?;
        while let Some(request) = asked.next() {
            let asker = Asker {
                settings: self.settings(),
                transport: self.transport(),
                platform,
                here: None,
            };
            match Box::pin(asker.judge(request)).await {
                Ok(verdict) => return Ok(verdict),
                Err(error) => asked.note(error)?,
            }
        }
        Err(asked.failure())
    }

    /// Returns the error of a pull that brought an image other than the checked one.
    pub fn brought_another(&self, examined: &Examined, id: &str, wanted: Digest) -> Error {
        Error::invalid(
            examined.name.to_string(),
            format!(
                "the engine pulled image {id}, but the policy was checked for {wanted}; the image is not used"
            ),
        )
    }
}

impl fmt::Debug for ForeignImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignImages").finish_non_exhaustive()
    }
}

/// Returns whether an image has no signatures. A pull under a policy that requires signatures would have found some.
fn speaks_not(evidence: &Evidence) -> bool {
    evidence.signatures.is_empty()
        && evidence.bundles.is_empty()
        && evidence.attestations.is_empty()
        && evidence.messages.is_empty()
}

/// Adds advice to requirements that signatures could fulfil.
fn tell_way_out(verdict: &mut Verdict) {
    for one in &mut verdict.requirements {
        if !one.fulfilled && [SIGSTORE_SIGNED, SIGNED_BY].contains(&one.kind) {
            one.reason = format!("{}; {WAY_OUT}", one.reason);
        }
    }
}
