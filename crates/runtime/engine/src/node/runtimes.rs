//! The runtime handlers: the choices for a pod's `runtime_handler`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use orlop_launch::{FailureKind, OciRuntime, detect};
use orlop_oci_types as oci;
use parking_lot::RwLock;

use orlop_cgroup::Driver;

use crate::config::{Config, PROGRAM_DIRS, RuntimeHandler, RuntimeKind, Sandboxer};
use crate::error::{Error, Result, chain};
use crate::node::cgroups::TRIALS;
use crate::node::paths::private_dir;
use crate::record::ids::PodId;
use crate::record::pod::Pod;

/// A runtime that does not respond within this time is not used.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// A runtime handler that can run pods.
#[derive(Debug)]
pub struct Handler {
    /// The handler's name in the configuration.
    pub name: String,
    /// The runtime's command line.
    pub runtime: OciRuntime,
    /// The features that the runtime reports.
    pub features: oci::Features,
    /// The configuration of the handler.
    pub settings: RuntimeHandler,
}

/// Prefixes of the names of shims that run no WebAssembly.
const WITHOUT_WASM: [&str; 3] = [
    "containerd-shim-runc-",
    "containerd-shim-runsc-",
    "containerd-shim-kata-",
];

impl Handler {
    /// Whether it may run WebAssembly modules: crun reports it; shims are assumed to, with known exceptions.
    pub fn may_run_wasm(&self) -> bool {
        let shim = self.settings.path.file_name().unwrap_or_default();
        let shim = shim.to_string_lossy();
        let is_other = WITHOUT_WASM.iter().all(|known| !shim.starts_with(known));
        let is_shim = matches!(self.settings.kind, RuntimeKind::Shim { .. });
        let said = self.features.annotations.get("run.oci.crun.wasm");
        (is_shim && is_other) || said.is_some_and(|said| said == "true")
    }
}

/// All configured handlers.
#[derive(Debug)]
pub struct Runtimes(RwLock<Arc<Known>>);

#[derive(Debug, Clone)]
struct Known {
    default: String,
    handlers: BTreeMap<String, Arc<Handler>>,
    /// Handlers that are not offered, but may have made containers in an earlier run or before the
    /// configuration changed.
    retired: BTreeMap<String, Arc<Handler>>,
    /// The former handlers of pods whose handler was changed since.
    kept: BTreeMap<PodId, Arc<Handler>>,
}

impl Runtimes {
    /// Takes the configured runtimes, and adds a default one if the default has no table: the one that the
    /// configuration names, or else the first that works. A table for gVisor alone does not move all pods to
    /// gVisor.
    pub async fn find(config: &Config, driver: Driver) -> Result<Self> {
        let mut handlers = BTreeMap::new();
        let mut retired = BTreeMap::new();
        let has_table = |name: &&str| config.runtimes.contains_key(*name);
        let mut default = config.default_runtime.clone();
        if default.is_none() {
            default = KNOWN.iter().copied().find(has_table).map(str::to_owned);
        }
        let known = usual(config, driver);
        let is_usual = |name: &str| KNOWN.contains(&name) && !has_table(&name);
        if default.as_deref().is_none_or(is_usual) {
            let named = |it: &OciRuntime| default.as_ref().is_none_or(|name| it.name == *name);
            let candidates = known.iter().filter(|it| named(it)).cloned().collect();
            match first_that_works(config, driver, candidates).await? {
                Ok(found) => {
                    default = Some(found.name.clone());
                    handlers.insert(found.name.clone(), Arc::new(found));
                }
                Err(reasons) if default.is_some() || config.runtimes.is_empty() => {
                    return Err(none_works(&reasons));
                }
                Err(_) => {}
            }
        }
        for runtime in known {
            let name = runtime.name.clone();
            let handler = Handler {
                name: name.clone(),
                settings: by_name(&name),
                runtime,
                features: oci::Features::default(),
            };
            retired.insert(name, Arc::new(handler));
        }
        // Concurrently: each may be slow to respond.
        let configured = config.runtimes.iter().map(|(name, settings)| {
            handler(runtime(config, driver, name, settings), settings.clone())
        });
        for handler in join_all(configured).await {
            let handler = handler?;
            handlers.insert(handler.name.clone(), Arc::new(handler));
        }
        let Some(default) = default.or_else(|| handlers.keys().next().cloned()) else {
            return Err(Error::Internal("no runtime is configured".into()).into());
        };
        if !handlers.contains_key(&default) {
            let problem = format!("the default runtime {default:?} is not configured");
            return Err(Error::Internal(problem).into());
        }
        let known = Known {
            default,
            handlers,
            retired,
            kept: BTreeMap::new(),
        };
        Ok(Self(RwLock::new(Arc::new(known))))
    }

