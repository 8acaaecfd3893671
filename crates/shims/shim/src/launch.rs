//! Start of a shim, and cleanup by its program.

use std::io::Write;
use std::ops::RangeInclusive;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use orlop_containerd_api::bootstrap::{BootstrapParams, BootstrapResult, Extension};
use orlop_containerd_api::{Any, Message, runc, runtimeoptions};
use serde::Deserialize;

use crate::arguments::{Sandboxer, Settings};
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::namespace::NAMESPACE;
use crate::shim_log;
use crate::state_dir::PodDir;

/// Timeout of a shim's start.
const LIMIT: Duration = Duration::from_secs(30);

/// How long a killed runtime may take to exit; one that takes longer is stuck in the kernel.
const ORPHAN_LIMIT: Duration = Duration::from_secs(5);

/// The supported versions of the task API.
const VERSIONS: RangeInclusive<u32> = 2..=3;

/// Maximum size of the response, which is an address.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// Starts the shim of a pod, which continues in the background.
///
/// Shims since containerd 2.3 expect their parameters as a message. Most older shims ignore it, but some take it for
/// their options and fail; they are started again with the older input.
pub(crate) fn start(settings: &Settings, pod: &PodDir) -> Result<Endpoint> {
    let options = options(settings)?;
    let told = start_with(settings, pod, &parameters(pod, options.clone()));
    let Err(newer) = told else {
        return told;
    };
    let options = options.map(|options| options.encode_to_vec());
    start_with(settings, pod, &options.unwrap_or_default()).map_err(|older| {
        let (newer, older) = (newer.to_string(), older.to_string());
        Error::Failed(if newer == older {
            newer
        } else {
            format!("{newer}; with the start parameters of containerd before 2.3: {older}")
        })
    })
}

fn start_with(settings: &Settings, pod: &PodDir, input: &[u8]) -> Result<Endpoint> {
    let mut child = call(settings, pod, &pod.bundle(), "start", &pod.id)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A shim without use for the input does not read it.
        let _ = stdin.write_all(input);
    }
    let answer = finish(child, settings, pod)?;
    parse(&answer)
}

/// Kills the runtimes below a directory that were started for `id` and whose caller is gone.
pub(crate) fn end_orphans(below: &Path, id: &str) -> Result<()> {
    let ended = orlop_process::orphans::end(below, id, ORPHAN_LIMIT);
    ended.map_err(|source| Error::Io {
        doing: format!("stopping the runtime processes of {id}"),
        source,
    })
}

/// Runs the shim's program to clean up after a task whose shim is dead. The runtimes that the shim started are killed
/// first, because they could recreate what is cleaned up.
pub(crate) fn clean_up(settings: &Settings, pod: &PodDir, bundle: &Path, id: &str) -> Result<()> {
    end_orphans(bundle, id)?;
    if let Sandboxer::Proxy { .. } = settings.sandboxer {
        // There is no program; the sandbox's controller ends it with all its tasks.
        return Ok(());
    }
    // Shims in Rust open the log here too, and wait for its reader.
    shim_log::keep(pod, bundle)?;
    let child = call(settings, pod, bundle, "delete", id)?;
    finish(child, settings, pod).map(drop)
}

/// Cleans up after the pod's own task in a dead shim.
pub(crate) fn clean_up_pod(settings: &Settings, pod: &PodDir, shim: Option<&Endpoint>) {
    let bundle = pod.bundle();
    // A shim that has just started and whose address is not known yet is found by its event socket.
    let _ = end_orphans(pod.sockets(), &pod.id);
    if bundle.join("config.json").exists() {
        // The reason of a failure is in the shim's log, and there is no alternative.
        let _ = clean_up(settings, pod, &bundle, &pod.id);
    }
    // A controller's socket does not belong to the pod.
    let proxied = matches!(settings.sandboxer, Sandboxer::Proxy { .. });
    if let Some(shim) = shim.filter(|_| !proxied) {
        shim.forget();
    }
}

/// Options of runc's shim, and of shims that call a runtime with its command line.
const OF_RUNC: &str = "containerd.runc.v1.Options";
/// Options of all other shims.
const OF_ANY: &str = "runtimeoptions.v1.Options";
/// Maximum size of a configuration.
const LARGEST_BODY: u64 = 1 << 20;

