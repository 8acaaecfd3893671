//! The merged logs of all containers of a pod, ordered by time, each line with the name of its container.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::{self, Write};

use anyhow::bail;
use jiff::Timestamp;
use orlop_cri_api::client::RuntimeClient;
use orlop_cri_api::log::{Line as FileLine, Stream};
use orlop_cri_api::v1::{Container, ContainerFilter, ContainerState, PodSandboxState};
use orlop_fs::FollowedLog as Log;

use super::{Args, GLANCE, GLANCES_PER_STATUS, Part, open};
use crate::output::{Style, stdout};

/// Colours of the names, in turn: cyan, yellow, green, magenta, blue, red.
const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 31];

/// A longer part of a line is printed as if it were complete.
const LONGEST_LINE: usize = 1 << 20;

/// Number of complete lines to read from one log before the others are read.
const AHEAD: usize = 256;

/// Prints the logs of a pod's containers, or only of those with the given name.
pub(super) async fn run(
    client: &RuntimeClient,
    pod: &str,
    name: Option<&str>,
    args: &Args,
    part: Part,
) -> anyhow::Result<()> {
    let follow = args.follow && !args.previous;
    let mut merged = Merged::new(part, !args.no_prefix);
    merged.take_in(client, pod, name, args.previous).await?;
    if merged.known.is_empty() && !follow {
        match name {
            Some(name) => bail!("the pod has no container {name}"),
            None => bail!("the pod has no containers"),
        }
    }
    let mut glances = 0;
    let mut ended = false;
    loop {
        if !merged.print()? {
            return Ok(());
        }
        if !follow || ended {
            merged.sources.iter_mut().for_each(Source::finish);
            merged.print()?;
            return Ok(());
        }
        tokio::time::sleep(GLANCE).await;
        glances += 1;
        if glances % GLANCES_PER_STATUS == 0 {
            // A runtime that does not respond may be restarting while its pods run on.
            let _ = merged.take_in(client, pod, name, false).await;
            ended = has_ended(client, pod).await;
        }
    }
}

/// Returns whether no more output can come.
async fn has_ended(client: &RuntimeClient, pod: &str) -> bool {
    match client.pod_sandbox_status(pod, false).await {
        Ok(answer) => answer
            .status
            .is_some_and(|status| status.state() == PodSandboxState::SandboxNotready),
        Err(error) => error.is_not_found(),
    }
}

/// Several logs that become one.
struct Merged {
    part: Part,
    prefix: bool,
    sources: Vec<Source>,
    /// Containers seen so far.
    known: HashSet<String>,
    /// Names seen so far, with their colours.
    colours: BTreeMap<String, u8>,
    left: Option<u64>,
}

impl Merged {
    fn new(part: Part, prefix: bool) -> Self {
        Self {
            part,
            prefix,
            sources: Vec::new(),
            known: HashSet::new(),
            colours: BTreeMap::new(),
            left: part.limit,
        }
    }

    /// Opens the logs of new containers.
    async fn take_in(
        &mut self,
        client: &RuntimeClient,
        pod: &str,
        name: Option<&str>,
        previous: bool,
    ) -> anyhow::Result<()> {
        let filter = ContainerFilter {
            pod_sandbox_id: pod.to_owned(),
            ..Default::default()
        };
        let found = client.list_containers(Some(filter)).await?;
        for container in newest_of_each_name(found) {
            let own = container.metadata.unwrap_or_default().name;
            if name.is_some_and(|name| name != own) || self.known.contains(&container.id) {
                continue;
            }
            let answer = client.container_status(&container.id, false).await?;
            let status = answer.status.unwrap_or_default();
            if status.state() == ContainerState::ContainerCreated {
                // The container has not written anything and may have no log yet.
                continue;
            }
            self.known.insert(container.id);
            match open(client, &status, previous, self.part).await {
                Ok(log) => self.add(own, log),
                Err(error) => say!("warning: {own}: {error:#}"),
            }
        }
        Ok(())
    }

