//! Queueing disciplines: rate limits on the packets that an interface sends, and redirection of received packets to
//! another interface with a limit.

use std::io;

use super::message::{Attributes, Message};
use super::socket::Rtnl;

/// A token bucket filter at an interface's root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenBucket {
    /// Bytes per second.
    pub(crate) rate: u64,
    /// Bytes.
    pub(crate) burst: u32,
}

// <linux/pkt_sched.h>, <linux/pkt_cls.h>, <linux/tc_act/tc_mirred.h>
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TC_H_INGRESS: u32 = 0xffff_fff1;
const INGRESS_HANDLE: u32 = 0xffff_0000;
const ROOT_HANDLE: u32 = 0x0001_0000;
const TCA_U32_CLASSID: u16 = 1;
const TCA_U32_SEL: u16 = 5;
const TCA_U32_ACT: u16 = 7;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
const TC_ACT_STOLEN: i32 = 4;
const TCA_EGRESS_REDIR: i32 = 1;

/// Maximum time of a packet in the bucket's queue.
const LATENCY_SECONDS: f64 = 0.025;

/// Frequency of the scheduler's clock: 64 ns a tick (`/proc/net/psched`). The kernel has reported the same numbers
/// since 2.6.31.
const TICKS_PER_SECOND: f64 = 15_625_000.0;

impl TokenBucket {
    /// Converts a rate in bits per second and a burst in bits, as CNI writes them.
    pub(crate) fn from_bits(rate: u64, burst: u64) -> Self {
        Self {
            rate: rate / 8,
            burst: u32::try_from(burst / 8).unwrap_or(u32::MAX),
        }
    }

    /// Builds `struct tc_tbf_qopt`: two rate specifications, then limit, buffer, mtu.
    fn parameters(self) -> Vec<u8> {
        let rate32 = u32::try_from(self.rate).unwrap_or(u32::MAX);
        let seconds = f64::from(self.burst) / self.rate.max(1) as f64;
        let buffer = (seconds * TICKS_PER_SECOND).min(f64::from(u32::MAX)) as u32;
        let queue = self.rate as f64 * LATENCY_SECONDS + f64::from(self.burst);
        let mut bytes = Vec::with_capacity(36);
        // cell_log, linklayer (ethernet), overhead, cell_align, mpu, rate
        bytes.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&rate32.to_ne_bytes());
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend_from_slice(&(queue.min(f64::from(u32::MAX)) as u32).to_ne_bytes());
        bytes.extend_from_slice(&buffer.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes
    }
}

impl Rtnl {
    /// Limits the rate at which an interface sends.
    pub(crate) fn limit_rate(&mut self, index: u32, bucket: TokenBucket) -> io::Result<()> {
        let message = Message::new(libc::RTM_NEWQDISC, libc::NLM_F_CREATE | libc::NLM_F_REPLACE)
            .fixed(&header(index, ROOT_HANDLE, TC_H_ROOT, 0))
            .attr_str(TCA_KIND, "tbf");
        self.0.request(message.nest(TCA_OPTIONS, |options| {
            let options = options
                .attr(TCA_TBF_PARMS, &bucket.parameters())
                .attr_u32(TCA_TBF_BURST, bucket.burst);
            if bucket.rate > u64::from(u32::MAX) {
                options.attr(TCA_TBF_RATE64, &bucket.rate.to_ne_bytes())
            } else {
                options
            }
        }))
    }

    /// Redirects packets that an interface receives to another one.
    pub(crate) fn redirect_ingress(&mut self, from: u32, to: u32) -> io::Result<()> {
        let ingress = Message::new(libc::RTM_NEWQDISC, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
            .fixed(&header(from, INGRESS_HANDLE, TC_H_INGRESS, 0))
            .attr_str(TCA_KIND, "ingress")
            .nest(TCA_OPTIONS, |options| options);
        // Priority 1, any protocol (ETH_P_ALL in network order).
        let info = 1 << 16 | u32::from((libc::ETH_P_ALL as u16).to_be());
        // struct tc_u32_sel with the flag "terminal" and one key that matches all.
        let mut selector = vec![0_u8; 16 + 16];
        selector[0] = 1;
        selector[2] = 1;
        // struct tc_mirred: index, capab, action, refcnt, bindcnt, eaction, ifindex
        let mut mirred = Vec::new();
        for value in [0, 0, TC_ACT_STOLEN, 0, 0, TCA_EGRESS_REDIR] {
            mirred.extend_from_slice(&value.to_ne_bytes());
        }
        mirred.extend_from_slice(&to.to_ne_bytes());
        let filter = Message::new(libc::RTM_NEWTFILTER, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
            .fixed(&header(from, 0, INGRESS_HANDLE, info))
            .attr_str(TCA_KIND, "u32")
            .nest(TCA_OPTIONS, |options| {
                options
                    .attr_u32(TCA_U32_CLASSID, ROOT_HANDLE | 1)
                    .attr(TCA_U32_SEL, &selector)
                    .nest(TCA_U32_ACT, |actions| {
                        actions.nest(1, |action| {
                            action
                                .attr_str(TCA_ACT_KIND, "mirred")
                                .nest(TCA_ACT_OPTIONS, |o| o.attr(TCA_MIRRED_PARMS, &mirred))
                        })
                    })
            });
        self.0.request_all([ingress, filter])
    }

    /// Lists the names of an interface's queueing disciplines.
    pub(crate) fn disciplines(&mut self, index: u32) -> io::Result<Vec<String>> {
        let message = Message::new(libc::RTM_GETQDISC, 0).fixed(&header(index, 0, 0, 0));
        let replies = self.0.dump(message)?;
        let of_interface = replies.iter().filter(|(_, body)| {
            body.get(4..8)
                .is_some_and(|bytes| bytes == index.to_ne_bytes())
        });
        Ok(of_interface
            .filter_map(|(_, body)| {
                Attributes(body.get(20..)?)
                    .text(TCA_KIND)
                    .map(str::to_owned)
            })
            .collect())
    }
}

/// Builds `struct tcmsg`.
fn header(index: u32, handle: u32, parent: u32, info: u32) -> [u8; 20] {
    let mut header = [0; 20];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&handle.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    header[16..].copy_from_slice(&info.to_ne_bytes());
    header
}