/// Builds a shim's options.
pub(crate) fn options(settings: &Settings) -> Result<Option<Any>> {
    let name = settings.shim.file_name().unwrap_or_default();
    let usual = if name.to_string_lossy().starts_with("containerd-shim-runc-") {
        OF_RUNC
    } else {
        ""
    };
    let kind = settings.config_type.as_deref().unwrap_or(usual);
    let config = settings.shim_config.as_deref();
    if kind == OF_RUNC {
        let program = config.unwrap_or(Path::new("")).to_string_lossy();
        return Ok(Some(Any::pack(&runc::Options {
            binary_name: program.into_owned(),
            systemd_cgroup: settings.systemd_cgroup,
            ..runc::Options::default()
        })));
    }
    let Some(config) = config else {
        return Ok(None);
    };
    // Some shims check the type before the configuration.
    let mut options = runtimeoptions::Options {
        type_url: if kind == OF_ANY { "" } else { kind }.into(),
        ..runtimeoptions::Options::default()
    };
    if settings.config_body {
        let body = orlop_fs::read_file(config, LARGEST_BODY);
        options.config_body = body.map_err(Error::file("reading", config))?;
    } else {
        options.config_path = config.to_string_lossy().into_owned();
    }
    Ok(Some(Any::pack(&options)))
}

fn parameters(pod: &PodDir, options: Option<Any>) -> Vec<u8> {
    let events = pod.events().to_string_lossy().into_owned();
    let extension = |options| Extension {
        value: Some(options),
    };
    let parameters = BootstrapParams {
        instance_id: pod.id.clone(),
        namespace: NAMESPACE.into(),
        containerd_version: env!("CARGO_PKG_VERSION").into(),
        containerd_ttrpc_address: events.clone(),
        containerd_grpc_address: events,
        containerd_binary: ourselves().to_string_lossy().into_owned(),
        extensions: options.map(extension).into_iter().collect(),
    };
    parameters.encode_to_vec()
}

fn ourselves() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"))
}

fn call(settings: &Settings, pod: &PodDir, bundle: &Path, action: &str, id: &str) -> Result<Child> {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(pod.log())
        .map_err(|source| Error::Io {
            doing: format!("opening {}", pod.log().display()),
            source,
        })?;
    Command::new(&settings.shim)
        .args(["-namespace", NAMESPACE, "-address"])
        .arg(pod.events())
        .arg("-publish-binary")
        .arg(ourselves())
        .args(["-id", id, "-bundle"])
        .arg(bundle)
        .arg(action)
        .current_dir(bundle)
        .env("TTRPC_ADDRESS", pod.events())
        .env("NAMESPACE", NAMESPACE)
        .env("MAX_SHIM_VERSION", "3")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|error| Error::program(&settings.shim, &error))
}

fn finish(mut child: Child, settings: &Settings, pod: &PodDir) -> Result<Vec<u8>> {
    drop(child.stdin.take());
    let mut answer = Vec::new();
    let end = Instant::now() + LIMIT;
    let reader = child.stdout.take().map(|stdout| {
        std::thread::spawn(move || orlop_fs::read_start(stdout, LONGEST_ANSWER).unwrap_or_default())
    });
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                let shim = settings.shim.display();
                let problem = format!("the shim {shim} has not answered within {LIMIT:?}");
                return Err(Error::Failed(problem));
            }
        }
    };
    if let Some(reader) = reader {
        answer = reader.join().unwrap_or_default();
    }
    if status.success() {
        return Ok(answer);
    }
    let shim = settings.shim.display();
    let said = String::from_utf8_lossy(&answer).trim().to_owned();
    Err(Error::Failed(format!(
        "the shim {shim} failed ({status}): {}",
        if said.is_empty() {
            shim_log::last_words(pod)
        } else {
            said
        }
    )))
}

/// The address that a shim reports.
#[derive(Debug, Deserialize)]
struct Answer {
    version: u32,
    address: String,
    #[serde(default)]
    protocol: String,
}

/// Parses a shim's start response: a `BootstrapResult` of the newest shims, JSON of older ones, or a plain address of
/// the oldest.
pub(crate) fn parse(answer: &[u8]) -> Result<Endpoint> {
    let garbled = || {
        let text = String::from_utf8_lossy(answer);
        Error::Garbled(format!("the shim's response {:?}", text.trim()))
    };
    let answer = match answer {
        // The message's first field is a number; blanks at its end are part of it.
        [0x08, ..] => message(answer).ok_or_else(garbled)?,
        _ => match answer.trim_ascii() {
            json @ [b'{', ..] => serde_json::from_slice(json).map_err(|_| garbled())?,
            text => Answer {
                version: 2,
                address: String::from_utf8_lossy(text).into_owned(),
                protocol: "ttrpc".into(),
            },
        },
    };
    if !VERSIONS.contains(&answer.version) {
        let (first, last) = (VERSIONS.start(), VERSIONS.end());
        return Err(Error::Failed(format!(
            "the shim serves version {} of the task API; orlop supports versions {first} and {last}",
            answer.version
        )));
    }
    Endpoint::at(&answer.address, &answer.protocol, answer.version).ok_or_else(|| {
        Error::Failed(format!(
            "the shim serves the protocol {:?} at {:?}; only ttrpc and gRPC over unix sockets or \
             vsock are supported",
            answer.protocol, answer.address
        ))
    })
}

