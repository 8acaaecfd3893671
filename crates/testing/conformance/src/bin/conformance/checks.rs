//! Checks of a kubelet's static pods.

use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use orlop_cri_api::v1::StatusRequest;
use orlop_testkit::{ImageBuilder, Node, Registry};
use serde_json::Value;

use crate::asked;
use crate::kubelet::{Kubelet, has_processors};
use crate::manifests;
use crate::table::Outcome;

/// Timeout for actions that a kubelet takes at most once in ten seconds.
const LIMIT: Duration = Duration::from_mins(2);

/// Runs all checks with a kubelet of its own on the node.
pub(crate) async fn run(
    programs: &asked::Kubelet,
    node: &mut Node,
    registry: &Registry,
    has_image_volumes: bool,
) -> anyhow::Result<Outcome> {
    let begin = Instant::now();
    let image = registry
        .push(&ImageBuilder::busybox().build(), "busybox:1")
        .await;
    let mut kubelet = Kubelet::start(programs, node)?;
    let mut report = Report::default();
    pods_live(&kubelet, &image, &mut report)?;
    newer_pods_live(
        &kubelet,
        node,
        &image,
        programs,
        has_image_volumes,
        &mut report,
    )
    .await?;
    nothing_is_lost(&mut kubelet, node, &mut report).await;
    pods_change(&kubelet, &image, node, &mut report).await?;
    processors(&kubelet, &image, &mut report)?;
    remove_all(&kubelet, node).await?;
    if !report.0.failed.is_empty() {
        eprintln!("--- the kubelet's log ---\n{}", kubelet.log());
    }
    report.0.took = begin.elapsed();
    Ok(report.0)
}

/// Checks the behaviour of pods of all kinds.
fn pods_live(kubelet: &Kubelet, image: &str, report: &mut Report) -> anyhow::Result<()> {
    report.within("the kubelet is healthy", || {
        let said = kubelet.get("/healthz")?;
        ensure!(said.trim() == "ok", "it says {said:?}");
        Ok(())
    });
    let dir = kubelet.manifests();
    for (name, pod) in [
        ("web", manifests::web(image, "hello")),
        ("restless", manifests::restless(image)),
        ("ill", manifests::ill(image)),
        ("done", manifests::done(image)),
        ("host", manifests::host(image)),
    ] {
        write(&dir, name, &pod)?;
    }
    report.within("a pod becomes ready, its initial container first", || {
        let pod = there(kubelet, "web")?;
        for name in ["server", "beside"] {
            ensure!(
                status(&pod, name)["ready"] == true,
                "{name} is {}",
                status(&pod, name)
            );
        }
        let first = &pod["status"]["initContainerStatuses"][0]["state"]["terminated"];
        ensure!(first["exitCode"] == 0, "the initial container: {first}");
        Ok(())
    });
    report.within("the kubelet returns a container's log", || {
        says(
            &kubelet.get(&kubelet.path("containerLogs", "web", "server"))?,
            "serving\n",
        )?;
        says(
            &kubelet.get(&kubelet.path("containerLogs", "web", "beside"))?,
            "of default\n",
        )
    });
    report.within("a command in a container", || serves(kubelet, "hello\n"));
    report.within("figures of a pod", || {
        let summary: Value = serde_json::from_str(&kubelet.get("/stats/summary")?)?;
        let pods = summary["pods"].as_array().context("no pods")?;
        let web = pods.iter().find(|pod| {
            let name = pod["podRef"]["name"].as_str();
            name.is_some_and(|name| name.starts_with("web-"))
        });
        let web = web.context("not of the pod")?;
        for container in web["containers"].as_array().context("no containers")? {
            let memory = container["memory"]["workingSetBytes"].as_u64().unwrap_or(0);
            ensure!(memory > 0, "no memory: {container}");
        }
        ensure!(
            web["containers"].as_array().map(Vec::len) == Some(2),
            "{}",
            web["containers"]
        );
        Ok(())
    });
    report.within("what ends badly is restarted, and waited with", || {
        let pod = there(kubelet, "restless")?;
        let main = status(&pod, "main");
        ensure!(main["restartCount"].as_u64() >= Some(1), "{main}");
        ensure!(main["lastState"]["terminated"]["exitCode"] == 3, "{main}");
        ensure!(
            main["state"]["waiting"]["reason"] == "CrashLoopBackOff",
            "{main}"
        );
        Ok(())
    });
    report.within("what is ill is restarted", || {
        let pod = there(kubelet, "ill")?;
        ensure!(
            status(&pod, "main")["restartCount"].as_u64() >= Some(1),
            "{}",
            status(&pod, "main")
        );
        Ok(())
    });
    report.within("what is done stays so", || {
        let pod = there(kubelet, "done")?;
        ensure!(
            pod["status"]["phase"] == "Succeeded",
            "it is {}",
            pod["status"]["phase"]
        );
        Ok(())
    });
    report.within("a pod in the host's network", || {
        let own = std::fs::read_link("/proc/self/ns/net")?;
        let said = kubelet.get(&kubelet.path("containerLogs", "host", "main"))?;
        says(&said, format!("{}\n", own.display()))
    });
    Ok(())
}

