//! Command, environment and working directory, from request and image.

use std::collections::HashMap;

use orlop_cri_api::v1;

use super::input::{ImageFacts, Known};
use super::{Error, gomaxprocs};

/// `PATH` of containers if neither image nor request sets it.
const DEFAULT_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the command. The request's `command` replaces the image's entrypoint, its `args` the image's
/// arguments; a `command` without `args` also drops the image's arguments.
pub(super) fn command(
    config: &v1::ContainerConfig,
    image: &ImageFacts<'_>,
) -> Result<Vec<String>, Error> {
    let mut argv = Vec::new();
    if config.command.is_empty() {
        // A Dockerfile resets its base's entrypoint with one empty word.
        if image.entrypoint != [""] {
            argv.extend_from_slice(image.entrypoint);
        }
        argv.extend_from_slice(if config.args.is_empty() {
            image.cmd
        } else {
            &config.args
        });
    } else {
        argv.extend_from_slice(&config.command);
        argv.extend_from_slice(&config.args);
    }
    if argv.is_empty() {
        let problem = "is empty, and the image has no command";
        return Err(Error::invalid("config.command", problem));
    }
    // containerd's shims run the module of an artifact, whatever the command is.
    let own = image.entrypoint.iter().chain(image.cmd).next();
    if let Some(module) = image.module
        && (argv.first() != own || !config.working_dir.is_empty())
    {
        let function = argv[0].find('#').map(|at| argv[0].split_off(at));
        argv[0] = module.to_owned() + &function.unwrap_or_default();
    }
    if argv[0].is_empty() {
        return Err(Error::invalid(
            "config.command",
            "the program name is empty",
        ));
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(Error::invalid("config.command", "contains a NUL character"));
    }
    Ok(argv)
}

/// Returns the environment: defaults, then the base's, the image's, and the request's. The last value of a
/// name wins.
pub(super) fn environment(
    known: &Known<'_>,
    hostname: &str,
    threads: Option<u64>,
) -> Result<Vec<String>, Error> {
    let base = known.handler.rules.base.as_ref();
    let base = base.map(super::BaseSpec::environment).unwrap_or_default();
    let threads = threads.map(|number| format!("{}={number}", gomaxprocs::NAME));
    merged(
        known.config,
        &known.image,
        hostname,
        threads.iter().chain(base),
    )
}

fn merged<'a>(
    config: &v1::ContainerConfig,
    image: &ImageFacts<'a>,
    hostname: &str,
    beneath: impl IntoIterator<Item = &'a String>,
) -> Result<Vec<String>, Error> {
    let mut env = Environment::default();
    env.set(DEFAULT_PATH.to_owned());
    if config.tty {
        env.set("TERM=xterm".to_owned());
    }
    env.set(format!("HOSTNAME={hostname}"));
    for entry in beneath.into_iter().chain(image.env) {
        env.set(entry.clone());
    }
    for (index, pair) in config.envs.iter().enumerate() {
        env.set(format!("{}={}", pair.key, request_value(pair, index)?));
    }
    Ok(env.entries)
}

fn request_value(pair: &v1::KeyValue, index: usize) -> Result<&str, Error> {
    let field = || format!("config.envs[{index}]");
    if pair.key.is_empty() || pair.key.contains(['=', '\0']) {
        let problem = format!("{:?} is not a valid environment variable name", pair.key);
        return Err(Error::invalid(field(), problem));
    }
    // The value may be a secret and is not in the message.
    let value = std::str::from_utf8(&pair.value)
        .map_err(|_| Error::invalid(field(), format!("the value of {} is not UTF-8", pair.key)))?;
    if value.contains('\0') {
        let problem = format!("the value of {} contains a NUL character", pair.key);
        return Err(Error::invalid(field(), problem));
    }
    Ok(value)
}

/// Entries in the order in which their names first appeared.
#[derive(Default)]
struct Environment {
    entries: Vec<String>,
    places: HashMap<String, usize>,
}

