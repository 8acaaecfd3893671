//! Rendering of the view as lines.

use std::fmt::Write as _;
use std::time::Duration;

use orlop_cri_api::images::ImageHere;

use super::sample::Usage;
use super::view::{Column, Kind, Row, View};
use crate::families::here;
use crate::output::{Style, ago, cut, short_bytes};

/// Characters of a sparkline.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

const HELP: [&str; 16] = [
    "",
    "  ↑ ↓ j k, page keys, g G    select",
    "  l, enter                   the log of the selected container, or of all of a pod",
    "  e                          a shell in the selected container",
    "  /                          filter by container, pod or namespace (esc: clear)",
    "  c m n i t N                sort by cpu, memory, network, io, age, name (again: reverse)",
    "  r                          reverse the order",
    "  p                          group containers by pod, or list them alone",
    "  a                          include containers and pods that are not running",
    "  space                      pause the display",
    "  + -                        update more often, less often",
    "  q, esc, ctrl-c             quit",
    "",
    "  CPU is in percent of one core. NET counts the pod, IO counts block devices.",
    "  - means that the runtime does not report the value.",
    "",
];

/// A column of numbers.
struct Field {
    heading: &'static str,
    width: usize,
    sort: Option<Column>,
    /// Minimum width of the screen for this column.
    from: usize,
    text: fn(&Row) -> String,
}

const FIELDS: [Field; 9] = [
    Field {
        heading: "CPU %",
        width: 7,
        sort: Some(Column::Cpu),
        from: 0,
        text: |row| percent(row.usage.cpu),
    },
    Field {
        heading: "",
        width: 12,
        sort: None,
        from: 100,
        text: |row| sparkline(&row.usage.cpu_before, 12),
    },
    Field {
        heading: "MEM",
        width: 8,
        sort: Some(Column::Memory),
        from: 0,
        text: |row| row.usage.memory.map_or_else(dash, short_bytes),
    },
    Field {
        heading: "LIMIT",
        width: 5,
        sort: None,
        from: 90,
        text: |row| share(&row.usage),
    },
    Field {
        heading: "",
        width: 12,
        sort: None,
        from: 120,
        text: |row| sparkline(&row.usage.memory_before, 12),
    },
    Field {
        heading: "NET IN",
        width: 9,
        sort: Some(Column::Network),
        from: 72,
        text: |row| of_pod(row, row.usage.received),
    },
    Field {
        heading: "NET OUT",
        width: 9,
        sort: None,
        from: 72,
        text: |row| of_pod(row, row.usage.sent),
    },
    Field {
        heading: "IO READ",
        width: 9,
        sort: Some(Column::Io),
        from: 92,
        text: |row| speed(row.usage.read),
    },
    Field {
        heading: "IO WRITE",
        width: 9,
        sort: None,
        from: 92,
        text: |row| speed(row.usage.written),
    },
];

/// Renders the whole screen, one string for each line.
pub(super) fn frame(
    view: &mut View,
    endpoint: &str,
    interval: Duration,
    width: usize,
    height: usize,
) -> Vec<String> {
    let style = Style::of(&std::io::stdout());
    let mut lines = vec![
        fill(&title(view, endpoint, interval), width),
        fill(&totals(view), width),
    ];
    if view.help {
        lines.extend(HELP.iter().map(|line| fill(line, width)));
        lines.truncate(height);
        return lines;
    }
    let rows = view.rows();
    lines.push(fill(&status(view, rows.len()), width));
    lines.push(format!(
        "\x1b[7m{}\x1b[0m",
        fill(&heading(view, width), width)
    ));
    let room = height.saturating_sub(lines.len() + 1);
    let selected = view.place(&rows, room);
    for (at, row) in rows.iter().enumerate().skip(view.first).take(room) {
        let line = fill(&self::row(row, view.by_pod, width), width);
        lines.push(match (at == selected, row.alive, row.kind) {
            (true, _, _) => format!("\x1b[7m{line}\x1b[0m"),
            (_, false, _) => style.dim(&line),
            (_, true, Kind::Pod) => format!("\x1b[1m{line}\x1b[0m"),
            (_, true, Kind::Container) => hot(style, row, line),
        });
    }
    while lines.len() + 1 < height {
        lines.push(String::new());
    }
    let keys =
        "q quit  l log  e shell  / filter  c m n i t N sort  p pods  a all  space pause  ? help";
    lines.push(style.dim(&fill(keys, width)));
    lines.truncate(height);
    lines
}