/// What pods may ask for since some version of the kubelet.
async fn newer_pods_live(
    kubelet: &Kubelet,
    node: &Node,
    image: &str,
    programs: &asked::Kubelet,
    has_image_volumes: bool,
    report: &mut Report,
) -> anyhow::Result<()> {
    let maps_users = maps_users(node).await?;
    let lacks = |since: u32| (kubelet.minor < since).then_some("such a kubelet has it not");
    let without = |has: bool| (!has).then_some("such a runtime has it not");
    let missing = [
        ("beside", lacks(29)),
        ("volume", lacks(35).or(without(has_image_volumes))),
        ("users", lacks(33).or(without(maps_users))),
    ];
    let dir = kubelet.manifests();
    for (name, missing) in missing {
        match missing {
            Some(why) => report.skip(why),
            None => write(&dir, name, &manifests::newer(name, image))?,
        }
    }
    let is_here = |wanted: &str| missing.contains(&(wanted, None));
    if is_here("beside") {
        report.within(
            "a sidecar is up before its pod, and goes when that is done",
            || {
                let pod = there(kubelet, "beside")?;
                let phase = &pod["status"]["phase"];
                ensure!(*phase == "Succeeded", "it is {phase}: {}", pod["status"]);
                let sidecar = &pod["status"]["initContainerStatuses"][0]["state"]["terminated"];
                ensure!(sidecar["exitCode"] == 0, "the sidecar: {sidecar}");
                Ok(())
            },
        );
    }
    if is_here("volume") {
        report.within("an image is a volume that nobody writes to", || {
            let said = kubelet.get(&kubelet.path("containerLogs", "volume", "main"))?;
            says(&said, "there\nread only\n")
        });
    }
    if is_here("users") {
        report.within("a pod has users of its own", || {
            let said = kubelet.get(&kubelet.path("containerLogs", "users", "main"))?;
            let words: Vec<&str> = said.split_ascii_whitespace().collect();
            let is_mapped = matches!(words[..], ["0", first, "65536"] if first.parse::<u32>()? > 0);
            ensure!(is_mapped, "its map is {said:?}");
            Ok(())
        });
    }
    if programs.gates.iter().any(|gate| gate == "EventedPLEG=true") {
        report.within("containers' events are heard", || {
            let figures = kubelet.get("/metrics")?;
            let name = "kubelet_evented_pleg_connection_success_count ";
            let line = figures.lines().find_map(|line| line.strip_prefix(name));
            let count: f64 = line.context("no such figure")?.parse()?;
            ensure!(count > 0.0, "it never heard any");
            Ok(())
        });
    }
    Ok(())
}

/// Whether the runtime says that it can give pods users of their own.
async fn maps_users(node: &Node) -> anyhow::Result<bool> {
    let mut runtime = node.cri().await.runtime;
    let status = runtime.status(StatusRequest::default()).await?;
    let mut handlers = status.into_inner().runtime_handlers.into_iter();
    let usual = handlers.find(|handler| handler.name.is_empty());
    let features = usual.and_then(|handler| handler.features);
    Ok(features.is_some_and(|features| features.user_namespaces))
}

/// The kubelet and the daemon end and come again.
async fn nothing_is_lost(kubelet: &mut Kubelet, node: &mut Node, report: &mut Report) {
    let before = within(|| container_ids(kubelet));
    kubelet.stop();
    kubelet.start_again();
    report.check("a pod goes on without the kubelet", same(&before, kubelet));
    node.kill9();
    node.start_again().await;
    report.check("a pod goes on without the daemon", same(&before, kubelet));
    report.within("a command in a container after that", || {
        serves(kubelet, "hello\n")
    });
}

/// Manifests are changed, and go.
async fn pods_change(
    kubelet: &Kubelet,
    image: &str,
    node: &Node,
    report: &mut Report,
) -> anyhow::Result<()> {
    let dir = kubelet.manifests();
    write(&dir, "web", &manifests::web(image, "changed"))?;
    report.within("a changed manifest is another pod", || {
        serves(kubelet, "changed\n")
    });
    report.check(
        "pods without a manifest are removed",
        remove_all(kubelet, node).await,
    );
    Ok(())
}

