//! The plugins of a network, run one after the other.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::exec::{self, Limits, find_program};
use crate::cni::{CniResult, NetworkConf, PluginConf, RuntimeArgs, SpecVersion, Verb};
use crate::error::{Error, NativeError, PluginError, PluginFailure};
use crate::native::{self, Call, NativePlugin};
use crate::{Config, InProcess};

/// A network ready for use: its configuration, and for each plugin the way in which it runs.
#[derive(Debug)]
pub(crate) struct Chain<'a> {
    network: &'a NetworkConf,
    in_process: bool,
    bin_dirs: &'a [PathBuf],
    limits: Limits,
}

/// The pod and interface of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) container_id: &'a str,
    pub(crate) if_name: &'a str,
    /// The namespace; `None` if it is gone.
    pub(crate) netns: Option<&'a Path>,
    pub(crate) args: &'a RuntimeArgs,
}

/// Progress of an ADD.
#[derive(Debug)]
pub(crate) enum Progress<'a> {
    /// The first plugin's result, which the others need to undo their part.
    First(&'a Value),
    /// ADD ends early, after this number of plugins.
    Ran(usize),
}

impl<'a> Chain<'a> {
    /// Decides how the network's plugins run.
    pub(crate) fn new(
        network: &'a NetworkConf,
        config: &'a Config,
    ) -> Result<Self, Box<PluginError>> {
        let mode = network.in_process.unwrap_or(config.in_process);
        let unsuited = match mode {
            InProcess::Never => None,
            InProcess::Auto | InProcess::Always => {
                Some(native::first_unsuited(network, &config.pinned))
            }
        };
        if let (InProcess::Always, Some(Some((plugin, why)))) = (mode, &unsuited) {
            return Err(Box::new(PluginError {
                network: network.name.clone(),
                plugin: plugin.clone(),
                verb: Verb::Add,
                failure: NativeError::Unsupported(why.clone()).into(),
            }));
        }
        Ok(Self {
            network,
            in_process: matches!(unsuited, Some(None)),
            bin_dirs: &config.bin_dirs,
            limits: Limits::with_timeout(config.plugin_timeout),
        })
    }

    /// Reports whether the plugins run in process.
    pub(crate) fn is_in_process(&self) -> bool {
        self.in_process
    }

    /// Runs ADD of all plugins. After a failure the caller must run DEL for all plugins that ran.
    ///
    /// `note` receives the information that DEL needs, before the next step.
    pub(crate) fn add(
        &self,
        target: Target<'_>,
        mut note: impl FnMut(Progress<'_>) -> Result<(), Error>,
    ) -> Result<Value, Error> {
        let mut previous: Option<Value> = None;
        for (index, plugin) in self.network.plugins.iter().enumerate() {
            if let (1, Some(result)) = (index, &previous) {
                note(Progress::First(result))?;
            }
            match self.add_one(plugin, target, previous.as_ref()) {
                Ok(result) => previous = Some(result),
                Err(error) => {
                    if error.failure.is_before_anything_was_done() {
                        note(Progress::Ran(index))?;
                    }
                    return Err(error.into());
                }
            }
        }
        Ok(previous.unwrap_or_else(|| json!({})))
    }

    fn add_one(
        &self,
        plugin: &PluginConf,
        target: Target<'_>,
        previous: Option<&Value>,
    ) -> Result<Value, Box<PluginError>> {
        let printed = self.run(plugin, Verb::Add, Some(target), previous, None)?;
        let fail = |problem: String, shown: &Value| {
            let output = shown.to_string().chars().take(256).collect();
            self.error(
                plugin,
                Verb::Add,
                PluginFailure::Garbage { problem, output },
            )
        };
        let printed = printed.ok_or_else(|| fail("nothing".to_owned(), &json!("")))?;
        let parsed = CniResult::parse(&printed, self.network.cni_version)
            .map_err(|error| fail(orlop_text::with_causes(&error), &printed))?;
        let same = printed.get("cniVersion").and_then(Value::as_str)
            == Some(self.network.cni_version.as_str());
        // The next plugin reads the version of its configuration.
        Ok(if same {
            printed
        } else {
            parsed.to_version(self.network.cni_version)
        })
    }

    /// Runs DEL, the last plugin first. All plugins run even if one fails; the first failure is returned.
    pub(crate) fn del(
        &self,
        target: Target<'_>,
        previous: Option<&Value>,
    ) -> Result<(), Box<PluginError>> {
        // Programs before 0.4.0 expect no previous result at DEL.
        let told = self.in_process || self.network.cni_version >= SpecVersion::V0_4_0;
        let previous = previous.filter(|_| told);
        let mut first = Ok(());
        for plugin in self.network.plugins.iter().rev() {
            let done = self.run(plugin, Verb::Del, Some(target), previous, None);
            if let (Err(error), true) = (done, first.is_ok()) {
                first = Err(error);
            }
        }
        first
    }

    /// Runs CHECK, if the network's version supports it.
    pub(crate) fn check(
        &self,
        target: Target<'_>,
        previous: &Value,
    ) -> Result<(), Box<PluginError>> {
        if self.network.cni_version < SpecVersion::V0_4_0 || self.network.disable_check {
            return Ok(());
        }
        for plugin in &self.network.plugins {
            self.run(plugin, Verb::Check, Some(target), Some(previous), None)?;
        }
        Ok(())
    }

    /// Runs STATUS, if the network's version supports it (in process always). Before 1.1.0 it only checks that the
    /// programs exist.
    pub(crate) fn status(&self) -> Result<(), Box<PluginError>> {
        for plugin in &self.network.plugins {
            if self.in_process || self.network.cni_version >= SpecVersion::V1_1_0 {
                match self.run(plugin, Verb::Status, None, None, None) {
                    // Plugins of 1.0 report "unknown CNI_COMMAND" with one of these codes, which is not a reason for
                    // ADD to fail.
                    Err(error) if lacks_the_verb(&error) => {}
                    done => drop(done?),
                }
            } else {
                find_program(&plugin.kind, self.bin_dirs)
                    .map_err(|failure| self.error(plugin, Verb::Status, failure))?;
            }
        }
        Ok(())
    }

    /// Returns the plugins whose GC must run, if the network's version supports it.
    pub(crate) fn collectors(&self) -> &'a [PluginConf] {
        if self.network.cni_version < SpecVersion::V1_1_0 || self.network.disable_gc {
            return &[];
        }
        &self.network.plugins
    }