/// Highlights a row that uses more than three quarters of a limit, or more than a core.
fn hot(style: Style, row: &Row, line: String) -> String {
    let usage = &row.usage;
    let near = match (usage.memory, usage.memory_limit) {
        (Some(used), Some(limit)) if limit > 0 => used as f64 / limit as f64,
        _ => 0.0,
    };
    if near > 0.9 {
        style.colour(31, &line)
    } else if near > 0.75 || usage.cpu.is_some_and(|cpu| cpu > 100.0) {
        style.colour(33, &line)
    } else {
        line
    }
}

fn title(view: &View, endpoint: &str, interval: Duration) -> String {
    let held = if view.paused { "  (paused)" } else { "" };
    format!("orlop top  {endpoint}  every {interval:?}{held}")
}

fn totals(view: &View) -> String {
    let pods = &view.node.pods;
    let containers = || pods.iter().flat_map(|pod| &pod.containers);
    let running = containers().filter(|one| one.running).count();
    let add = |value: fn(&Usage) -> Option<f64>| {
        pods.iter()
            .filter_map(|pod| value(&pod.usage))
            .reduce(|a, b| a + b)
    };
    format!(
        "{} pods, {running} of {} containers running   cpu {}%   mem {}   net {} in {} out   io {} \
         read {} written",
        pods.len(),
        containers().count(),
        percent(add(|usage| usage.cpu)),
        add(|usage| usage.memory.map(|memory| memory as f64))
            .map_or_else(dash, |bytes| short_bytes(bytes as u64)),
        speed(add(|usage| usage.received)),
        speed(add(|usage| usage.sent)),
        speed(add(|usage| usage.read)),
        speed(add(|usage| usage.written)),
    )
}

/// Renders the status line: the filter being typed, a problem, or the active filter.
fn status(view: &View, rows: usize) -> String {
    if view.typing {
        return format!("/{}▏", view.filter);
    }
    if let Some(hint) = view.hint {
        return hint.to_owned();
    }
    match &view.trouble {
        Some(trouble) => format!("the data is out of date: {trouble}"),
        None if !view.filter.is_empty() => {
            format!("{rows} rows match `{}` (esc: show all)", view.filter)
        }
        None => images(view),
    }
}

/// Renders the lazily pulled images.
fn images(view: &View) -> String {
    let image = |image: &ImageHere| {
        let size = short_bytes(image.size);
        format!("{} {} of {size}", here::name(image), here::percent(image))
    };
    let images: Vec<String> = view.node.images.iter().map(image).collect();
    if images.is_empty() {
        return String::new();
    }
    format!("lazy images fetched: {}", images.join(", "))
}

fn shown(width: usize) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |field| field.from <= width)
}

/// Width of the age, the last column.
const AGE: usize = 16;

/// Returns the width left for the name.
fn name_width(width: usize) -> usize {
    let numbers: usize = shown(width).map(|field| field.width + 1).sum();
    let age = if width >= 80 { AGE + 1 } else { 0 };
    width.saturating_sub(numbers + age).max(16)
}

fn heading(view: &View, width: usize) -> String {
    let mark = |column: Option<Column>| match column {
        Some(column) if column == view.sort && view.reversed => "▲",
        Some(column) if column == view.sort => "▼",
        _ => "",
    };
    let name = if view.by_pod {
        "POD / CONTAINER"
    } else {
        "CONTAINER"
    };
    let mut line = fill(
        &format!("{name}{}", mark(Some(Column::Name))),
        name_width(width),
    );
    for field in shown(width) {
        let text = format!("{}{}", field.heading, mark(field.sort));
        let _ = write!(line, " {text:>width$}", width = field.width);
    }
    if width >= 80 {
        let _ = write!(line, " AGE{}", mark(Some(Column::Age)));
    }
    line
}

fn row(row: &Row, by_pod: bool, width: usize) -> String {
    let name = match row.kind {
        Kind::Pod => format!("{}/{}", row.namespace, row.pod),
        Kind::Container if by_pod => format!("  {}", row.container),
        Kind::Container => format!("{}  {}/{}", row.container, row.namespace, row.pod),
    };
    let mut line = fill(&name, name_width(width));
    for field in shown(width) {
        let _ = write!(line, " {:>width$}", (field.text)(row), width = field.width);
    }
    if width >= 80 {
        let age = ago(row.created_at);
        let age = age.strip_suffix(" ago").unwrap_or(&age);
        let _ = write!(line, " {}", cut(age, AGE));
    }
    line
}

