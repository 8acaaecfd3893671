//! `containerd.services.sandbox.v1.Store`: what clients of containerd's keep about sandboxes.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use orlop_disk::{Outlives, SMALL_FILE, write_file, write_new_file};
use orlop_ttrpc::{Value, Writer, all, field, text, whole_fields};
use tonic::Status;

use crate::names::checked;
use crate::service::{Answer, BoxFuture, Call, Methods, service};

/// How many may be kept in a namespace.
const MOST: usize = 10_000;
/// Fields of a description by their names, as far as an update may name them.
const FIELDS: [(&str, u32); 5] = [
    ("runtime", 2),
    ("spec", 3),
    ("labels", 4),
    ("extensions", 7),
    ("sandboxer", 10),
];
const CREATED_AT: u32 = 5;
const UPDATED_AT: u32 = 6;

/// Keeps descriptions of sandboxes.
#[derive(Clone, Debug)]
pub struct Store(Arc<Path>);

service!(Store, "containerd.services.sandbox.v1.Store");

impl Store {
    /// One that keeps them below a directory.
    pub fn new(dir: &Path) -> Self {
        Self(dir.into())
    }

    fn place(&self, namespace: &str, id: &str) -> Result<PathBuf, Status> {
        Ok(self.0.join(checked(namespace)?).join(checked(id)?))
    }
}

impl Methods for Store {
    fn answer(self, call: Call) -> BoxFuture<Answer> {
        Box::pin(async move {
            let answered = orlop_pool::blocking(move || {
                let (namespace, message) = (call.namespace.as_str(), call.message);
                match call.method.as_str() {
                    "Create" => create(&self, namespace, &message),
                    "Update" => update(&self, namespace, &message),
                    "Delete" => delete(&self, namespace, &message),
                    "List" => list(&self, namespace, &message),
                    "Get" => get(&self, namespace, &message),
                    other => Err(Status::unimplemented(format!(
                        "orlop does not implement {other}"
                    ))),
                }
            });
            answered
                .await
                .map_err(|_| Status::internal("the sandbox store panicked"))?
        })
    }
}

/// An answer, or one of a list, with this description.
fn described(description: &[u8]) -> Writer {
    Writer::default().message(1, description)
}

fn asked(message: &Bytes) -> Result<&[u8], Status> {
    let sandbox = field(message, 1).map(|field| field.as_bytes());
    sandbox.ok_or_else(|| Status::invalid_argument("the description of the sandbox is missing"))
}

fn create(store: &Store, namespace: &str, message: &Bytes) -> Answer {
    let description = asked(message)?;
    let id = text(description, 1);
    let path = store.place(namespace, &id)?;
    let mut builder = std::fs::DirBuilder::new();
    let dir = path.parent().unwrap_or(&path);
    let made = builder.mode(0o700).recursive(true).create(dir);
    made.map_err(|error| failed("creating", dir, &error))?;
    if std::fs::read_dir(dir).is_ok_and(|entries| entries.count() >= MOST) {
        return Err(Status::resource_exhausted(format!(
            "the limit of {MOST} sandboxes is reached"
        )));
    }
    let now = now();
    let description = with(description, &[(CREATED_AT, &now), (UPDATED_AT, &now)]);
    match write_new_file(&path, 0o600, Outlives::PowerCut, &description) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Status::already_exists(
            format!("sandbox {id} already exists"),
        )),
        Err(error) => Err(failed("writing", &path, &error)),
        Ok(()) => Ok(described(&description).done()),
    }
}