fn message(answer: &[u8]) -> Option<Answer> {
    let result = BootstrapResult::decode(answer).ok()?;
    Some(Answer {
        version: u32::try_from(result.version).ok()?,
        address: result.address,
        protocol: result.protocol,
    })
}

#[cfg(test)]
mod tests {
    use orlop_containerd_api::{Any, runc, runtimeoptions};

    use super::{options, parse};
    use crate::arguments::Settings;

    fn told(settings: &Settings) -> Any {
        options(settings).unwrap().unwrap()
    }

    #[test]
    fn each_shim_is_told_its_configuration_in_its_own_words() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "a = 1").unwrap();
        let path = file.to_str().unwrap().to_owned();
        let of = |shim: &str, kind: Option<&str>, config_body| Settings {
            shim: shim.into(),
            shim_config: Some(file.clone()),
            config_type: kind.map(str::to_owned),
            config_body,
            ..Settings::default()
        };
        let (of_runc, of_any) = ("containerd.runc.v1.Options", "runtimeoptions.v1.Options");
        let (runcs, katas) = ("/bin/containerd-shim-runc-v2", "containerd-shim-kata-v2");
        let options_of_runc: runc::Options = told(&of(runcs, None, false)).unpack().unwrap();
        assert_eq!(options_of_runc.binary_name, path);
        assert!(told(&of(katas, Some(of_runc), false)).is::<runc::Options>());
        let with_path = |type_url: &str| {
            Any::pack(&runtimeoptions::Options {
                type_url: type_url.into(),
                config_path: path.clone(),
                ..runtimeoptions::Options::default()
            })
        };
        assert_eq!(told(&of(katas, None, false)), with_path(""));
        assert_eq!(told(&of(runcs, Some(of_any), false)), with_path(""));
        let typed = of("containerd-shim-runsc-v1", Some("io.runsc"), false);
        assert_eq!(told(&typed), with_path("io.runsc"));
        let body = of(katas, None, true);
        let told: runtimeoptions::Options = told(&body).unpack().unwrap();
        assert_eq!(
            (&*told.config_path, &*told.config_body),
            ("", &b"a = 1"[..])
        );
        std::fs::remove_file(&file).unwrap();
        assert!(options(&body).unwrap_err().to_string().contains("file"));
    }

    #[test]
    fn fuzzed_answers_of_a_shim_that_starts_do_not_break_the_reader() {
        orlop_testkit::Fuzz::new()
            .example(b"unix:///run/containerd/s/12ab\n")
            .example(br#"{"version":3,"address":"unix:///run/x","protocol":"ttrpc"}"#)
            .example(b"\x08\x03\x12\x0dunix:///run/y\x1a\x05ttrpc")
            .words([
                "ttrpc+unix://",
                "{",
                "null",
                "\x12",
                "\x08",
                "-1",
                "1e999",
                "\\ud800",
            ])
            .run(|input| {
                if let Ok(endpoint) = parse(input) {
                    assert!(endpoint.socket.is_absolute() || endpoint.guest.is_some());
                }
            });
    }

    #[test]
    fn all_forms_of_answers_are_understood() {
        let old = parse(b"unix:///run/containerd/s/12ab\n").unwrap();
        assert_eq!(
            (old.version, old.socket.to_str()),
            (2, Some("/run/containerd/s/12ab"))
        );
        let new = br#"{"version":3,"address":"unix:///run/x","protocol":"ttrpc"}"#;
        let new = parse(new).unwrap();
        assert_eq!((new.version, new.socket.to_str()), (3, Some("/run/x")));
        let newest = b"\x08\x03\x12\x0dunix:///run/y\x1a\x05ttrpc";
        let parsed = parse(newest).unwrap();
        assert_eq!(
            (parsed.version, parsed.socket.to_str()),
            (3, Some("/run/y"))
        );
        let with_more = [&newest[..], b"\x2a\x06\x0a\x01a\x12\x01\n"].concat();
        let socket = parse(&with_more).unwrap().socket;
        assert_eq!(socket.to_str(), Some("/run/y"), "a blank at its end");
        let other = br#"{"version":3,"address":"unix:///run/x","protocol":"grpc"}"#;
        assert!(parse(other).unwrap().grpc && !new.grpc && !parsed.grpc);
        for refused in [
            &b"vsock://2:1024"[..],
            b"",
            b"{",
            b"\x08\x03\x12\xff",
            br#"{"version":3,"address":"unix:///run/x","protocol":"thrift"}"#,
            br#"{"version":4,"address":"unix:///run/x","protocol":"ttrpc"}"#,
            br#"{"version":1,"address":"unix:///run/x","protocol":"ttrpc"}"#,
        ] {
            assert!(
                parse(refused).is_err(),
                "{:?}",
                String::from_utf8_lossy(refused)
            );
        }
    }
}
