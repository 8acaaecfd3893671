//! `events`: prints a container's resource usage and OOM events as lines of JSON.

use std::io::Write as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::command::{Call, HELP, Verb};
use crate::args::{FlagsEnd, switch, valued};
use crate::cgroup::Stats;
use crate::error::{Error, Result, While};
use crate::state::{State, Status};

pub(super) const VERB: Verb = Verb {
    name: "events",
    about: "display container events such as OOM notifications and resource usage",
    arguments: "CONTAINER",
    flags: &[
        HELP,
        valued(
            "interval",
            None,
            "TIME",
            "set the interval between statistics (default: 5s)",
        ),
        switch(
            "stats",
            None,
            "display the container's statistics once and exit",
        ),
    ],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run,
};

/// A line of output.
#[derive(Serialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Stats>,
}

fn run(call: &Call<'_>) -> Result<u8> {
    let interval = match call.parsed.text("interval")? {
        None => Duration::from_secs(5),
        Some(text) => orlop_text::duration::parse(&text).doing(|| format!("--interval {text}"))?,
    };
    if interval.is_zero() {
        return Err(Error::new("duration interval must be greater than 0"));
    }
    let (dir, state) = call.known()?;
    if state.status(&dir) == Status::Stopped {
        return Err(Error::new(format!(
            "container with id {} is not running",
            state.id
        )));
    }
    if call.parsed.is_on("stats")? {
        tell(&state, "stats", Some(stats(&state)?))?;
        return Ok(0);
    }
    follow(call, &state, interval)
}

/// Prints events until the container ends.
fn follow(call: &Call<'_>, state: &State, interval: Duration) -> Result<u8> {
    let Some(process) = state.init() else {
        return Ok(0);
    };
    let watch = state.cgroup.watch_oom()?;
    let mut killed = state.cgroup.oom_kills();
    let mut next = Instant::now() + interval;
    loop {
        let mut wait = [
            PollFd::new(&watch, watch.interest()),
            PollFd::new(&process, PollFlags::IN),
        ];
        let left = next.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).doing(|| "--interval".to_owned())?;
        match poll(&mut wait, Some(&left)) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled.doing(|| "cannot wait for events".to_owned())?,
        };
        let [memory, end] = wait.map(|it| it.revents());
        if !memory.is_empty() {
            watch.clear();
            let now = state.cgroup.oom_kills();
            // Cgroup v1 signals before a kill, and when the cgroup is removed. Cgroup v2 signals afterwards, and for
            // other events as well.
            if (now.is_some() && !state.cgroup.is_v2()) || now > killed {
                tell(state, "oom", None)?;
            }
            killed = now;
        }
        if !end.is_empty() {
            return Ok(0);
        }
        if Instant::now() >= next {
            next += interval;
            match stats(state) {
                Ok(stats) => tell(state, "stats", Some(stats))?,
                Err(error) => call.log.error(&error.to_string()),
            }
        }
    }
}

fn stats(state: &State) -> Result<Stats> {
    let stats = state.cgroup.stats();
    let mut stats = stats.map_err(|error| error.within("unable to get container cgroup stats"))?;
    if let Some(rdt) = &state.rdt {
        stats.intel_rdt = rdt.stats();
    }
    Ok(stats)
}

fn tell(state: &State, kind: &str, data: Option<Stats>) -> Result<()> {
    let event = Event {
        kind,
        id: &state.id,
        data,
    };
    let mut line = serde_json::to_vec(&event).doing(|| "cannot encode the event".to_owned())?;
    line.push(b'\n');
    let mut output = std::io::stdout();
    let written = output.write_all(&line).and_then(|()| output.flush());
    written.doing(|| "writing to standard output".to_owned())
}
