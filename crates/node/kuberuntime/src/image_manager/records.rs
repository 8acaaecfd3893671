//! Pull records on disk, in the kubelet's layout: `image_manager/pulling` has a file for each image
//! that is being pulled, `image_manager/pulled` one for each pulled image.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use orlop_cri_api::v1;
use orlop_fs::Outlives;
use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::hash::sha256;
use orlop_kubelet_rules::image::{
    Access, CredentialPolicy, PulledRecord, SecretRecord, Verdict, may_use,
};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::clock::now;

/// Size limit of a record in bytes.
const LARGEST: u64 = 1 << 20;

/// Records which credentials pulled which image.
#[derive(Debug)]
pub(crate) struct PullRecords {
    policy: CredentialPolicy,
    pulling: PathBuf,
    pulled: PathBuf,
    /// How many pulls of each image are in progress. The lock is held while files are read or
    /// written.
    in_pull: Mutex<BTreeMap<String, usize>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Intent {
    kind: String,
    api_version: String,
    image: String,
}

/// All methods block, but only briefly.
impl PullRecords {
    pub(crate) fn open(root: &Path, policy: CredentialPolicy) -> io::Result<Self> {
        let base = root.join("image_manager");
        let records = Self {
            policy,
            pulling: base.join("pulling"),
            pulled: base.join("pulled"),
            in_pull: Mutex::default(),
        };
        for dir in [&records.pulling, &records.pulled] {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        Ok(records)
    }

    /// Records the start of a pull. If this fails, the image must not be pulled: nobody would know
    /// which pods may use it.
    pub(crate) fn begin(&self, image: &str) -> io::Result<()> {
        let mut in_pull = self.lock();
        let intent = Intent {
            kind: "ImagePullIntent".to_owned(),
            api_version: "kubelet.config.k8s.io/v1beta1".to_owned(),
            image: image.to_owned(),
        };
        write(&self.pulling, image, &intent)?;
        *in_pull.entry(image.to_owned()).or_default() += 1;
        Ok(())
    }

    /// Records that a pull failed.
    pub(crate) fn failed(&self, image: &str) {
        let mut in_pull = self.lock();
        self.one_less(&mut in_pull, image);
    }

    /// Records that a pull succeeded.
    pub(crate) fn done(&self, image: &str, image_ref: &str, access: Access) {
        let mut in_pull = self.lock();
        match self.allow(image, image_ref, Some(access)) {
            Ok(()) => self.one_less(&mut in_pull, image),
            // The record of the pull in progress stays, so that the image still counts as pulled
            // here.
            Err(error) => {
                tracing::warn!(image, %error, "cannot record which pods may use a pulled image");
            }
        }
    }

    /// Whether a pod with these secrets may use an image that is present.
    pub(crate) fn may_use(
        &self,
        image: &str,
        image_ref: &str,
        secrets: impl FnOnce() -> Vec<SecretRecord>,
    ) -> (bool, &'static str) {
        let in_pull = self.lock();
        let record = match self.read(image_ref) {
            Ok(record) => record,
            Err(error) => {
                tracing::warn!(image, %error, "cannot read the pull record of an image; the image is pulled again");
                return (false, "error");
            }
        };
        let pulling = in_pull.contains_key(image) || self.pulling.join(file_name(image)).exists();
        match may_use(&self.policy, image, record.as_ref(), pulling, &secrets()) {
            Verdict::Policy => (true, "credentialPolicyAllowed"),
            Verdict::Record(news) => {
                if let Some(secret) = news
                    && let Err(error) =
                        self.allow(image, image_ref, Some(Access::of_secret(secret)))
                {
                    tracing::warn!(image, %error, "cannot record which pods may use an image");
                }
                (true, "credentialRecordFound")
            }
            Verdict::Prove => (false, "mustAuthenticate"),
        }
    }

    /// Records images whose pull completed while the manager was not running. No credentials are
    /// recorded for them.
    pub(crate) fn settle(&self, images: &[v1::Image]) {
        let _in_pull = self.lock();
        let intents: BTreeSet<String> = files(&self.pulling)
            .filter_map(|path| parse::<Intent>(&path).ok().flatten())
            .map(|intent| intent.image)
            .collect();
        for image in images {
            let names = image.repo_tags.iter().chain(&image.repo_digests);
            for name in names.filter(|name| intents.contains(*name)) {
                match self.allow(name, &image.id, None) {
                    Ok(()) => remove(&self.pulling.join(file_name(name))),
                    Err(error) => tracing::warn!(image = name, %error, "cannot record a pull"),
                }
            }
        }
    }

    /// Removes the records of images that are gone, except for records written after `since`.
    pub(crate) fn prune(&self, there: &BTreeSet<String>, since: Timestamp) {
        let _in_pull = self.lock();
        let since = since.rfc3339();
        for path in files(&self.pulled) {
            let Ok(Some(record)) = parse::<PulledRecord>(&path) else {
                continue;
            };
            if !there.contains(&record.image_ref) && record.last_updated_time < since {
                remove(&path);
            }
        }
    }

    /// Counts the records of pulls in progress and of completed pulls.
    pub(crate) fn count(&self) -> (usize, usize) {
        (files(&self.pulling).count(), files(&self.pulled).count())
    }

    fn one_less(&self, in_pull: &mut BTreeMap<String, usize>, image: &str) {
        match in_pull.get_mut(image) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                in_pull.remove(image);
                remove(&self.pulling.join(file_name(image)));
            }
        }
    }

