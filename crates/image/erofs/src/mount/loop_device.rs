//! Loop devices: files as block devices (`linux/loop.h`), which have no safe wrapper.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::io::{Errno, Result};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl};

const LOOP_CTL_GET_FREE: Opcode = 0x4c82;
const LOOP_CONFIGURE: Opcode = 0x4c0a;

const READ_ONLY: u32 = 1;
/// The kernel detaches the device after its last user closed or unmounted it.
const AUTOCLEAR: u32 = 4;
/// Direct I/O: data is cached in the file's page cache or the device's, but not in both.
const DIRECT_IO: u32 = 16;

/// Maximum number of attempts. Another process may take a free device before this one does.
const TRIES: u32 = 64;

/// A device with an attached file. It is detached on drop, unless it is mounted by then.
#[derive(Debug)]
pub(super) struct LoopDevice {
    pub(super) path: String,
    _held: File,
}

/// Attaches a file to a free device.
pub(super) fn attach(file: BorrowedFd<'_>) -> Result<LoopDevice> {
    let control = open(
        "/dev/loop-control",
        OpenOptions::new().read(true).write(true),
    )?;
    for _ in 0..TRIES {
        // SAFETY: the operation takes no pointer and returns a number.
        let number = unsafe { ioctl(&control, GetFree) }?;
        let path = format!("/dev/loop{number}");
        let device = open(&path, OpenOptions::new().read(true))?;
        let config = Config {
            file: file.as_raw_fd() as u32,
            info: Info {
                flags: READ_ONLY | AUTOCLEAR | DIRECT_IO,
                ..Info::default()
            },
            ..Config::default()
        };
        // SAFETY: the operation reads a `struct loop_config`, which this is.
        let configured = unsafe { ioctl(&device, Setter::<LOOP_CONFIGURE, Config>::new(config)) };
        match configured {
            Ok(()) => {
                return Ok(LoopDevice {
                    path,
                    _held: device,
                });
            }
            Err(Errno::BUSY) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::BUSY)
}

fn open(path: &str, options: &OpenOptions) -> Result<File> {
    let opened = options.open(path);
    opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Returns the number of a free device; creates one if there is none.
struct GetFree;

// SAFETY: the operation has no argument, and its result is read as a number.
unsafe impl Ioctl for GetFree {
    type Output = u32;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        LOOP_CTL_GET_FREE
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(
        output: IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> Result<Self::Output> {
        Ok(output as u32)
    }
}

/// `struct loop_config`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct Config {
    file: u32,
    /// 0: the block size of the file's file system.
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// `struct loop_info64`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl Default for Info {
    fn default() -> Self {
        Self {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: 0,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        }
    }
}

const _: () = assert!(size_of::<Info>() == 232 && size_of::<Config>() == 304);
