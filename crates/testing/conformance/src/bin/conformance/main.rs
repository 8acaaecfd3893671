//! What others' programs say of orlop (`make conformance`): critest on each backend and runtime, and the
//! static pods of a kubelet that has no cluster. The programs are the caller's; the result is one table that
//! says of which commit and machine it is.
//!
//! | variable | what it names |
//! |---|---|
//! | `CRITEST` | the program critest |
//! | `CRITEST_ARGS` | more of its arguments, such as `-test-images-file=FILE` where the images are elsewhere |
//! | `KUBELET`, `KUBECTL` | a kubelet, and the kubectl that asks it |
//! | `GATES` | features of the kubelet to turn on or off, such as `EventedPLEG=true` |
//! | `BACKENDS` | of `native docker`; both, where an engine can be started |
//! | `ENGINE` | the socket of a Docker Engine that runs; else Debian's is started |
//! | `HANDLERS` | runtimes of the native backend, by name or path; all of `orlop-run runc crun runsc` that are here |
//! | `HOSTS_DIR` | a directory as `images.hosts_dirs` has it, for mirrors of what critest pulls |
//! | `REPORT` | the file that the table is written to as well |
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod asked;
mod checks;
mod critest;
mod kubelet;
mod manifests;
mod place;
mod table;

use anyhow::Context as _;
use orlop_testkit::{DockerEngine, Node, Registry, Scratch, machine};

use asked::{Asked, Backend};
use table::{Row, Table};

fn main() -> anyhow::Result<()> {
    let asked = Asked::from_environment()?;
    if let Err(reason) = machine::can_run_pods() {
        anyhow::bail!("this machine can't run pods: it {reason}");
    }
    let reactor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let table = reactor.block_on(all(&asked))?;
    print!("{table}");
    if let Some(file) = &asked.report {
        std::fs::write(file, table.to_string())
            .with_context(|| format!("writing {}", file.display()))?;
    }
    anyhow::ensure!(table.failed() == 0, "{} checks failed", table.failed());
    Ok(())
}

async fn all(asked: &Asked) -> anyhow::Result<Table> {
    let mut table = Table::new(place::told(asked)?);
    for backend in &asked.backends {
        match backend {
            Backend::Native(handler) => {
                let node = Node::orlop()
                    .runtime(&handler.path)
                    .drop_in(&asked.drop_in())
                    .start()
                    .await;
                one(asked, node, "native", &handler.name, &mut table).await?;
            }
            Backend::Docker => {
                let own = asked.engine.is_none().then(DockerEngine::start);
                let socket = own.as_ref().map(DockerEngine::socket);
                let socket = socket.or_else(|| asked.engine.clone());
                let root = Scratch::new();
                let config = format!(
                    "backend = \"docker\"\n[docker]\nendpoint = \"{}\"\nroot = \"{}\"",
                    socket.unwrap_or_default().display(),
                    root.path("shim").display()
                );
                let node = Node::orlop()
                    .config(&config)
                    .drop_in(&asked.drop_in())
                    .start()
                    .await;
                one(asked, node, "docker", "the engine's", &mut table).await?;
            }
        }
    }
    Ok(table)
}

/// What there is to say of one node, which is gone afterwards.
async fn one(
    asked: &Asked,
    mut node: Node,
    backend: &str,
    handler: &str,
    table: &mut Table,
) -> anyhow::Result<()> {
    map_ports(&node)?;
    let row = |who: &str, outcome| Row::new(who, backend, handler, outcome);
    if let Some(critest) = &asked.critest {
        eprintln!("critest on {backend}, {handler} …");
        table.add(row("critest", critest::run(critest, &node)?));
    }
    if let Some(programs) = &asked.kubelet {
        eprintln!("a kubelet's static pods on {backend}, {handler} …");
        let registry = Registry::start();
        let has_image_volumes = backend != "docker";
        let outcome = checks::run(programs, &mut node, &registry, has_image_volumes).await?;
        table.add(row(&programs.name(), outcome));
    }
    Ok(())
}

/// Has the node's network map ports of the host, which what only looks at pods does without.
fn map_ports(node: &Node) -> anyhow::Result<()> {
    let file = node.scratch().path("cni").join("10-test.conflist");
    let mut network: serde_json::Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    let plugins = network["plugins"].as_array_mut().context("no plugins")?;
    plugins
        .push(serde_json::json!({ "type": "portmap", "capabilities": { "portMappings": true } }));
    Ok(std::fs::write(&file, network.to_string())?)
}
