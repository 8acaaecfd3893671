//! Test programs of the workspace with their tests, as listed by `cargo nextest list`.

use std::path::PathBuf;

use serde::Deserialize;

use super::scan::crate_tests;
use crate::cargo::metadata;

/// A test, as identified by nextest.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// `orlop-image`.
    pub package: String,
    /// nextest's binary name: that of the test program, library or binary.
    pub binary: String,
    /// Test program; `None` for unit tests.
    pub program: Option<String>,
    /// Modules and name.
    pub path: String,
    pub ignored: bool,
}

impl Test {
    /// `orlop-image::it::layers::a_link_stays_inside`.
    pub fn identity(&self) -> String {
        let program = self.program.iter().map(|program| format!("{program}::"));
        format!(
            "{}::{}{}",
            self.package,
            program.collect::<String>(),
            self.path
        )
    }
}

#[derive(Deserialize)]
struct Workspace {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
    src_path: PathBuf,
    test: bool,
}

/// All test programs of the workspace.
pub struct Programs {
    pub tests: Vec<Test>,
    pub benches: Vec<String>,
    /// Tests of examples and benches, which no command runs.
    pub lost: Vec<Test>,
}

impl Programs {
    pub fn read() -> Self {
        let workspace: Workspace = metadata(&["--no-deps"]);
        let mut programs = Self {
            tests: Vec::new(),
            benches: Vec::new(),
            lost: Vec::new(),
        };
        for package in workspace.packages {
            for target in package.targets {
                programs.add(&package.name, target);
            }
        }
        programs
    }

    fn add(&mut self, package: &str, target: Target) {
        let kind = target.kind.first().map_or("", String::as_str);
        if kind == "bench" {
            self.benches.push(target.name.clone());
        }
        if !target.test || kind == "custom-build" {
            return;
        }
        let program = match kind {
            "lib" | "proc-macro" | "bin" => None,
            _ => Some(target.name.clone()),
        };
        let into = match kind {
            "example" | "bench" => &mut self.lost,
            _ => &mut self.tests,
        };
        into.extend(crate_tests(&target.src_path).into_iter().map(|found| Test {
            package: package.to_owned(),
            binary: target.name.clone(),
            program: program.clone(),
            path: found.path,
            ignored: found.ignored,
        }));
    }
}