fn update(store: &Store, namespace: &str, message: &Bytes) -> Answer {
    let changed = asked(message)?;
    let path = store.place(namespace, &text(changed, 1))?;
    let before = read(&path)?;
    let mut numbers = Vec::new();
    for name in all(message, 2).map(|field| field.as_text()) {
        let known = FIELDS.iter().find(|(known, _)| *known == name);
        let unknown =
            || Status::invalid_argument(format!("the field {name} of a sandbox cannot be changed"));
        numbers.push(known.ok_or_else(unknown)?.1);
    }
    if numbers.is_empty() {
        numbers = FIELDS.iter().map(|(_, number)| *number).collect();
    }
    let mut after = Writer::default();
    for (from, is_changed) in [(&before[..], false), (changed, true)] {
        for field in whole_fields(from) {
            if numbers.contains(&field.number) == is_changed {
                after = copy(after, field.number, &field.value);
            }
        }
    }
    let description = with(&after.done(), &[(UPDATED_AT, &now())]);
    let written = write_file(&path, 0o600, Outlives::PowerCut, &description);
    written.map_err(|error| failed("writing", &path, &error))?;
    Ok(described(&description).done())
}

fn delete(store: &Store, namespace: &str, message: &Bytes) -> Answer {
    let path = store.place(namespace, &text(message, 1))?;
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(gone(&path)),
        Err(error) => Err(failed("removing", &path, &error)),
        Ok(()) => Ok(Vec::new()),
    }
}

fn get(store: &Store, namespace: &str, message: &Bytes) -> Answer {
    let path = store.place(namespace, &text(message, 1))?;
    Ok(described(&read(&path)?).done())
}

fn list(store: &Store, namespace: &str, message: &Bytes) -> Answer {
    let filters: Vec<Filter> = all(message, 1)
        .map(|field| Filter::parse(&field.as_text()))
        .collect::<Result<_, _>>()?;
    let dir = store.0.join(checked(namespace)?);
    let mut paths: Vec<PathBuf> = match std::fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => entries
            .map_err(|error| failed("listing", &dir, &error))?
            .flatten()
            .map(|entry| entry.path())
            .collect(),
    };
    paths.sort();
    let mut answer = Writer::default();
    for path in paths {
        // One may be on its way, or gone meanwhile.
        let is_whole = path
            .file_name()
            .is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."));
        let Some(description) = is_whole.then(|| read(&path).ok()).flatten() else {
            continue;
        };
        if filters.is_empty() || filters.iter().any(|filter| filter.matches(&description)) {
            answer = answer.message(1, &description);
        }
    }
    Ok(answer.done())
}

/// One of containerd's filters: equations, all of which hold.
#[derive(Debug, PartialEq, Eq)]
struct Filter(Vec<(String, String)>);

impl Filter {
    fn parse(text: &str) -> Result<Self, Status> {
        let equations = text.split(',').map(|equation| {
            let (name, value) = equation.split_once("==")?;
            let name = name.trim().replace('"', "");
            let is_known = name == "id" || name == "sandboxer" || name.starts_with("labels.");
            is_known.then(|| (name, value.trim().trim_matches('"').to_owned()))
        });
        let equations: Option<_> = equations.collect();
        equations.map(Self).ok_or_else(|| {
            Status::invalid_argument(format!(
                "cannot parse the filter {text}; use id, sandboxer or labels.NAME with =="
            ))
        })
    }

    fn matches(&self, description: &[u8]) -> bool {
        self.0
            .iter()
            .all(|(name, value)| match name.strip_prefix("labels.") {
                None if name == "id" => text(description, 1) == *value,
                None => text(description, 10) == *value,
                Some(label) => all(description, 4).any(|field| {
                    let entry = field.as_bytes();
                    text(entry, 1) == label && text(entry, 2) == *value
                }),
            })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Status> {
    orlop_disk::read_file(path, SMALL_FILE).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => gone(path),
        _ => failed("reading", path, &error),
    })
}

/// A description with these fields in place of those that it has.
fn with(description: &[u8], changed: &[(u32, &[u8])]) -> Vec<u8> {
    let mut writer = Writer::default();
    for field in whole_fields(description) {
        if changed.iter().all(|(number, _)| *number != field.number) {
            writer = copy(writer, field.number, &field.value);
        }
    }
    for (number, value) in changed {
        writer = writer.message(*number, value);
    }
    writer.done()
}

