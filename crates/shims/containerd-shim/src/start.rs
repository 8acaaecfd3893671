//! `start`: starts a server for a container's pod, or finds the running one, and prints its address.

use std::env;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use orlop_cgroup::{Cgroup, CgroupPath, Hierarchies};
use orlop_containerd_api::Message;
use orlop_containerd_api::bootstrap::{BootstrapParams, BootstrapResult};
use orlop_ttrpc::decode;

use crate::arguments::Arguments;
use crate::error::{Result, failed, unknown};
use crate::options::Options;
use crate::place::{Place, checked};
use crate::print::print;
use crate::serve;
use crate::shm::Rules;
use crate::spec::Spec;

/// Maximum size of containerd's input.
const LARGEST: u64 = 10 << 20;
/// The supported version of the task service besides 2; a response in the old form means version 2.
const VERSION: i32 = 3;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let input = orlop_fs::read_whole(std::io::stdin(), LARGEST)
        .map_err(|error| unknown(format!("reading the parameters from containerd: {error}")))?;
    let told = Told::parse(&input)?;
    let bundle = arguments.bundle()?;
    let spec = Spec::read(&bundle);
    let group = match &spec {
        Ok(spec) => spec.group().unwrap_or(&arguments.id),
        // The bundle of a sandbox that was not created from a container's specification.
        Err(_) => &arguments.id,
    };
    checked(group)?;
    let place = Place::of(&arguments.address, &arguments.namespace, group);
    // Held until the server listens: another container of the pod may start at the same time.
    let locked = place.lock()?;
    if !place.is_served() {
        crate::delete::end_former(&place);
        place.make()?;
        start(arguments, group, &place, &told, &bundle)?;
    }
    drop(locked);
    // containerd before 1.7 reads this file after its restart.
    let note = bundle.join("address");
    let address = address_of(&place);
    std::fs::write(&note, &address).map_err(failed("writing", &note))?;
    print(&told.answer(address))
}

fn start(
    arguments: &Arguments,
    group: &str,
    place: &Place,
    told: &Told,
    bundle: &Path,
) -> Result<()> {
    let listener = serve::listen(place)?;
    serve::enter(bundle)?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("containerd-shim-orlop-v1")
        .args(["-namespace", &arguments.namespace, "-id", group])
        .args(["-address", &arguments.address, "serve"])
        .stdin(OwnedFd::from(listener))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    if !told.events.is_empty() {
        command.env("TTRPC_ADDRESS", &told.events);
    }
    let (name, value) = Rules::of(&told.options)?.variable();
    command.env(name, value);
    let server = command.spawn();
    let server = server.map_err(failed("starting", Path::new("the server")))?;
    if let Some(cgroup) = Some(&told.options.shim_cgroup).filter(|path| !path.is_empty()) {
        let problem =
            |why: String| unknown(format!("moving the shim into the cgroup {cgroup}: {why}"));
        let path = CgroupPath::parse(cgroup).map_err(|error| problem(error.to_string()))?;
        let hierarchies = Hierarchies::detect().map_err(|error| problem(error.to_string()))?;
        let cgroup = Cgroup::new(hierarchies.into(), path);
        let moved = cgroup
            .create()
            .and_then(|()| cgroup.attach(server.id() as i32));
        moved.map_err(|error| problem(error.to_string()))?;
    }
    Ok(())
}

fn address_of(place: &Place) -> String {
    format!("unix://{}", place.socket().display())
}

/// containerd's standard input: from 2.3 on a message with all parameters, before that only the handler's options.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    /// Whether the response is a message, too.
    as_message: bool,
    options: Options,
    /// The address for events, if the message has it.
    events: String,
}

impl Told {
    fn parse(input: &[u8]) -> Result<Self> {
        // Options are a `google.protobuf.Any`, which contains no addresses of containerd.
        let params = BootstrapParams::decode(input).ok().filter(|params| {
            let addresses = [
                &params.containerd_ttrpc_address,
                &params.containerd_grpc_address,
                &params.containerd_binary,
            ];
            addresses.iter().any(|address| !address.is_empty())
        });
        let Some(params) = params else {
            return Ok(Self {
                options: Options::of(Some(&decode(input)?))?,
                ..Self::default()
            });
        };
        let mut options = Options::default();
        for extension in &params.extensions {
            let told = Options::of(extension.value.as_ref())?;
            if told != Options::default() {
                options = told;
            }
        }
        Ok(Self {
            as_message: true,
            options,
            events: params.containerd_ttrpc_address,
        })
    }

    /// Formats the server's address for this version of containerd.
    fn answer(&self, address: String) -> Vec<u8> {
        if self.as_message {
            let result = BootstrapResult {
                version: VERSION,
                address,
                protocol: "ttrpc".into(),
                ..BootstrapResult::default()
            };
            return result.encode_to_vec();
        }
        // 1.7 sets this variable and supports more than a plain address.
        let newest = env::var("MAX_SHIM_VERSION").ok();
        let newest = newest.and_then(|version| version.parse::<i32>().ok());
        match newest {
            Some(newest) if newest >= VERSION => {
                let answer = serde_json::json!({"version": VERSION, "address": address, "protocol": "ttrpc"});
                answer.to_string().into_bytes()
            }
            _ => address.into_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_containerd_api::bootstrap::{BootstrapParams, BootstrapResult, Extension};
    use orlop_containerd_api::{Any, Message, runc};

    use super::{Told, address_of};
    use crate::place::Place;

    fn options() -> Any {
        Any::pack(&runc::Options {
            binary_name: "crun".into(),
            ..runc::Options::default()
        })
    }

    #[test]
    fn old_and_new_containerds_are_answered_in_their_form() {
        let place = Place::of("a", "n", "p");
        let told = Told::parse(&options().encode_to_vec()).unwrap();
        assert_eq!(
            (told.as_message, &*told.options.binary_name),
            (false, "crun")
        );
        assert!(
            told.answer(address_of(&place))
                .starts_with(b"unix:///run/orlop/")
        );
        assert!(!Told::parse(b"").unwrap().as_message);

        let params = BootstrapParams {
            instance_id: "p".into(),
            namespace: "n".into(),
            containerd_ttrpc_address: "/run/c.sock.ttrpc".into(),
            containerd_grpc_address: "/run/c.sock".into(),
            extensions: vec![Extension {
                value: Some(options()),
            }],
            ..BootstrapParams::default()
        };
        let params = params.encode_to_vec();
        let told = Told::parse(&params).unwrap();
        assert_eq!(&*told.options.binary_name, "crun");
        assert_eq!(told.events, "/run/c.sock.ttrpc");
        let answer = told.answer(address_of(&place));
        let answer = BootstrapResult::decode(&*answer).unwrap();
        assert_eq!((answer.version, &*answer.protocol), (3, "ttrpc"));
        assert!(answer.address.ends_with("/shim.sock"));
    }
}
