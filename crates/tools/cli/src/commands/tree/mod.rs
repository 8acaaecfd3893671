//! `tree`: shows pods with their containers, processes and cgroups.

mod machine;

use std::fmt::Write as _;
use std::io::Write as _;

use orlop_cri_api::client::RuntimeClient;
use orlop_cri_api::v1::{Container, ContainerState, PodSandbox, PodSandboxState};
use serde_json::{Value, json};

use self::machine::{Cgroup, Hierarchy, Process, hierarchies, processes};
use crate::connect::Session;
use crate::input::select::{self, PodFlags, Thing};
use crate::output::{self, Format, FormatFlags, Style, cut, short_id, stdout};

/// Arguments of `tree`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only these pods, or the pods of these containers
    #[arg(value_name = "POD|CONTAINER")]
    things: Vec<String>,

    #[command(flatten)]
    which: PodFlags,

    /// Include containers that are not running
    #[arg(short, long)]
    all: bool,

    /// Do not show processes
    #[arg(short = 'P', long)]
    no_processes: bool,

    /// Show full IDs and command lines
    #[arg(long)]
    no_trunc: bool,

    #[command(flatten)]
    format: FormatFlags,
}

/// A pod with its containers.
struct Branch {
    pod: PodSandbox,
    ip: String,
    containers: Vec<Leaf>,
}

struct Leaf {
    container: Container,
    cgroup: Option<Cgroup>,
    processes: Vec<Process>,
    /// The runtime reports a process that is not visible on this machine.
    elsewhere: bool,
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let format = args.format.or_table()?;
    let client = session.runtime().await?;
    let branches = branches(&args, &client).await?;
    let mut out = stdout();
    if matches!(format, Format::Table) {
        let text = Painter {
            style: Style::of(&std::io::stdout()),
            width: output::width().filter(|_| !args.no_trunc),
            whole_ids: args.no_trunc,
            text: String::new(),
        };
        out.write_all(text.paint(&branches).as_bytes())?;
        if branches
            .iter()
            .any(|branch| branch.containers.iter().any(|leaf| leaf.elsewhere))
        {
            say!(
                "processes cannot be shown; run this command on the node of the runtime, as root, \
                 in the PID namespace of the host"
            );
        }
    } else {
        let pods: Vec<Value> = branches.iter().map(value).collect();
        output::value(&mut out, &json!({ "pods": pods }), &format)?;
    }
    Ok(out.flush()?)
}

async fn branches(args: &Args, client: &RuntimeClient) -> anyhow::Result<Vec<Branch>> {
    let mut pods = args.which.list(client, None).await?;
    let mut containers = client.list_containers(None).await?;
    containers.sort_by_key(|container| container.created_at);
    let mut wanted = Vec::new();
    for word in &args.things {
        wanted.push(match select::thing(client, word).await? {
            Thing::Pod(id) => id,
            Thing::Container(id) => containers
                .iter()
                .find(|container| container.id == id)
                .map(|container| container.pod_sandbox_id.clone())
                .unwrap_or_default(),
        });
    }
    if !args.things.is_empty() {
        pods.retain(|pod| wanted.contains(&pod.id));
    }
    let mounted = hierarchies();
    let mut branches = Vec::new();
    for pod in pods {
        let mut leaves = Vec::new();
        for container in &containers {
            let running = container.state() == ContainerState::ContainerRunning;
            if container.pod_sandbox_id != pod.id || !(running || args.all) {
                continue;
            }
            let mut leaf = Leaf {
                container: container.clone(),
                cgroup: None,
                processes: Vec::new(),
                elsewhere: false,
            };
            if running && !args.no_processes {
                leaf.look(select::pid(client, &container.id).await?, &mounted);
            }
            leaves.push(leaf);
        }
        // A pod that is gone has no address.
        let status = client.pod_sandbox_status(&pod.id, false).await.ok();
        let network = status.and_then(|answer| answer.status?.network);
        branches.push(Branch {
            pod,
            ip: network.map(|network| network.ip).unwrap_or_default(),
            containers: leaves,
        });
    }
    Ok(branches)
}

impl Leaf {
    fn look(&mut self, pid: Option<u32>, mounted: &[Hierarchy]) {
        let Some(pid) = pid else { return };
        self.cgroup = Cgroup::of(pid, mounted);
        let mut pids = self.cgroup.as_ref().map(Cgroup::pids).unwrap_or_default();
        if !pids.contains(&pid) {
            // The container may have moved itself, or cgroups may be invisible.
            pids.push(pid);
        }
        self.processes = processes(&pids);
        self.elsewhere = self.processes.is_empty();
    }
}