fn copy(writer: Writer, number: u32, value: &Value<'_>) -> Writer {
    match value {
        Value::Number(value) => writer.number(number, *value),
        Value::Bytes(value) => writer.message(number, value),
        Value::Other => writer,
    }
}

/// A `google.protobuf.Timestamp`.
fn now() -> Vec<u8> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let message = Writer::default().number(1, now.as_secs());
    message.number(2, now.subsec_nanos().into()).done()
}

fn gone(path: &Path) -> Status {
    let id = path.file_name().unwrap_or_default().display();
    Status::not_found(format!("sandbox {id} not found"))
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> Status {
    Status::internal(format!("{doing} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orlop_ttrpc::{Writer, field, fields, number, text};
    use tonic::Code;

    use super::{Filter, Store, create, delete, get, list, update};

    fn sandbox(id: &str, label: &str) -> Vec<u8> {
        let entry = Writer::default().text(1, "app").text(2, label).done();
        let sandbox = Writer::default().text(1, id).message(4, &entry);
        sandbox.text(10, "orlop").done()
    }

    fn ask(sandbox: &[u8]) -> Bytes {
        Writer::default().message(1, sandbox).done().into()
    }

    fn named(id: &str) -> Bytes {
        Writer::default().text(1, id).done().into()
    }

    fn label(answer: &[u8]) -> String {
        let sandbox = field(answer, 1).unwrap().as_bytes();
        text(field(sandbox, 4).unwrap().as_bytes(), 2)
    }

    #[test]
    fn what_is_kept_is_found_changed_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let made = create(&store, "n", &ask(&sandbox("a", "one"))).unwrap();
        let created = field(field(&made, 1).unwrap().as_bytes(), 5).unwrap();
        assert!(number(created.as_bytes(), 1) > 0);
        let again = create(&store, "n", &ask(&sandbox("a", "two"))).unwrap_err();
        assert_eq!(again.code(), Code::AlreadyExists);
        // Namespaces know nothing of each other.
        assert_eq!(
            get(&store, "m", &named("a")).unwrap_err().code(),
            Code::NotFound
        );

        let change = Writer::default()
            .message(1, &sandbox("a", "two"))
            .text(2, "labels");
        update(&store, "n", &change.done().into()).unwrap();
        let got = get(&store, "n", &named("a")).unwrap();
        assert_eq!(label(&got), "two");
        assert_eq!(text(field(&got, 1).unwrap().as_bytes(), 10), "orlop");
        let change = Writer::default()
            .message(1, &sandbox("a", "x"))
            .text(2, "id");
        let refused = update(&store, "n", &change.done().into()).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);

        create(&store, "n", &ask(&sandbox("b", "three"))).unwrap();
        let of = |filter: &str| {
            let asked = Writer::default().text(1, filter).done().into();
            let answer = list(&store, "n", &asked).unwrap();
            fields(&answer).count()
        };
        assert_eq!(
            fields(&list(&store, "n", &Bytes::new()).unwrap()).count(),
            2
        );
        assert_eq!(of("labels.\"app\"==three"), 1);
        assert_eq!(of("id==a,labels.app==three"), 0);
        assert_eq!(of("sandboxer==orlop"), 2);

        delete(&store, "n", &named("a")).unwrap();
        assert_eq!(
            delete(&store, "n", &named("a")).unwrap_err().code(),
            Code::NotFound
        );
    }

    #[test]
    fn names_and_filters_of_no_sense_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        for id in ["../a", "", "a/b"] {
            let refused = create(&store, "n", &ask(&sandbox(id, "x"))).unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{id}");
        }
        assert!(create(&store, "n", &Bytes::new()).is_err());
        assert!(get(&store, "..", &named("a")).is_err());
        for filter in ["id~=a", "spec==x", "id"] {
            assert!(Filter::parse(filter).is_err(), "{filter}");
        }
    }
}
