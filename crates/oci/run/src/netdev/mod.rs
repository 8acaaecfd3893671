//! Network devices that become a container's (`linux.netDevices`).

mod devices;
mod message;
mod name;
mod socket;

pub(crate) use devices::Devices;
pub(crate) use name::check;