    fn add(&mut self, name: String, log: Log) {
        let next = COLOURS[self.colours.len() % COLOURS.len()];
        self.colours.entry(name.clone()).or_insert(next);
        self.sources.push(Source {
            name,
            log,
            halves: [Half::default(), Half::default()],
            lines: VecDeque::new(),
        });
    }

    /// Prints the available lines; `false` when the limit is reached.
    fn print(&mut self) -> anyhow::Result<bool> {
        let (out_style, err_style) = (Style::of(&io::stdout()), Style::of(&io::stderr()));
        let width = self.colours.keys().map(String::len).max().unwrap_or(0);
        let mut out = stdout();
        loop {
            for source in &mut self.sources {
                source.read()?;
            }
            let oldest = self.sources.iter_mut().filter(|one| !one.lines.is_empty());
            let Some(source) = oldest.min_by_key(|one| one.lines.front().map(|line| line.time))
            else {
                out.flush()?;
                return Ok(true);
            };
            let Some(line) = source.lines.pop_front() else {
                continue;
            };
            if self.part.only.is_some_and(|only| only != line.stream)
                || self.part.since.is_some_and(|since| line.time < since)
            {
                continue;
            }
            let colour = self.colours.get(&source.name).copied().unwrap_or(0);
            let to_err = line.stream == Stream::Stderr;
            let style = if to_err { err_style } else { out_style };
            let mut text = Vec::with_capacity(line.content.len() + 64);
            if self.prefix {
                let name = format!("{:<width$} | ", source.name);
                text.extend_from_slice(style.colour(colour, &name).as_bytes());
            }
            if self.part.timestamps {
                text.extend_from_slice(line.time_as_written.as_bytes());
                text.push(b' ');
            }
            text.extend_from_slice(&line.content);
            text.push(b'\n');
            if let Some(left) = &mut self.left {
                text.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= text.len() as u64;
            }
            if to_err {
                // Keeps the written order if both streams go to one file.
                out.flush()?;
                io::stderr().lock().write_all(&text)?;
            } else {
                out.write_all(&text)?;
            }
            if self.left == Some(0) {
                out.flush()?;
                return Ok(false);
            }
        }
    }
}

/// Returns the latest container of each name; the logs of earlier ones are shown by `--previous`.
fn newest_of_each_name(mut containers: Vec<Container>) -> Vec<Container> {
    containers.sort_by_key(|container| std::cmp::Reverse(container.created_at));
    let mut names = HashSet::new();
    containers.retain(|container| {
        let name = container.metadata.clone().unwrap_or_default().name;
        names.insert(name)
    });
    containers.sort_by_key(|container| container.created_at);
    containers
}

/// The log of one container.
struct Source {
    name: String,
    log: Log,
    /// Incomplete lines of the two streams.
    halves: [Half; 2],
    /// Lines read ahead.
    lines: VecDeque<Line>,
}

#[derive(Default)]
struct Half {
    /// Time of its latest part.
    time: String,
    content: Vec<u8>,
}

struct Line {
    time: Timestamp,
    time_as_written: String,
    stream: Stream,
    content: Vec<u8>,
}

impl Source {
    /// Reads ahead, unless lines are left.
    fn read(&mut self) -> anyhow::Result<()> {
        if !self.lines.is_empty() {
            return Ok(());
        }
        loop {
            while let Some(raw) = self.log.line()? {
                self.take(&raw);
                if self.lines.len() >= AHEAD {
                    return Ok(());
                }
            }
            if !self.lines.is_empty() || !self.log.follow_rotation()? {
                return Ok(());
            }
        }
    }