async fn remove_all(kubelet: &Kubelet, node: &Node) -> anyhow::Result<()> {
    for manifest in std::fs::read_dir(kubelet.manifests())? {
        std::fs::remove_file(manifest?.path())?;
    }
    let cri = node.cri().await;
    let deadline = Instant::now() + LIMIT;
    loop {
        let left = cri.pods().await?.len();
        if left == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{left} pods are left");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The kubelet hands out processors by changing containers that run. There must be no other pod: a small
/// machine has but one to give.
fn processors(kubelet: &Kubelet, image: &str, report: &mut Report) -> anyhow::Result<()> {
    if !has_processors(kubelet.minor) {
        report.skip("there is no processor to give");
        return Ok(());
    }
    let dir = kubelet.manifests();
    for (name, pod) in [
        ("pinned", manifests::pinned(image)),
        ("shared", manifests::host(image)),
    ] {
        write(&dir, name, &pod)?;
    }
    let of = |pod: &str| {
        let path = kubelet.path("run", pod, "main");
        let said = kubelet.post(&format!(
            "{path}?cmd=grep%20Cpus_allowed_list%20/proc/1/status"
        ))?;
        let list = said.split_ascii_whitespace().nth(1);
        list.map(str::to_owned)
            .with_context(|| format!("no list: {said:?}"))
    };
    report.within("a processor is one pod's alone", || {
        let (own, shared) = (of("pinned")?, of("host")?);
        let one: u32 = own.parse().with_context(|| format!("it has {own}"))?;
        ensure!(
            one > 0 && shared.starts_with('0') && !processors_of(&shared)?.contains(&one),
            "it has {own}, the other {shared}"
        );
        Ok(())
    });
    Ok(())
}

/// The processors of a list such as `0,2-3`.
fn processors_of(list: &str) -> anyhow::Result<Vec<u32>> {
    let mut all = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<u32>()?..=last.parse()?);
    }
    Ok(all)
}

/// Results of the checks.
#[derive(Default)]
struct Report(Outcome);

impl Report {
    fn skip(&mut self, why: &str) {
        *self.0.skipped.entry(why.to_owned()).or_default() += 1;
    }

    /// Checks what comes true in time.
    fn within(&mut self, name: &str, look: impl FnMut() -> anyhow::Result<()>) {
        self.check(name, within(look));
    }

    fn check(&mut self, name: &str, found: anyhow::Result<()>) {
        match found {
            Ok(()) => {
                eprintln!("  passed: {name}");
                self.0.passed += 1;
            }
            Err(error) => {
                eprintln!("  FAILED: {name}: {error:#}");
                self.0.failed.push(format!("{name}: {error:#}"));
            }
        }
    }
}

/// Repeats a check until it succeeds. Returns its last error at the timeout.
fn within<T>(mut look: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match look() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(200)),
            found => return found,
        }
    }
}

/// Whether the containers of the pod `web` are those that they were.
fn same(before: &anyhow::Result<Vec<String>>, kubelet: &Kubelet) -> anyhow::Result<()> {
    let Ok(before) = before else {
        bail!("it did not run before");
    };
    // A kubelet that has just come tells no states until it has looked.
    let now = within(|| container_ids(kubelet))?;
    ensure!(
        now == *before,
        "its containers were {before:?} and are {now:?}"
    );
    Ok(())
}

fn container_ids(kubelet: &Kubelet) -> anyhow::Result<Vec<String>> {
    let pod = there(kubelet, "web")?;
    ["server", "beside"]
        .iter()
        .map(|name| {
            let status = status(&pod, name);
            ensure!(status["state"]["running"].is_object(), "{name} is {status}");
            let id = status["containerID"].as_str().context("no id")?;
            Ok(id.to_owned())
        })
        .collect()
}

/// Whether a command in the pod `web` finds its file as it should be.
fn serves(kubelet: &Kubelet, wanted: &str) -> anyhow::Result<()> {
    let path = kubelet.path("run", "web", "server");
    let said = kubelet.post(&format!("{path}?cmd=cat%20/data/index.html"))?;
    says(&said, wanted)
}

fn there(kubelet: &Kubelet, name: &str) -> anyhow::Result<Value> {
    kubelet.pod(name)?.with_context(|| format!("no pod {name}"))
}

fn status(pod: &Value, container: &str) -> Value {
    let all = pod["status"]["containerStatuses"].as_array();
    let found = all.and_then(|all| all.iter().find(|one| one["name"] == container));
    found.cloned().unwrap_or_default()
}

fn says(text: &str, wanted: impl Display) -> anyhow::Result<()> {
    let wanted = wanted.to_string();
    ensure!(text == wanted, "it says {text:?}, not {wanted:?}");
    Ok(())
}

/// At once: a kubelet reads files while they are written.
fn write(dir: &Path, name: &str, pod: &Value) -> anyhow::Result<()> {
    let hidden = dir.join(format!(".{name}"));
    std::fs::write(&hidden, pod.to_string())?;
    std::fs::rename(&hidden, dir.join(format!("{name}.json")))?;
    Ok(())
}