    /// Replaces the handlers; the old ones keep serving the pods that they made.
    pub fn replace(&self, new: Self, pods: &[Arc<Pod>]) {
        let old = self.known();
        let mut new = Arc::unwrap_or_clone(new.0.into_inner());
        let before = old.retired.iter().chain(&old.handlers);
        for (name, handler) in before.filter(|(name, _)| !new.handlers.contains_key(*name)) {
            new.retired.insert(name.clone(), Arc::clone(handler));
        }
        for pod in pods {
            let offered = new.handlers.get(&pod.runtime);
            let now = offered.or_else(|| new.retired.get(&pod.runtime));
            if let Ok(before) = self.of(pod)
                && now.is_some_and(|now| now.settings != before.settings)
            {
                new.kept.insert(pod.id.clone(), before);
            }
        }
        *self.0.write() = Arc::new(new);
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.0.read())
    }

    /// Returns the handler of this name; the empty name selects the default one.
    pub fn handler(&self, name: &str) -> Result<Arc<Handler>> {
        let now = self.known();
        let wanted = if name.is_empty() { &now.default } else { name };
        now.handlers.get(wanted).cloned().ok_or_else(|| {
            let known: Vec<_> = now.handlers.keys().map(String::as_str).collect();
            let problem = format!(
                "runtime handler {name:?} is not configured; configured handlers: {}",
                known.join(", ")
            );
            Error::invalid("runtime_handler", problem).into()
        })
    }

    /// Returns the handler that made a pod's containers, whatever the configuration says now.
    pub fn of(&self, pod: &Pod) -> Result<Arc<Handler>> {
        let known = self.known();
        if let Some(kept) = known.kept.get(&pod.id) {
            return Ok(Arc::clone(kept));
        }
        let offered = known.handlers.get(&pod.runtime);
        match offered.or_else(|| known.retired.get(&pod.runtime)) {
            Some(handler) => Ok(Arc::clone(handler)),
            None => self.handler(&pod.handler),
        }
    }

    /// Returns the name of this handler if its guests pull their images themselves, else an empty string.
    pub fn of_guests(&self, name: &str) -> String {
        let handler = self.handler(name).ok();
        let handler = handler.filter(|handler| handler.settings.guest_pull());
        handler.map_or_else(String::new, |handler| handler.name.clone())
    }

    /// Returns all handlers by name.
    pub fn all(&self) -> Vec<Arc<Handler>> {
        self.known().handlers.values().cloned().collect()
    }

    /// Returns all handlers that may have containers, including those that are not offered.
    pub fn everything(&self) -> Vec<Arc<Handler>> {
        let known = self.known();
        let retired = known.retired.iter();
        let only_retired = retired.filter(|(name, _)| !known.handlers.contains_key(*name));
        let retired = only_retired.map(|(_, handler)| handler);
        known.handlers.values().chain(retired).cloned().collect()
    }

    /// Returns the handler for pods that name none.
    pub fn default_name(&self) -> String {
        self.known().default.clone()
    }
}

/// The runtimes that are used without configuration, the fastest first.
const KNOWN: [&str; 3] = [OWN, "crun", "runc"];

/// The runtime that comes with the daemon.
const OWN: &str = "orlop-run";

/// Returns the runtimes that are used if none is configured.
pub fn usual(config: &Config, driver: Driver) -> [OciRuntime; 3] {
    KNOWN.map(|name| runtime(config, driver, name, &by_name(name)))
}

