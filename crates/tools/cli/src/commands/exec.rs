//! `exec`: runs a command in containers and returns its exit code.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use orlop_cri_api::client::RuntimeClient;
use orlop_cri_api::v1::ExecRequest;

use crate::connect::{Dialect, Session, TransportFlags, whole_url};
use crate::input::Pair;
use crate::input::select::{self, ContainerFlags};
use crate::output::write_all;
use crate::terminal::Side;

/// Arguments of `exec`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Container, command and arguments; omit the container if flags select the containers
    #[arg(
        value_name = "CONTAINER] [COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<String>,

    /// Run the command synchronously and print the output when it exits
    #[arg(short, long)]
    sync: bool,

    /// Timeout of the command in seconds; it is then killed
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    timeout: u64,

    /// Allocate a TTY
    #[arg(short, long)]
    tty: bool,

    /// Pass standard input to the command
    #[arg(short, long)]
    interactive: bool,

    #[command(flatten)]
    transport: TransportFlags,

    /// Run in all containers whose name matches this regular expression
    #[arg(long, value_name = "REGEX")]
    name: Option<String>,

    /// Run in all containers of this pod
    #[arg(short, long)]
    pod: Option<String>,

    /// Run in all containers of this image
    #[arg(long)]
    image: Option<String>,

    /// Run in all containers in this state
    #[arg(long)]
    state: Option<String>,

    /// Run in all containers with this label
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    label: Vec<Pair>,

    /// Run in the most recently created container
    #[arg(short, long)]
    latest: bool,

    /// Run in the N most recently created containers
    #[arg(short = 'n', long, value_name = "N", default_value_t = 0)]
    last: usize,

    /// Do not print the container ID before the output if there are several containers
    #[arg(short, long)]
    quiet: bool,

    /// Exit with 0 even if the command fails
    #[arg(short = 'e', long)]
    ignore_errors: bool,

    /// Run in the selected containers in parallel
    #[arg(short = 'x', long)]
    parallel: bool,
}

impl Args {
    fn which(&self) -> ContainerFlags {
        ContainerFlags {
            name: self.name.clone(),
            namespace: None,
            pod: self.pod.clone(),
            image: self.image.clone(),
            label: self.label.clone(),
            latest: self.latest,
            last: self.last,
        }
    }
}

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<ExitCode> {
    let client = session.patient_runtime(None).await?;
    let which = args.which();
    let (ids, command, announce) = if which.any() || args.state.is_some() {
        let images = session.images().await?;
        let found = which
            .list(&client, &images, None, args.state.as_deref(), false)
            .await?;
        let ids: Vec<String> = found.into_iter().map(|container| container.id).collect();
        (ids, args.words.clone(), !args.quiet && !args.parallel)
    } else {
        let (container, command) = args.words.split_first().context("no container given")?;
        (
            vec![select::container(&client, container).await?],
            command.to_vec(),
            false,
        )
    };
    if ids.is_empty() {
        bail!("no container matches the flags");
    }
    if command.is_empty() {
        bail!("no command given");
    }
    if ids.len() > 1 && args.interactive {
        bail!(
            "several containers cannot share standard input; select one container, or leave out -i"
        );
    }
    let run = async |id: &String| {
        if announce {
            write_all(&format!("{id}:\n"))?;
        }
        if args.sync {
            let limit = Duration::from_secs(args.timeout);
            sync(&client, id, &command, limit, session.dialect).await
        } else {
            live(&client, id, &command, &args).await
        }
    };
    let results = if args.parallel {
        futures_util::future::join_all(ids.iter().map(run)).await
    } else {
        let mut results = Vec::new();
        for id in &ids {
            results.push(run(id).await);
        }
        results
    };
    if session.dialect == Dialect::Crictl {
        if args.ignore_errors {
            return Ok(ExitCode::SUCCESS);
        }
        return crictl_code(results);
    }
    exit_code(results, args.ignore_errors)
}

/// In crictl mode a command that fails is reported as an error.
fn crictl_code(results: Vec<anyhow::Result<i32>>) -> anyhow::Result<ExitCode> {
    let results = results.into_iter().map(|result| match result {
        Ok(0) => Ok(0),
        Ok(code) => Err(anyhow!("command terminated with exit code {code}")),
        Err(error) => Err(error),
    });
    exit_code(results.collect(), false)
}

/// Runs the command, prints its output and returns its exit code.
async fn sync(
    client: &RuntimeClient,
    id: &str,
    command: &[String],
    limit: Duration,
    dialect: Dialect,
) -> anyhow::Result<i32> {
    let answer = client.exec_sync(id, command.to_vec(), limit).await;
    let answer = answer.with_context(|| format!("cannot run the command in container {id}"))?;
    let mut out = std::io::stdout().lock();
    if dialect == Dialect::Crictl {
        // crictl prints everything to standard output, with a newline after each stream, and nothing on a failure.
        if answer.exit_code == 0 {
            out.write_all(&[&answer.stdout[..], b"\n", &answer.stderr[..], b"\n"].concat())?;
        }
        return Ok(answer.exit_code);
    }
    out.write_all(&answer.stdout)?;
    out.flush()?;
    std::io::stderr().lock().write_all(&answer.stderr)?;
    Ok(answer.exit_code)
}

/// Runs the command with this process's standard streams and returns its exit code.
async fn live(
    client: &RuntimeClient,
    id: &str,
    command: &[String],
    args: &Args,
) -> anyhow::Result<i32> {
    let (side, streams) = Side::take(args.interactive, args.tty)?;
    let request = ExecRequest {
        container_id: id.to_owned(),
        cmd: command.to_vec(),
        tty: args.tty,
        stdin: args.interactive,
        stdout: true,
        stderr: !args.tty,
    };
    let url = whole_url(&client.exec(request).await?);
    let options = args.transport.options(&url)?;
    let session = orlop_streaming::client::exec(&url, &options, streams);
    let code = tokio::select! {
        code = session => code.with_context(|| format!("cannot run the command in container {id}"))?,
        () = side.detached() => 0,
    };
    Ok(code)
}

/// Returns the exit code of the last command that failed; an error of the runtime takes precedence.
fn exit_code(results: Vec<anyhow::Result<i32>>, ignore: bool) -> anyhow::Result<ExitCode> {
    let mut code = 0;
    let mut failed = Vec::new();
    for result in results {
        match result {
            Ok(0) => {}
            Ok(failure) => code = failure,
            Err(error) => failed.push(error),
        }
    }
    if ignore {
        for error in failed {
            say!("warning: {error:#}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let [_] = failed.as_slice() {
        return Err(failed.remove(0));
    }
    if !failed.is_empty() {
        let lines: Vec<String> = failed.iter().map(|error| format!("{error:#}")).collect();
        bail!("{}", lines.join("\n"));
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}
