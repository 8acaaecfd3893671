//! Usage figures in the form that a page receives.

use std::fmt::Write as _;

/// Resource usage of a pod; unknown values are NaN.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    /// Cores.
    pub(super) cpu: f32,
    /// Bytes of the working set.
    pub(super) memory: f64,
    /// Bytes per second.
    pub(super) received: f32,
    pub(super) sent: f32,
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            cpu: f32::NAN,
            memory: f64::NAN,
            received: f32::NAN,
            sent: f32::NAN,
        }
    }
}

impl Figures {
    pub(super) fn write(&self, text: &mut String) {
        text.push('[');
        number(text, self.cpu.into(), 4);
        for value in [self.memory, self.received.into(), self.sent.into()] {
            text.push(',');
            number(text, value, 0);
        }
        text.push(']');
    }
}

/// Resource usage of the node.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeFigures {
    pub(super) used: Figures,
    pub(super) disk: Option<Disk>,
    pub(super) pods: usize,
    pub(super) containers: usize,
}

impl NodeFigures {
    pub(super) fn write(&self, text: &mut String) {
        text.push_str("{\"cpu\":");
        number(text, self.used.cpu.into(), 4);
        for (name, value) in [
            ("memory", self.used.memory),
            ("rx", self.used.received.into()),
            ("tx", self.used.sent.into()),
        ] {
            let _ = write!(text, ",\"{name}\":");
            number(text, value, 0);
        }
        if let Some(disk) = self.disk {
            let Disk {
                used,
                inodes,
                capacity,
            } = disk;
            let _ = write!(
                text,
                ",\"disk_used\":{used},\"disk_inodes\":{inodes},\"disk_capacity\":{capacity}"
            );
        }
        let (pods, containers) = (self.pods, self.containers);
        let _ = write!(text, ",\"pods\":{pods},\"containers\":{containers}}}");
    }
}

/// Usage of the image filesystem.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Disk {
    pub(super) used: u64,
    pub(super) inodes: u64,
    pub(super) capacity: u64,
}

fn number(text: &mut String, value: f64, digits: usize) {
    if value.is_finite() {
        let _ = write!(text, "{value:.digits$}");
    } else {
        text.push_str("null");
    }
}
