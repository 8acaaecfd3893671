//! In which cgroups a process is.

use std::io;

/// What `/proc/PID/cgroup` says: a line for each hierarchy, `number:controllers:path`.
#[derive(Debug)]
pub struct Membership(String);

impl Membership {
    /// Of this process.
    pub fn own() -> io::Result<Self> {
        crate::read_kernel_text("/proc/self/cgroup").map(Self)
    }

    /// Of a process.
    pub fn of(pid: u32) -> io::Result<Self> {
        crate::read_kernel_text(format!("/proc/{pid}/cgroup")).map(Self)
    }

    /// A text that was read elsewhere.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The path in the hierarchy of a controller; version 2 has no controller's name but the empty
    /// one.
    pub fn path(&self, controller: &str) -> Option<&str> {
        let mut lines = self.lines();
        lines.find_map(|(controllers, path)| {
            let mut controllers = controllers.split(',');
            controllers.any(|it| it == controller).then_some(path)
        })
    }

    /// The controllers of each hierarchy.
    pub fn controllers(&self) -> impl Iterator<Item = Vec<&str>> {
        self.lines().map(|(names, _)| names.split(',').collect())
    }

    /// The paths in all hierarchies.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.lines().map(|(_, path)| path)
    }

    fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?, parts.next()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_about_its_controllers() {
        let text = "4:cpu,cpuacct:/a:b\n3:name=systemd:/init\n2:memory:/m\n0::/own\nodd\n";
        let membership = Membership::from_text(text);
        assert_eq!(membership.path("cpu"), Some("/a:b"));
        assert_eq!(membership.path("cpuacct"), Some("/a:b"));
        assert_eq!(membership.path("cp"), None);
        assert_eq!(membership.path("memory"), Some("/m"));
        assert_eq!(membership.path(""), Some("/own"));
        assert_eq!(membership.paths().count(), 4);
    }
}
