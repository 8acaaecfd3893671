//! Live table of the pods on a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use orlop_agent::{AgentHandle, Weight};
use orlop_kuberuntime::manager::Change;
use rustix::termios::tcgetwinsize;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::super::node::summary_line;

/// Escape sequences that enter and leave the alternate screen (ECMA-48, xterm).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";

/// Refresh interval: ages are shown in seconds.
const PERIOD: Duration = Duration::from_secs(1);
/// Delay after a change, as changes come in bursts.
const SETTLE: Duration = Duration::from_millis(100);

/// Guard of the alternate screen, which is left on drop.
struct Screen;

impl Screen {
    fn take() -> io::Result<Self> {
        put(ENTER)?;
        Ok(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = put(LEAVE);
    }
}

/// Shows the table until it is stopped.
pub(super) async fn show(
    handle: &AgentHandle,
    (log, page): (&Path, &str),
    stop: &CancellationToken,
    keeps: bool,
) -> io::Result<()> {
    let screen = Screen::take()?;
    let mut watch = handle.manager().watch();
    let mut events: BTreeMap<String, String> = BTreeMap::new();
    let mut next = Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = sleep_until(next) => {
                put(&draw(handle, &events, (log, page), keeps))?;
                next = Instant::now() + PERIOD;
            }
            change = watch.next() => {
                match change {
                    None => break,
                    Some(Ok(Change::Event(event))) => {
                        let text = format!("{}: {}", event.reason, event.message);
                        events.insert(event.uid.clone(), text);
                    }
                    Some(Ok(Change::Gone { uid })) => drop(events.remove(&uid)),
                    Some(Ok(Change::Pod { .. }) | Err(_)) => {}
                }
                next = next.min(Instant::now() + SETTLE);
            }
        }
    }
    drop(screen);
    Ok(())
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn draw(
    handle: &AgentHandle,
    events: &BTreeMap<String, String>,
    (log, page): (&Path, &str),
    keeps: bool,
) -> String {
    let (width, height) = tcgetwinsize(io::stdout()).map_or((80, 24), |size| {
        (usize::from(size.ws_col), usize::from(size.ws_row))
    });
    let mut rows = vec![
        [
            "NAMESPACE",
            "NAME",
            "READY",
            "STATUS",
            "RESTARTS",
            "AGE",
            "IP",
            "LAST EVENT",
        ]
        .map(str::to_owned),
    ];
    let pods = handle.manager().pods();
    let running = pods.iter().filter(|pod| pod.ready).count();
    for pod in &pods {
        let (ready, all) = pod.ready_containers;
        let event = events.get(&pod.uid).unwrap_or(&pod.message);
        rows.push([
            pod.namespace.clone(),
            pod.name.clone(),
            format!("{ready}/{all}"),
            summary_line(&pod.summary, &pod.reason),
            pod.restarts.to_string(),
            age(pod.start_time.0),
            pod.ips.first().map(ToString::to_string).unwrap_or_default(),
            event.clone(),
        ]);
    }
    let mut lines = vec![format!("{running} of {} pods are ready", pods.len())];
    if !page.is_empty() {
        lines.push(page.to_owned());
    }
    lines.push(String::new());
    lines.extend(table(&rows));
    let remarks = handle.remarks();
    if !remarks.is_empty() {
        lines.push(String::new());
    }
    let (errors, warnings): (Vec<_>, Vec<_>) =
        remarks.iter().partition(|it| it.weight == Weight::Error);
    lines.extend(errors.iter().chain(&warnings).map(ToString::to_string));
    let end = if keeps {
        "press Ctrl-C to exit; the pods keep running"
    } else {
        "press Ctrl-C to stop the pods"
    };
    screen(
        lines,
        &format!("{end}; log: {}", log.display()),
        width,
        height,
    )
}

/// Truncates the lines to the screen and puts the footer on the last line.
fn screen(mut lines: Vec<String>, footer: &str, width: usize, height: usize) -> String {
    let room = height.saturating_sub(2).max(1);
    if lines.len() > room {
        let hidden = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(format!("… {hidden} more lines"));
    }
    let mut text = HOME.to_owned();
    for line in lines.iter().map(String::as_str).chain(["", footer]) {
        // Output of containers may contain any character.
        let plain = line.chars().map(|c| if c.is_control() { ' ' } else { c });
        let cut: String = plain.take(width).collect();
        let _ = write!(text, "{cut}{REST_OF_LINE}\r\n");
    }
    let end = text.trim_end_matches("\r\n").len();
    text.truncate(end);
    text + REST_OF_SCREEN
}

fn table(rows: &[[String; 8]]) -> Vec<String> {
    let mut widths = [0; 8];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; 8]| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn age(since: i64) -> String {
    let now = Timestamp::now().as_nanosecond();
    let seconds = (now - i128::from(since)).max(0) / 1_000_000_000;
    match seconds {
        ..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_never_left_or_scrolled() {
        let lines: Vec<String> = (0..50)
            .map(|n| format!("line {n} \x1b[31m{}", "x".repeat(99)))
            .collect();
        let text = screen(lines, "footer", 40, 10);
        assert_eq!(text.matches("\r\n").count(), 9);
        let shown: Vec<&str> = text.split("\r\n").collect();
        assert!(shown[7].contains("43 more lines"), "{}", shown[7]);
        assert!(shown[9].starts_with("footer"));
        for line in &shown[..9] {
            let plain = line.replace(HOME, "").replace(REST_OF_LINE, "");
            assert!(
                plain.chars().count() <= 40 && !plain.contains('\x1b'),
                "{plain:?}"
            );
        }
    }
}