fn by_name(name: &str) -> RuntimeHandler {
    RuntimeHandler {
        path: name.into(),
        ..RuntimeHandler::default()
    }
}

/// Returns the first runtime that works, the fastest first. Each is really tried: an old crun refuses some
/// hosts, and orlop-run old kernels. If none works, the error has the reasons.
async fn first_that_works(
    config: &Config,
    driver: Driver,
    candidates: Vec<OciRuntime>,
) -> Result<Result<Handler, Vec<String>>> {
    let detected = detect(candidates, &config.state, trial_parent(driver)).await;
    for rejection in &detected.rejected {
        let (runtime, why) = (&rejection.runtime.name, chain(&rejection.error));
        tracing::info!(runtime, why, "a runtime does not work on this host");
    }
    let is_want =
        |error: &orlop_launch::Error| error.failure_kind() == Some(FailureKind::Exhausted);
    if let Some(rejection) = detected.rejected.iter().find(|it| is_want(&it.error)) {
        // This runtime may well work, so another one must not replace it until the next start.
        return Err(Error::Exhausted(chain(&rejection.error)).into());
    }
    let Some(runtime) = detected.runtime else {
        let rejected = detected.rejected.into_iter();
        let reasons = rejected.map(|it| format!("{}: {}", it.runtime.name, chain(&it.error)));
        return Ok(Err(reasons.collect()));
    };
    let settings = RuntimeHandler {
        path: runtime.program.clone(),
        ..RuntimeHandler::default()
    };
    handler(runtime, settings).await.map(Ok)
}

fn none_works(reasons: &[String]) -> Arc<Error> {
    Error::Internal(format!(
        "no usable runtime ({}); install orlop-run, crun or runc, or configure another runtime",
        reasons.join("; ")
    ))
    .into()
}

/// The result of a runtime's trial.
#[derive(Debug)]
pub struct Trial {
    /// The runtime.
    pub runtime: OciRuntime,
    /// Whether it could make a container.
    pub result: orlop_launch::Result<()>,
}

/// Tries all configured runtimes, or the default ones.
pub async fn try_all(config: &Config, driver: Driver) -> Vec<Trial> {
    let candidates: Vec<OciRuntime> = if config.runtimes.is_empty() {
        usual(config, driver).into()
    } else {
        let configured = config.runtimes.iter();
        configured
            .map(|(name, settings)| runtime(config, driver, name, settings))
            .collect()
    };
    let mut trials = Vec::new();
    for runtime in candidates {
        let result = runtime
            .try_out(&std::env::temp_dir(), trial_parent(driver))
            .await;
        trials.push(Trial { runtime, result });
    }
    trials
}

/// Returns problems of configured runtimes that can be detected before a pod asks for one.
pub async fn problems(config: &Config) -> Vec<String> {
    problems_of(config, |_| true).await
}

async fn problems_of(config: &Config, of: impl Fn(&RuntimeHandler) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, settings) in config.runtimes.iter().filter(|(_, it)| of(it)) {
        let runtime = runtime(config, Driver::Cgroupfs, name, settings);
        if let Err(error) = runtime.version(ANSWER_LIMIT).await {
            problems.push(problem(name, &error));
        }
    }
    problems
}

fn problem(name: &str, error: &orlop_launch::Error) -> String {
    format!("{}; fix or remove [runtimes.{name}]", chain(error))
}

fn warn(problem: &str) {
    tracing::warn!(problem, "a runtime handler cannot be used");
}

/// Logs the problems that do not show when runtimes are asked for their features.
pub async fn warn_of_problems(config: &Config) {
    let is_adapted = |settings: &RuntimeHandler| settings.kind != RuntimeKind::Oci;
    for problem in problems_of(config, is_adapted).await {
        warn(&problem);
    }
}

fn trial_parent(driver: Driver) -> &'static str {
    match driver {
        Driver::Cgroupfs => TRIALS,
        Driver::Systemd => "system.slice:orlop",
    }
}

