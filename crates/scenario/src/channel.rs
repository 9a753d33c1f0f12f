//! Kinds of channel: what fits in and when a sleeping writer is woken.
//!
//! Sizes are those of Linux on a 64-bit machine, as documented in `docs/formats/scenario.md`.

use schedlab_sim::program::ChannelSpec;

/// Bytes of a pipe: 16 slots of one page each (pipe(7)).
pub const PIPE_CAPACITY: u32 = 65_536;
/// Slots of a pipe; small writes share one as long as they fit.
const PIPE_SLOTS: u32 = 16;
/// A page.
const PAGE: u32 = 4_096;
/// `net.core.wmem_default` on 64-bit machines with 4 KiB pages.
pub const SOCKET_SNDBUF: u32 = 212_992;
/// `struct sk_buff`, aligned to a cache line.
const SK_BUFF: u32 = 256;
/// `struct skb_shared_info`, aligned; it lies behind the data in the same allocation.
const SHARED_INFO: u32 = 320;
/// Sizes that the kernel's allocator hands out.
const KMALLOC_SIZES: [u32; 8] = [512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536];

/// A kind of channel by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelKind {
    /// `pipe(2)`.
    Pipe,
    /// `socketpair(AF_UNIX, SOCK_STREAM)`.
    Socket,
}

impl ChannelKind {
    /// The channel's sizes for messages of one size.
    #[must_use]
    pub fn spec(self, message: u32) -> ChannelSpec {
        match self {
            // A pipe's writer that found it full is woken when a slot becomes free.
            Self::Pipe => {
                let slot = PIPE_CAPACITY / PIPE_SLOTS;
                let (each, per_slot) = match message {
                    0 => (0, slot),
                    m if m > slot => (m, 1),
                    m => (slot / (slot / m), slot / m),
                };
                let full_slots = |n: u32| match message {
                    1.. if message <= slot => n * per_slot * each,
                    _ => n * slot,
                };
                ChannelSpec {
                    capacity: full_slots(PIPE_SLOTS),
                    overhead: each - message,
                    writer_wake_below: full_slots(PIPE_SLOTS - 1),
                    wake_all_writers: false,
                    messages: false,
                    sync_wake: true,
                }
            }
            // A writer may send while anything of the buffer is left, so the last message may stick out of it; and it
            // is woken when four times the used part is at most the buffer.
            Self::Socket => {
                let each = socket_truesize(message);
                ChannelSpec {
                    capacity: SOCKET_SNDBUF.div_ceil(each).saturating_mul(each),
                    overhead: each.saturating_sub(message),
                    writer_wake_below: SOCKET_SNDBUF / 4,
                    wake_all_writers: true,
                    messages: false,
                    sync_wake: true,
                }
            }
        }
    }
}

/// What the socket buffer is charged for one message (`skb->truesize`).
///
/// Data and shared info lie in one block from the size classes of `kmalloc`; the `sk_buff` comes on top. AF_UNIX
/// charges its buffers to the memory cgroup, hence not from the cache of small heads that TCP uses since 6.4.
fn socket_truesize(message: u32) -> u32 {
    let block = u64::from(message).next_multiple_of(64) + u64::from(SHARED_INFO);
    let block = KMALLOC_SIZES
        .iter()
        .map(|&s| u64::from(s))
        .find(|&s| s >= block)
        .unwrap_or_else(|| block.next_multiple_of(u64::from(PAGE)));
    u32::try_from(block + u64::from(SK_BUFF)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_bytes_cost_768_of_a_socket_and_278_fit() {
        let s = ChannelKind::Socket.spec(100);
        assert_eq!(100 + s.overhead, 768);
        assert_eq!(s.capacity / 768, 278);
        assert_eq!(s.writer_wake_below, 53_248);
    }

    #[test]
    fn forty_messages_of_a_hundred_bytes_share_a_page_of_a_pipe() {
        let s = ChannelKind::Pipe.spec(100);
        assert_eq!((100 + s.overhead, s.capacity), (102, 640 * 102));
        assert_eq!(s.writer_wake_below, 600 * 102);
        let s = ChannelKind::Pipe.spec(4_096);
        assert_eq!(
            (s.overhead, s.capacity, s.writer_wake_below),
            (0, 65_536, 61_440)
        );
        assert_eq!(ChannelKind::Pipe.spec(3_000).overhead, 1_096);
        assert_eq!(ChannelKind::Pipe.spec(5_000).overhead, 0);
        assert_eq!(ChannelKind::Pipe.spec(0).overhead, 0);
    }

    #[test]
    fn no_message_size_overflows() {
        for bytes in [0, 1, 65_535, 65_536, 1_000_000, u32::MAX] {
            let _ = ChannelKind::Pipe.spec(bytes);
            let _ = ChannelKind::Socket.spec(bytes);
        }
    }
}
