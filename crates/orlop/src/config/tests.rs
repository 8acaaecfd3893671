//! Tests of the configuration from an administrator's view.

use std::fs;
use std::path::Path;

use super::load::Loaded;
use super::problem::Problems;
use super::*;

fn load_text(text: &str) -> Result<Loaded, Problems> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    fs::write(&file, text).unwrap();
    load(&Location::new(Some(file)), &Flags::default())
}

/// Returns the error message after the directory of its file.
fn complaint(text: &str) -> String {
    let message = load_text(text).unwrap_err().to_string();
    message[message.find("config.toml").unwrap()..].to_owned()
}

#[test]
fn the_default_file_uncommented_is_the_default() {
    let lines: Vec<String> = default_file()
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(key) if !key.starts_with(' ') => key.to_owned(),
            _ => line.to_owned(),
        })
        .collect();
    let text = lines.join("\n");
    let mut config = load_text(&text).unwrap().config;
    assert!(text.contains("[runtimes.name]"), "{text}");
    assert_eq!(
        config.runtimes.remove("name"),
        Some(schema::Runtime::default())
    );
    assert_eq!(config, Config::default());
}

#[test]
fn what_is_shown_reads_back() {
    let text = "root = \"/a\"\n[runtimes.runc]\nargs = [\"--debug\"]\n[containers]\nsysctls = { \"net.core.somaxconn\" = \"1024\" }\n";
    let loaded = load_text(text).unwrap();
    assert_eq!(
        load_text(&effective(&loaded)).unwrap().config,
        loaded.config
    );
    assert!(effective(&loaded).contains("config.toml:1"));
}

#[test]
fn mistakes_name_line_key_and_remedy() {
    for (text, expected) in [
        (
            "[containers]\nlog_buffer = 1",
            "config.toml:2: containers.log_buffer: was removed: `containers.log_full` replaces it; \
             `orlop config migrate` converts the file",
        ),
        (
            "\nrot = \"/a\"",
            "config.toml:2: rot: unknown key, did you mean `root`?",
        ),
        (
            "[grcp]",
            "config.toml:1: grcp: unknown key, did you mean `grpc`?",
        ),
        (
            "[grpc]\nlisten_on = []",
            "config.toml:2: grpc.listen_on: unknown key, did you mean `listen`?",
        ),
        (
            "level = \"info\"",
            "config.toml:1: level: unknown key, did you mean `log.level`?",
        ),
        (
            "[log]\nzzz = 1",
            "config.toml:2: log.zzz: unknown key, `orlop config default` lists all",
        ),
        (
            "root = 7",
            "config.toml:1: root: expected a path, found a integer",
        ),
        (
            "root = \"a\"",
            "config.toml:1: root: \"a\" must be an absolute path",
        ),
        (
            "[grpc]\nlisten = [\"/a\",\n\"tcp://0.0.0.0:1\"]",
            "config.toml:3: grpc.listen: \"tcp://0.0.0.0:1\" is not a unix socket",
        ),
        (
            "backend = \"podman\"",
            "config.toml:1: backend: \"podman\" is not one of native, docker",
        ),
        (
            "[grpc]\nmax_calls = 0",
            "config.toml:2: grpc.max_calls: 0 is out of range",
        ),
        ("grpc = 1", "config.toml:1: grpc: must be a table: [grpc]"),
        (
            "[runtimes.runc]\npaht = \"/x\"",
            "config.toml:2: runtimes.runc.paht: unknown key, did you mean `path`?",
        ),
        (
            "default_runtime = \"kata\"",
            "config.toml:1: default_runtime: the table [runtimes.kata] is missing",
        ),
        (
            "[streaming]\naddress = \"0.0.0.0\"",
            "config.toml:2: streaming.address: 0.0.0.0 is open to other machines",
        ),
        (
            "backend = \"docker\"\n[images]\nregistries_conf = \"/r.conf\"",
            "config.toml:3: images.registries_conf: with the docker backend, this key is only used to check",
        ),
        (
            "backend = \"docker\"\n[images]\ncredentials_dir = \"/c\"",
            "config.toml:3: images.credentials_dir: with the docker backend, images are available",
        ),
        (
            "backend = \"docker\"\n[images]\ndecryption_keys = \"/k\"",
            "config.toml:3: images.decryption_keys: the docker backend does not support this key",
        ),
        (
            "root = \"/run/orlop/x\"",
            "state: the state directory /run/orlop and the root",
        ),
        ("a = [\n1,\n", "config.toml:"),
        (
            "root = \"/a\"\nroot = \"/b\"",
            "config.toml:2: duplicate key",
        ),
    ] {
        let message = load_text(text).unwrap_err().to_string();
        assert!(
            message.contains(expected),
            "{text:?} gave {message:?}, not {expected:?}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn a_policy_of_the_docker_backend_makes_a_file_of_registries_worth_reading() {
    for policy in [
        "signature_policy = \"/p.json\"",
        "signature_policy_dir = \"/p\"",
    ] {
        let text =
            format!("backend = \"docker\"\n[images]\nregistries_conf = \"/r.conf\"\n{policy}\n");
        assert!(load_text(&text).is_ok(), "{policy}");
    }
}

#[test]
fn every_mistake_is_counted() {
    assert!(
        complaint("a = 1\nb = 2\nc = 3")
            .ends_with("(and 2 more problems; run `orlop config check` to list all)")
    );
}

#[test]
fn drop_ins_come_in_the_order_of_their_names_and_win() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "config.toml",
        "root = \"/a\"\n[runtimes.runc]\npath = \"/bin/runc\"\n",
    );
    write("config.toml.d/20.toml", "root = \"/c\"\n");
    write(
        "config.toml.d/10.toml",
        "root = \"/b\"\nstate = \"/s\"\n[runtimes.runc]\nargs = [\"-v\"]\n",
    );
    write("config.toml.d/30.toml.bak", "root = \"/d\"\n");
    write("config.toml.d/.40.toml", "root = \"/e\"\n");
    let location = Location::new(Some(dir.path().join("config.toml")));
    let flags = Flags::given(&[("state", "/flag")]);
    let config = load(&location, &flags).unwrap().config;
    assert_eq!(&*config.daemon.root, Path::new("/c"));
    assert_eq!(&*config.daemon.state, Path::new("/flag"));
    let runc = &config.runtimes["runc"];
    assert_eq!(runc.args, ["-v"]);
    assert_eq!(runc.path.as_deref(), Some(Path::new("/bin/runc")));
}

#[test]
fn a_file_that_is_named_must_be_readable() {
    let missing = Location::new(Some("/nonexistent/config.toml".into()));
    let message = load(&missing, &Flags::default()).unwrap_err().to_string();
    assert!(
        message.starts_with("/nonexistent/config.toml: cannot read the file: No such file"),
        "{message}"
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    fs::write(&file, [0xff, 0xfe]).unwrap();
    assert!(load(&Location::new(Some(file)), &Flags::default()).is_err());
}

#[test]
fn the_reference_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    if std::env::var_os("ORLOP_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, reference()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        written,
        reference(),
        "run this test with ORLOP_BLESS=1 to write docs/reference/configuration.md again"
    );
}
