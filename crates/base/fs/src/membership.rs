//! The cgroups of a process.

use std::io;

/// The content of `/proc/PID/cgroup`: a line for each hierarchy, `number:controllers:path`.
#[derive(Debug)]
pub struct Membership(String);

impl Membership {
    /// Reads the cgroups of this process.
    pub fn own() -> io::Result<Self> {
        crate::read_kernel_text("/proc/self/cgroup").map(Self)
    }

    /// Reads the cgroups of a process.
    pub fn of(pid: u32) -> io::Result<Self> {
        crate::read_kernel_text(format!("/proc/{pid}/cgroup")).map(Self)
    }

    /// Wraps a text that was read elsewhere.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the path in the hierarchy of a controller; the controller name of version 2 is empty.
    pub fn path(&self, controller: &str) -> Option<&str> {
        let mut lines = self.lines();
        lines.find_map(|(controllers, path)| {
            let mut controllers = controllers.split(',');
            controllers.any(|it| it == controller).then_some(path)
        })
    }

    /// Returns the controllers of each hierarchy.
    pub fn controllers(&self) -> impl Iterator<Item = Vec<&str>> {
        self.lines().map(|(names, _)| names.split(',').collect())
    }

    /// Returns the paths in all hierarchies.
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