fn value(branch: &Branch) -> Value {
    let metadata = branch.pod.metadata.clone().unwrap_or_default();
    let containers: Vec<Value> = branch
        .containers
        .iter()
        .map(|leaf| {
            let metadata = leaf.container.metadata.clone().unwrap_or_default();
            json!({
                "id": leaf.container.id,
                "name": metadata.name,
                "attempt": metadata.attempt,
                "state": leaf.container.state().as_str_name(),
                "cgroup": leaf.cgroup.as_ref().map(|cgroup| cgroup.path.clone()),
                "processes": leaf.processes.iter().map(process).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "id": branch.pod.id,
        "name": metadata.name,
        "namespace": metadata.namespace,
        "state": branch.pod.state().as_str_name(),
        "ip": branch.ip,
        "containers": containers,
    })
}

fn process(process: &Process) -> Value {
    json!({
        "pid": process.pid,
        "command": process.command,
        "children": process.children.iter().map(self::process).collect::<Vec<_>>(),
    })
}

struct Painter {
    style: Style,
    /// Longer lines are truncated.
    width: Option<usize>,
    whole_ids: bool,
    text: String,
}

impl Painter {
    fn paint(mut self, branches: &[Branch]) -> String {
        for branch in branches {
            let metadata = branch.pod.metadata.clone().unwrap_or_default();
            let ready = branch.pod.state() == PodSandboxState::SandboxReady;
            let name = format!("{}/{}", metadata.namespace, metadata.name);
            let name = self.style.colour(if ready { 1 } else { 2 }, &name);
            let state = if ready { "" } else { "  NotReady" };
            let id = self.style.dim(self.id(&branch.pod.id));
            let _ = writeln!(self.text, "{name}  {id}{state}  {}", branch.ip);
            let mut rest = branch.containers.as_slice();
            while let Some((leaf, after)) = rest.split_first() {
                self.leaf(leaf, after.is_empty());
                rest = after;
            }
        }
        self.text
    }

    fn leaf(&mut self, leaf: &Leaf, last: bool) {
        let (branch, below) = lines(last);
        let metadata = leaf.container.metadata.clone().unwrap_or_default();
        let (state, colour) = match leaf.container.state() {
            ContainerState::ContainerRunning => ("", 32),
            ContainerState::ContainerCreated => ("  Created", 33),
            ContainerState::ContainerExited => ("  Exited", 2),
            ContainerState::ContainerUnknown => ("  Unknown", 31),
        };
        let name = self.style.colour(colour, &metadata.name);
        let id = self.style.dim(self.id(&leaf.container.id));
        let _ = writeln!(self.text, "{branch}{name}  {id}{state}");
        if let Some(cgroup) = &leaf.cgroup {
            let bar = if leaf.processes.is_empty() {
                " "
            } else {
                "│"
            };
            let line = self.fit(&format!("{below}{bar}  {}", cgroup.path));
            let _ = writeln!(self.text, "{}", self.style.dim(&line));
        }
        self.processes(&leaf.processes, below);
    }

    fn processes(&mut self, processes: &[Process], before: &str) {
        let mut rest = processes;
        while let Some((process, after)) = rest.split_first() {
            let (branch, below) = lines(after.is_empty());
            let line = format!("{before}{branch}{} {}", process.pid, process.command);
            let line = self.fit(&line);
            let _ = writeln!(self.text, "{line}");
            self.processes(&process.children, &format!("{before}{below}"));
            rest = after;
        }
    }

    fn fit(&self, line: &str) -> String {
        self.width
            .map_or_else(|| line.to_owned(), |width| cut(line, width))
    }

    fn id<'a>(&self, id: &'a str) -> &'a str {
        if self.whole_ids { id } else { short_id(id) }
    }
}

/// Returns the tree lines before an entry and before its children.
fn lines(last: bool) -> (&'static str, &'static str) {
    if last {
        ("└─ ", "   ")
    } else {
        ("├─ ", "│  ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_stand_below_their_container() {
        let process = |pid, children| Process {
            pid,
            command: format!("command {pid}"),
            children,
        };
        let container = Container {
            id: "c".repeat(64),
            metadata: Some(orlop_cri_api::v1::ContainerMetadata {
                name: "web".into(),
                attempt: 0,
            }),
            state: ContainerState::ContainerRunning.into(),
            ..Default::default()
        };
        let leaf = Leaf {
            container,
            cgroup: None,
            processes: vec![process(7, vec![process(8, vec![])]), process(9, vec![])],
            elsewhere: false,
        };
        let branch = Branch {
            pod: PodSandbox {
                id: "p".repeat(64),
                metadata: Some(orlop_cri_api::v1::PodSandboxMetadata {
                    name: "a".into(),
                    namespace: "n".into(),
                    ..Default::default()
                }),
                ..Default::default()
            },
            ip: "10.0.0.2".into(),
            containers: vec![leaf],
        };
        let painter = Painter {
            style: Style::PLAIN,
            width: None,
            whole_ids: false,
            text: String::new(),
        };
        assert_eq!(
            painter.paint(&[branch]),
            "n/a  ppppppppppppp  10.0.0.2\n\
             └─ web  ccccccccccccc\n   \
                ├─ 7 command 7\n   \
                │  └─ 8 command 8\n   \
                └─ 9 command 9\n"
        );
    }
}