impl Environment {
    /// Adds or replaces `NAME=value`; a text without `=` is ignored.
    fn set(&mut self, entry: String) {
        let Some((name, _)) = entry.split_once('=') else {
            return;
        };
        if let Some(&place) = self.places.get(name) {
            self.entries[place] = entry;
        } else {
            self.places.insert(name.to_owned(), self.entries.len());
            self.entries.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn command_and_args_replace_the_images() {
        for (command_, args, entrypoint, cmd, expected) in [
            ("", "", "/ep", "a b", "/ep a b"),
            ("", "x", "/ep", "a b", "/ep x"),
            ("/c", "", "/ep", "a b", "/c"),
            ("/c", "x y", "/ep", "a b", "/c x y"),
            ("", "", "", "sh", "sh"),
        ] {
            let config = v1::ContainerConfig {
                command: words(command_),
                args: words(args),
                ..Default::default()
            };
            let (entrypoint, cmd) = (words(entrypoint), words(cmd));
            let image = ImageFacts {
                entrypoint: &entrypoint,
                cmd: &cmd,
                ..ImageFacts::default()
            };
            assert_eq!(command(&config, &image).unwrap(), words(expected));
        }
    }

    #[test]
    fn an_artifact_runs_its_module_whatever_the_command_calls_it() {
        for (command_, args, entrypoint, working_dir, expected) in [
            ("", "", "demo.wasm", "", "demo.wasm"),
            ("", "x", "demo.wasm#go", "", "demo.wasm#go x"),
            ("", "x", "demo.wasm#go", "/srv", "/app/demo.wasm#go x"),
            ("any", "x", "demo.wasm", "", "/app/demo.wasm x"),
            ("any.wasm#go x", "", "demo.wasm", "", "/app/demo.wasm#go x"),
        ] {
            let config = v1::ContainerConfig {
                command: words(command_),
                args: words(args),
                working_dir: working_dir.to_owned(),
                ..Default::default()
            };
            let entrypoint = words(entrypoint);
            let image = ImageFacts {
                entrypoint: &entrypoint,
                module: Some("/app/demo.wasm"),
                ..ImageFacts::default()
            };
            assert_eq!(command(&config, &image).unwrap(), words(expected));
        }
    }

    #[test]
    fn an_entrypoint_taken_back_leaves_the_arguments() {
        let (entrypoint, cmd) = (vec![String::new()], words("sh"));
        let image = ImageFacts {
            entrypoint: &entrypoint,
            cmd: &cmd,
            ..ImageFacts::default()
        };
        assert_eq!(
            command(&v1::ContainerConfig::default(), &image).unwrap(),
            words("sh")
        );
    }

    #[test]
    fn a_missing_command_names_the_field() {
        let error = command(&v1::ContainerConfig::default(), &ImageFacts::default()).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }));
        assert!(
            error.to_string().starts_with("config.command: is empty"),
            "{error}"
        );
    }

    #[test]
    fn the_request_has_the_last_word_on_variables() {
        let env = words("PATH=/bin A=1 broken B=2");
        let image = ImageFacts {
            env: &env,
            ..ImageFacts::default()
        };
        let pair = |key: &str, value: &[u8]| v1::KeyValue {
            key: key.into(),
            value: value.to_vec(),
        };
        let config = v1::ContainerConfig {
            tty: true,
            envs: vec![pair("B", b"3"), pair("C", b"x=y"), pair("TERM", b"vt100")],
            ..Default::default()
        };
        assert_eq!(
            merged(&config, &image, "h", []).unwrap(),
            words("PATH=/bin TERM=vt100 HOSTNAME=h A=1 B=3 C=x=y")
        );
    }

    #[test]
    fn a_bad_variable_is_named_without_its_value() {
        let bad = v1::KeyValue {
            key: "TOKEN".into(),
            value: vec![0xff, b's'],
        };
        let config = v1::ContainerConfig {
            envs: vec![bad],
            ..Default::default()
        };
        let error = merged(&config, &ImageFacts::default(), "h", [])
            .unwrap_err()
            .to_string();
        assert_eq!(error, "config.envs[0]: the value of TOKEN is not UTF-8");
    }

    #[test]
    fn ten_thousand_variables_are_taken() {
        let envs = (0..10_000)
            .map(|n| v1::KeyValue {
                key: format!("N{n}"),
                value: b"v".to_vec(),
            })
            .collect();
        let config = v1::ContainerConfig {
            envs,
            ..Default::default()
        };
        let env = merged(&config, &ImageFacts::default(), "h", []).unwrap();
        assert_eq!(env.len(), 10_002);
    }
}