    fn take(&mut self, raw: &[u8]) {
        let line = match FileLine::parse(raw) {
            Ok(line) => line,
            Err(error) => {
                say!("warning: {}: {error}", self.name);
                return;
            }
        };
        let entry = line.entry();
        let half = &mut self.halves[usize::from(entry.stream == Stream::Stderr)];
        half.content.extend_from_slice(entry.content);
        entry.time.clone_into(&mut half.time);
        if !entry.partial || half.content.len() >= LONGEST_LINE {
            let line = std::mem::take(half).line(entry.stream);
            self.lines.push_back(line);
        }
    }

    /// Completes unterminated lines, as nothing more is written.
    fn finish(&mut self) {
        for (half, stream) in self.halves.iter_mut().zip([Stream::Stdout, Stream::Stderr]) {
            if !half.content.is_empty() {
                self.lines.push_back(std::mem::take(half).line(stream));
            }
        }
    }
}

impl Half {
    fn line(self, stream: Stream) -> Line {
        Line {
            // A line without a valid time is printed at once.
            time: self.time.parse().unwrap_or(Timestamp::UNIX_EPOCH),
            time_as_written: self.time,
            stream,
            content: self.content,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_attempts_the_last_counts() {
        let container = |name: &str, created_at| Container {
            id: format!("{name}{created_at}"),
            metadata: Some(orlop_cri_api::v1::ContainerMetadata {
                name: name.into(),
                attempt: 0,
            }),
            created_at,
            ..Default::default()
        };
        let found = vec![container("a", 3), container("b", 2), container("a", 1)];
        let ids: Vec<_> = newest_of_each_name(found)
            .into_iter()
            .map(|c| c.id)
            .collect();
        assert_eq!(ids, ["b2", "a3"]);
    }

    /// Creates a log with these lines and reads it.
    fn source(text: &str) -> (tempfile::TempDir, Source) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        std::fs::write(&path, text).unwrap();
        let mut source = Source {
            name: "a".into(),
            log: Log::open(&path, "").unwrap(),
            halves: [Half::default(), Half::default()],
            lines: VecDeque::new(),
        };
        source.read().unwrap();
        (directory, source)
    }

    fn told(source: &Source) -> Vec<(Stream, &str, &str)> {
        let lines = source.lines.iter().map(|line| {
            let text = std::str::from_utf8(&line.content).unwrap();
            (line.stream, line.time_as_written.as_str(), text)
        });
        lines.collect()
    }

    #[test]
    fn parts_of_a_line_are_put_together_per_stream() {
        let text = "2026-01-01T00:00:01Z stdout P on\n\
                    2026-01-01T00:00:02Z stderr F err\n\
                    2026-01-01T00:00:03Z stdout F e\n\
                    2026-01-01T00:00:04Z stdout P end\n";
        let (_directory, mut source) = source(text);
        let expected = [
            (Stream::Stderr, "2026-01-01T00:00:02Z", "err"),
            (Stream::Stdout, "2026-01-01T00:00:03Z", "one"),
        ];
        assert_eq!(told(&source), expected);
        // An unterminated line is complete when nothing more comes.
        source.finish();
        let last = (Stream::Stdout, "2026-01-01T00:00:04Z", "end");
        assert_eq!(told(&source).last(), Some(&last));
    }

    #[test]
    fn a_log_of_docker_s_own_driver_is_read_as_another() {
        let text = "{\"log\":\"on\",\"stream\":\"stdout\",\"time\":\"2026-01-01T00:00:01Z\"}\n\
                    {\"log\":\"x stdout F y\\n\",\"stream\":\"stderr\",\"time\":\"2026-01-01T00:00:02Z\"}\n\
                    {\"log\":\"e\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-01T00:00:03Z\"}\n";
        let (_directory, source) = source(text);
        let expected = [
            (Stream::Stderr, "2026-01-01T00:00:02Z", "x stdout F y"),
            (Stream::Stdout, "2026-01-01T00:00:03Z", "one"),
        ];
        assert_eq!(told(&source), expected);
    }
}