    fn allow(&self, image: &str, image_ref: &str, access: Option<Access>) -> io::Result<()> {
        // An unreadable record is replaced by one that allows less, so this grants nobody access.
        let known = self.read(image_ref).ok().flatten();
        let fresh = known.is_none();
        let mut record = known.unwrap_or_else(|| PulledRecord::new(image_ref));
        let changed = access.is_some_and(|access| record.allow(image, access));
        if !(fresh || changed) {
            return Ok(());
        }
        record.last_updated_time = now().rfc3339();
        write(&self.pulled, image_ref, &record)
    }

    fn read(&self, image_ref: &str) -> io::Result<Option<PulledRecord>> {
        let record: Option<PulledRecord> = parse(&self.pulled.join(file_name(image_ref)))?;
        Ok(record.filter(|it| it.is_of(image_ref)))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.in_pull.lock()
    }
}

fn file_name(of: &str) -> String {
    format!("sha256-{}", sha256(of.as_bytes()))
}

/// Lists the files of a directory that are named like records.
fn files(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.and_then(|name| name.strip_prefix("sha256-"))
            .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
    })
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<Option<T>> {
    let wrong = |why: String| io::Error::other(format!("{}: {why}", path.display()));
    let bytes = match orlop_fs::read_file(path, LARGEST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| wrong(error.to_string()))?,
    };
    let parsed = serde_json::from_slice(&bytes);
    parsed.map(Some).map_err(|error| wrong(error.to_string()))
}

/// Writes a record atomically: a crash leaves the old file or the new one.
fn write(dir: &Path, of: &str, what: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(what).map_err(io::Error::other)?;
    orlop_fs::write_file(&dir.join(file_name(of)), 0o600, Outlives::PowerCut, &bytes)
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot remove a pull record");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use orlop_testkit::said_of_hostile_files;

    use super::*;

    fn secret(hash: &str) -> SecretRecord {
        SecretRecord {
            namespace: "default".to_owned(),
            name: "s".to_owned(),
            credential_hash: hash.to_owned(),
            ..SecretRecord::default()
        }
    }

    fn open(root: &Path) -> PullRecords {
        PullRecords::open(root, CredentialPolicy::default()).unwrap()
    }

    #[test]
    fn what_a_secret_pulled_is_for_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let records = open(dir.path());
        let ask = |records: &PullRecords, hash: &str| {
            let secrets = if hash.is_empty() {
                vec![]
            } else {
                vec![secret(hash)]
            };
            records.may_use("r/a:1", "id", || secrets)
        };
        // The image was present before any pull.
        assert_eq!(ask(&records, ""), (true, "credentialPolicyAllowed"));
        records.begin("r/a:1").unwrap();
        records.begin("r/a:1").unwrap();
        assert_eq!(ask(&records, ""), (false, "mustAuthenticate"));
        records.failed("r/a:1");
        assert_eq!(records.count(), (1, 0));
        records.done("r/a:1", "id", Access::of_secret(secret("h")));
        assert_eq!(records.count(), (0, 1));
        // The same holds for another process.
        let records = open(dir.path());
        assert_eq!(ask(&records, ""), (false, "mustAuthenticate"));
        assert_eq!(ask(&records, "h"), (true, "credentialRecordFound"));
        assert_eq!(ask(&records, "x"), (false, "mustAuthenticate"));

        let then = now().after(std::time::Duration::from_secs(5));
        records.prune(&BTreeSet::from(["id".to_owned()]), then);
        records.prune(&BTreeSet::new(), Timestamp(0));
        assert_eq!(records.count(), (0, 1));
        records.prune(&BTreeSet::new(), then);
        assert_eq!(records.count(), (0, 0));
    }

    #[test]
    fn a_pull_that_nobody_saw_the_end_of_gives_nobody_a_right() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path()).begin("r/a:1").unwrap();
        open(dir.path()).begin("r/gone:1").unwrap();
        let records = open(dir.path());
        records.settle(&[v1::Image {
            id: "id".to_owned(),
            repo_tags: vec!["r/a:1".to_owned()],
            ..v1::Image::default()
        }]);
        assert_eq!(records.count(), (1, 1));
        assert_eq!(
            records.may_use("r/a:1", "id", Vec::new),
            (false, "mustAuthenticate")
        );
    }

    #[test]
    fn what_cannot_be_read_allows_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let records = open(dir.path());
        let path = dir
            .path()
            .join("image_manager/pulled")
            .join(file_name("id"));
        for text in ["{", "[]", ""] {
            fs::write(&path, text).unwrap();
            assert_eq!(
                records.may_use("a", "id", Vec::new),
                (false, "error"),
                "{text}"
            );
        }
        records.begin("a").unwrap();
        records.done("a", "id", Access::of_node());
        assert_eq!(
            records.may_use("a", "id", Vec::new),
            (true, "credentialRecordFound")
        );
    }

    #[test]
    fn what_is_no_record_is_told_and_not_waited_for() {
        let [large, pipe] = said_of_hostile_files("record", |path| {
            let parsed = parse::<serde_json::Value>(path);
            parsed.expect_err("an error").to_string()
        });
        assert!(
            large.contains("DIR/record: larger than the limit of 1048576"),
            "{large}"
        );
        assert!(pipe.contains("DIR/record: not a regular file"), "{pipe}");
    }
}
