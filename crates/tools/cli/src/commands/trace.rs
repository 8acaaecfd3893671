//! `trace`: shows how long each step of a pod start took.

use std::fmt::Write as _;

use anyhow::bail;
use orlop_cri_api::inspection::{Call, ListTracesRequest, Trace, TraceKind};

use crate::connect::{Session, refused};
use crate::input::select;
use crate::output::{self, Format, stdout, write_all};

/// The width of the longest bar.
const WIDTH: u64 = 40;

/// Arguments of `trace`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name, ID or ID prefix of the pod; for a removed pod, its ID
    #[arg(value_name = "POD", conflicts_with_all = ["slowest", "pulls"])]
    pod: Option<String>,

    /// Show the pods that took longest to start
    #[arg(long, value_name = "N")]
    slowest: Option<u32>,

    /// Show image pulls instead of pod starts
    #[arg(long)]
    pulls: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Default number of traces.
const FEW: u32 = 10;

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let connection = session.runtime_connection().await?;
    let mut request = ListTracesRequest {
        limit: args.slowest.unwrap_or(FEW),
        slowest_first: args.slowest.is_some(),
        ..ListTracesRequest::default()
    };
    let kind = if args.pulls {
        TraceKind::Pull
    } else {
        TraceKind::Pod
    };
    request.set_kinds(kind);
    if let Some(word) = &args.pod {
        // A removed pod cannot be found by name any more.
        let known = select::pod(&connection.runtime(), word).await;
        request.pod_sandbox_id = known.unwrap_or_else(|_| word.clone());
    }
    let answer = connection.orlop_inspection().list_traces(request).await;
    let answer = answer.map_err(refused)?.into_inner();
    if args.json {
        output::list(&mut stdout(), &answer, &Format::Json)?;
        return Ok(());
    }
    if answer.traces.is_empty() {
        if let Some(word) = args.pod {
            bail!("no trace of the start of pod {word:?}; the daemon keeps only the latest traces");
        }
        return Ok(write_all(
            "no pod was started since the start of the daemon\n",
        )?);
    }
    let detailed = args.pod.is_some() || answer.traces.len() == 1;
    let mut text = String::new();
    for trace in &answer.traces {
        if detailed {
            waterfall(trace, &mut text);
        } else {
            line(trace, &mut text);
        }
    }
    Ok(write_all(&text)?)
}

trait SetKinds {
    fn set_kinds(&mut self, kind: TraceKind);
}

impl SetKinds for ListTracesRequest {
    fn set_kinds(&mut self, kind: TraceKind) {
        self.kinds = vec![kind.into()];
    }
}

/// Formats a trace in one line: total duration and longest steps.
fn line(trace: &Trace, text: &mut String) {
    let steps = trace.calls.iter().flat_map(|call| &call.steps);
    let mut steps: Vec<_> = steps.map(|step| (step.took_us, &step.name)).collect();
    steps.sort_unstable_by(|a, b| b.cmp(a));
    let longest: Vec<_> = steps
        .iter()
        .take(3)
        .map(|(took, name)| format!("{name} {}", millis(*took)))
        .collect();
    let failed = trace.calls.iter().any(|call| call.failed);
    let _ = writeln!(
        text,
        "{:>12}  {}  {}{}  ({})",
        millis(trace.waited_us),
        output::short_id(&trace.id),
        trace.name,
        if failed { "  FAILED" } else { "" },
        longest.join(", "),
    );
}

/// Formats a trace with all steps on a time axis.
fn waterfall(trace: &Trace, text: &mut String) {
    let _ = writeln!(
        text,
        "{}  {}  {}  waited {}",
        trace.name,
        output::short_id(&trace.id),
        trace.runtime_handler,
        millis(trace.waited_us)
    );
    // Time between calls belongs to the client: the axis covers calls only.
    let total: u64 = trace.calls.iter().map(|call| call.took_us).sum();
    let scale = Scale(total.max(1));
    let mut before = 0;
    for call in &trace.calls {
        draw_call(call, &scale, before, text);
        before += call.took_us;
    }
    if trace.left_out > 0 {
        let _ = writeln!(
            text,
            "(further calls that were not kept: {})",
            trace.left_out
        );
    }
}

fn draw_call(call: &Call, scale: &Scale, before: u64, text: &mut String) {
    let name = if call.container.is_empty() {
        call.name.clone()
    } else {
        format!("{} {}", call.name, call.container)
    };
    let fate = match (call.running, call.failed) {
        (true, _) => "  in progress",
        (false, true) => "  FAILED",
        (false, false) => "",
    };
    let took = millis(call.took_us);
    let bar = scale.bar(before, call.took_us, '━');
    let _ = writeln!(text, "{name:<32} {took:>12}  {bar}{fate}");
    for step in &call.steps {
        let start = before + step.start_us.saturating_sub(call.start_us);
        let fate = if step.failed { "  FAILED" } else { "" };
        let took = millis(step.took_us);
        let bar = scale.bar(start, step.took_us, '─');
        let _ = writeln!(text, "  {:<30} {took:>12}  {bar}{fate}", step.name);
    }
}

/// Microseconds of the whole width.
struct Scale(u64);

impl Scale {
    fn bar(&self, start: u64, took: u64, with: char) -> String {
        let column = |at: u64| (u128::from(at) * u128::from(WIDTH) / u128::from(self.0)) as usize;
        let from = column(start).min(WIDTH as usize - 1);
        let to = column(start.saturating_add(took)).clamp(from + 1, WIDTH as usize);
        let mut bar = " ".repeat(from);
        bar.extend(std::iter::repeat_n(with, to - from));
        bar
    }
}

fn millis(micros: u64) -> String {
    format!("{}.{:03} ms", micros / 1000, micros % 1000)
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::inspection::Step;

    use super::*;

    #[test]
    fn steps_stand_where_they_belong_in_time() {
        let step = |name: &str, start_us, took_us| Step {
            name: name.into(),
            start_us,
            took_us,
            failed: false,
        };
        let call = |name: &str, start_us, took_us, steps| Call {
            name: name.into(),
            start_us,
            took_us,
            steps,
            ..Call::default()
        };
        let trace = Trace {
            id: "0123456789abcdef".into(),
            name: "default/web".into(),
            runtime_handler: "runc".into(),
            waited_us: 40_000,
            calls: vec![
                call(
                    "RunPodSandbox",
                    0,
                    10_000,
                    vec![step("keeper", 5_000, 5_000)],
                ),
                // Meanwhile the client pulled an image for a minute.
                Call {
                    container: "main".into(),
                    ..call(
                        "StartContainer",
                        60_000_000,
                        30_000,
                        vec![step("runtime", 60_000_000, 15_000)],
                    )
                },
            ],
            ..Trace::default()
        };
        let mut text = String::new();
        waterfall(&trace, &mut text);
        let bars: Vec<_> = text
            .lines()
            .skip(1)
            .map(|line| {
                let bar: Vec<char> = line.chars().skip(47).collect();
                let from = bar.iter().take_while(|c| **c == ' ').count();
                (from, bar.len() - from)
            })
            .collect();
        assert_eq!(bars, [(0, 10), (5, 5), (10, 30), (10, 15)], "{text}");
        assert!(
            text.contains("StartContainer main                 30.000 ms"),
            "{text}"
        );
    }
}