    /// Runs GC of a plugin with the list of valid attachments; the plugin releases everything else.
    pub(crate) fn gc(
        &self,
        plugin: &PluginConf,
        valid: &[(String, String)],
    ) -> Result<(), Box<PluginError>> {
        let valid: Vec<_> = valid
            .iter()
            .map(|(id, name)| json!({ "containerID": id, "ifname": name }))
            .collect();
        match self.run(plugin, Verb::Gc, None, None, Some(&json!(valid))) {
            Err(error) if lacks_the_verb(&error) => Ok(()),
            done => done.map(drop),
        }
    }

    fn run(
        &self,
        plugin: &PluginConf,
        verb: Verb,
        target: Option<Target<'_>>,
        previous: Option<&Value>,
        valid_attachments: Option<&Value>,
    ) -> Result<Option<Value>, Box<PluginError>> {
        let none = RuntimeArgs::default();
        let args = target.map_or(&none, |target| target.args);
        let mut conf = plugin.stdin(self.network, &args.capability_args, previous);
        if let Some(valid) = valid_attachments {
            conf.insert("cni.dev/valid-attachments".to_owned(), valid.clone());
            // The key of the specification's first edition, which some plugins still read.
            conf.insert("cni.dev/attachments".to_owned(), valid.clone());
        }
        let conf = Value::Object(conf);
        let args_text = args.cni_args_text();
        let in_process = self.in_process
            || (verb == Verb::Del
                && native::did_what_programs_cannot_undo(
                    &plugin.kind,
                    &self.call(verb, target, &args_text, &conf),
                ));
        let done = if in_process {
            self.run_native(plugin, verb, target, &args_text, &conf)
        } else {
            self.run_program(plugin, verb, target, &args_text, &conf)
        };
        done.map_err(|failure| self.error(plugin, verb, failure))
    }

    fn run_native(
        &self,
        plugin: &PluginConf,
        verb: Verb,
        target: Option<Target<'_>>,
        args: &str,
        conf: &Value,
    ) -> Result<Option<Value>, PluginFailure> {
        let Some(native) = NativePlugin::named(&plugin.kind) else {
            return Err(PluginFailure::Missing {
                searched: Vec::new(),
            });
        };
        let result = native.run(&self.call(verb, target, args, conf))?;
        Ok(result.map(|result| result.to_version(self.network.cni_version)))
    }

    fn call<'c>(
        &'c self,
        verb: Verb,
        target: Option<Target<'c>>,
        args: &'c str,
        conf: &'c Value,
    ) -> Call<'c> {
        Call {
            verb,
            container_id: target.map_or("", |target| target.container_id),
            if_name: target.map_or("", |target| target.if_name),
            netns: target.and_then(|target| target.netns),
            args,
            version: self.network.cni_version,
            network: &self.network.name,
            conf,
        }
    }

    fn run_program(
        &self,
        plugin: &PluginConf,
        verb: Verb,
        target: Option<Target<'_>>,
        args: &str,
        conf: &Value,
    ) -> Result<Option<Value>, PluginFailure> {
        let program = find_program(&plugin.kind, self.bin_dirs)?;
        let path = std::env::join_paths(self.bin_dirs).unwrap_or_default();
        let path = path.to_string_lossy();
        let netns = target
            .and_then(|target| target.netns)
            .map(Path::to_string_lossy);
        let mut env = vec![("CNI_COMMAND", verb.as_str()), ("CNI_PATH", &*path)];
        if let Some(target) = target {
            env.push(("CNI_CONTAINERID", target.container_id));
            env.push(("CNI_IFNAME", target.if_name));
            env.push(("CNI_ARGS", args));
            env.push(("CNI_NETNS", netns.as_deref().unwrap_or("")));
        }
        let stdin = serde_json::to_vec(conf).map_err(|error| PluginFailure::Talk(error.into()))?;
        exec::run(&program, &env, &stdin, self.limits)
    }

    #[allow(
        clippy::unnecessary_box_returns,
        reason = "it is large, and always an error's"
    )]
    fn error(&self, plugin: &PluginConf, verb: Verb, failure: PluginFailure) -> Box<PluginError> {
        Box::new(PluginError {
            network: self.network.name.clone(),
            plugin: plugin.kind.clone(),
            verb,
            failure,
        })
    }
}

/// Reports whether a plugin refused a command because it is older than the command.
fn lacks_the_verb(error: &PluginError) -> bool {
    // 1: incompatible version; 4: invalid environment, which includes an unknown CNI_COMMAND.
    matches!(error.failure, PluginFailure::Reported { code: 1 | 4, .. })
}