/// Pads or truncates text to a width. Control characters are escaped.
fn fill(text: &str, width: usize) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    format!("{:<width$}", cut(&text, width))
}

fn dash() -> String {
    "-".to_owned()
}

pub(super) fn percent(cpu: Option<f64>) -> String {
    cpu.map_or_else(dash, |cpu| format!("{cpu:.1}"))
}

/// Formats bytes per second.
pub(super) fn speed(rate: Option<f64>) -> String {
    rate.map_or_else(dash, |rate| format!("{}/s", short_bytes(rate as u64)))
}

/// Network rates are shown for pods only, as the network belongs to the pod.
fn of_pod(row: &Row, rate: Option<f64>) -> String {
    match row.kind {
        Kind::Pod => speed(rate),
        Kind::Container => String::new(),
    }
}

/// Formats memory usage as a share of its limit.
fn share(usage: &Usage) -> String {
    match (usage.memory, usage.memory_limit) {
        (Some(used), Some(limit)) if limit > 0 => {
            format!("{:.0}%", used as f64 / limit as f64 * 100.0)
        }
        _ => String::new(),
    }
}

/// Renders the last values; the highest one is a full block.
fn sparkline(values: &[f64], width: usize) -> String {
    let values = &values[values.len().saturating_sub(width)..];
    let highest = values.iter().copied().fold(0.0, f64::max);
    values
        .iter()
        .map(|value| {
            let level = if highest > 0.0 {
                (value / highest * (LEVELS.len() - 1) as f64).round() as usize
            } else {
                0
            };
            LEVELS[level.min(LEVELS.len() - 1)]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Node, One, Pod};
    use super::*;

    fn view() -> View {
        let mut view = View::new(Column::Cpu, true, None);
        view.take(Node {
            pods: vec![Pod {
                id: "p".into(),
                name: "web-0".into(),
                namespace: "shop".into(),
                ready: true,
                usage: Usage {
                    cpu: Some(12.34),
                    memory: Some(5_000_000),
                    received: Some(1500.0),
                    ..Usage::default()
                },
                containers: vec![One {
                    id: "c".into(),
                    name: "evil\x1b[2Jname".into(),
                    running: true,
                    ..One::default()
                }],
                ..Pod::default()
            }],
            images: Vec::new(),
        });
        view
    }

    #[test]
    fn every_line_fits_the_screen_and_nothing_steers_the_terminal() {
        for (width, height) in [(200, 50), (80, 24), (40, 10), (10, 3)] {
            let frame = frame(
                &mut view(),
                "unix:///x",
                Duration::from_secs(2),
                width,
                height,
            );
            assert!(frame.len() <= height, "{width}x{height}");
            for line in &frame {
                let plain = line
                    .replace("\x1b[7m", "")
                    .replace("\x1b[1m", "")
                    .replace("\x1b[0m", "");
                assert!(!plain.contains('\x1b'), "{plain:?}");
                assert!(plain.chars().count() <= width, "{width}: {plain:?}");
            }
        }
    }

    #[test]
    fn a_pod_has_its_numbers() {
        let text = frame(&mut view(), "unix:///x", Duration::from_secs(2), 120, 24).join("\n");
        for part in [
            "shop/web-0",
            "12.3",
            "5MB",
            "1.5kB/s",
            "1 of 1 containers run",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_comes_as_it_is_read_stands_where_nothing_else_does() {
        let mut view = view();
        view.node.images.push(ImageHere {
            names: vec!["r.test/a:1".into()],
            bytes: 30,
            size: 1000,
            ..ImageHere::default()
        });
        let line =
            |view: &mut View| frame(view, "unix:///x", Duration::from_secs(2), 80, 24)[2].clone();
        assert_eq!(
            line(&mut view).trim_end(),
            "lazy images fetched: r.test/a:1 3% of 1kB"
        );
        view.filter = "web".into();
        assert!(line(&mut view).starts_with("2 rows match"));
    }

    #[test]
    fn sparklines_reach_from_bottom_to_top() {
        assert_eq!(sparkline(&[9.0, 0.0, 3.5, 7.0], 3), "▁▅█");
        assert_eq!(sparkline(&[0.0, 0.0], 5), "▁▁");
    }
}