async fn handler(mut runtime: OciRuntime, settings: RuntimeHandler) -> Result<Handler> {
    // Older runtimes have no `features`. A missing runtime is logged here, and fails again when a pod asks for
    // it.
    let features = match runtime.features(ANSWER_LIMIT).await {
        Ok(features) => features,
        // The features are kept for as long as the runtime is configured.
        Err(error) if error.failure_kind() == Some(FailureKind::Exhausted) => {
            return Err(Error::Exhausted(chain(&error)).into());
        }
        Err(error) => {
            warn(&problem(&runtime.name, &error));
            oci::Features::default()
        }
    };
    // runc's shim says so, too, but the shim itself decides what it starts by its state.
    runtime.state_as_runc = features.keeps_state_as_runc() && !settings.is_shim();
    runtime.protects_itself = features.protects_itself() && settings.kind == RuntimeKind::Oci;
    runtime.attaches_mounts = features.attaches_mounts() && settings.kind == RuntimeKind::Oci;
    Ok(Handler {
        name: runtime.name.clone(),
        runtime,
        features,
        settings,
    })
}

fn runtime(config: &Config, driver: Driver, name: &str, settings: &RuntimeHandler) -> OciRuntime {
    let root = settings.root.clone();
    let root = root.unwrap_or_else(|| match settings.kind {
        RuntimeKind::Oci => config.state.join("runtimes").join(name),
        // A shim mounts below it, which must not show on the host.
        RuntimeKind::Sandboxed | RuntimeKind::Shim { .. } => {
            private_dir(&config.state).join("shims").join(name)
        }
    });
    let own = program(config, &settings.path);
    let mut runtime = match &settings.kind {
        RuntimeKind::Oci => OciRuntime::new(name, own, root),
        RuntimeKind::Sandboxed => {
            let mut runtime = OciRuntime::new(name, adapter(config), root);
            runtime.args = vec!["--inner".into(), own.into()];
            for arg in &settings.args {
                runtime.args.extend(["--inner-arg".into(), arg.into()]);
            }
            runtime
        }
        RuntimeKind::Shim {
            config: file,
            config_type,
            config_body,
            guest_pull,
            sandboxer,
        } => {
            let mut runtime = OciRuntime::new(name, adapter(config), root);
            // A program that a controller starts need not be on this machine under a bare name.
            let told = match sandboxer {
                Sandboxer::Proxy { .. } => settings.path.clone(),
                Sandboxer::Podsandbox | Sandboxer::Shim => own,
            };
            runtime.args = vec!["--shim".into(), told.into()];
            if let Some(file) = file {
                runtime.args.extend(["--shim-config".into(), file.into()]);
            }
            if !config_type.is_empty() {
                let words = ["--config-type".into(), config_type.into()];
                runtime.args.extend(words);
            }
            let flags = [(config_body, "--config-body"), (guest_pull, "--guest-pull")];
            let set = flags.into_iter().filter(|(set, _)| **set);
            runtime.args.extend(set.map(|(_, flag)| flag.into()));
            let sandboxer: Vec<OsString> = match sandboxer {
                Sandboxer::Podsandbox => Vec::new(),
                Sandboxer::Shim => vec!["--sandboxer".into(), "shim".into()],
                Sandboxer::Proxy { address, name } => {
                    vec!["--controller".into(), address.into(), name.into()]
                }
            };
            runtime.args.extend(sandboxer);
            runtime
        }
    };
    if settings.kind != RuntimeKind::Sandboxed {
        runtime.args.extend(settings.args.iter().map(Into::into));
    }
    runtime.systemd_cgroup = driver == Driver::Systemd;
    runtime
}

/// Returns the path of the program that makes a shim look like a runtime.
pub(crate) fn adapter(config: &Config) -> PathBuf {
    config.keeper.with_file_name("orlop-shim")
}

/// Resolves a program; a bare name is looked up in the usual directories of system programs.
fn program(config: &Config, path: &Path) -> PathBuf {
    if path.components().count() > 1 {
        return path.to_owned();
    }
    let beside = config.keeper.with_file_name(path);
    if path == Path::new(OWN) && beside.is_file() {
        return beside;
    }
    let found = PROGRAM_DIRS
        .iter()
        .map(|place| Path::new(place).join(path))
        .find(|path| path.exists());
    found.unwrap_or_else(|| path.to_owned())
}
