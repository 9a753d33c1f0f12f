//! Schedules three tasks with a bump allocator for heap, and exits with what it found.
//!
//! That this links proves that the crate needs neither std nor libc: a second panic handler would be an error, and so
//! would a call that nobody answers.

#![no_std]
#![no_main]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

use schedlab_fair::{Class, CpuId, Dequeue, Enqueue, Ns, Profile, Resched, TaskAttr};

const HEAP: usize = 1 << 20;

/// Hands out memory from an array and never takes any back.
struct Bump {
    heap: UnsafeCell<[u8; HEAP]>,
    used: AtomicUsize,
}

// SAFETY: no two callers get the same bytes, because `used` is moved on by one atomic step.
unsafe impl Sync for Bump {}

// SAFETY: the block returned is inside the array, aligned, and given out once.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let room = layout.size() + layout.align();
        let from = self.used.fetch_add(room, Ordering::Relaxed);
        if from + room > HEAP {
            return core::ptr::null_mut();
        }
        let base = self.heap.get() as usize + from;
        let aligned = (base + layout.align() - 1) & !(layout.align() - 1);
        aligned as *mut u8
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static HEAP_OF_ALL: Bump = Bump {
    heap: UnsafeCell::new([0; HEAP]),
    used: AtomicUsize::new(0),
};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(101)
}

fn exit(code: i32) -> ! {
    // SAFETY: exit_group takes one number and does not return.
    unsafe {
        core::arch::asm!("syscall", in("rax") 231, in("rdi") code, options(noreturn));
    }
}

/// Three hogs of nice 0, 0 and 5 on one CPU for a second; 0 if each got what its weight says.
fn shares() -> i32 {
    let cpu = CpuId(0);
    let mut class = Class::new(Profile::default(), 1, 1000);
    let tasks = [0, 0, 5].map(|nice| {
        let t = class.add_task(TaskAttr {
            nice,
            ..TaskAttr::default()
        });
        class.enqueue_task(cpu, t, Enqueue::INITIAL, Ns(0), &mut ());
        t
    });
    let mut curr = class.pick_next_task(cpu, None, Ns(0), &mut ());
    for tick in 1..=1000 {
        let now = Ns::from_ms(tick);
        class.task_tick(cpu, now, &mut ());
        if class.resched(cpu) != Resched::None {
            curr = class.pick_next_task(cpu, curr, now, &mut ());
            class.clear_resched(cpu);
        }
    }
    if let Some(t) = curr {
        class.dequeue_task(cpu, t, Dequeue::SLEEP, Ns::from_ms(1000), &mut ());
    }
    let wrong = tasks.iter().zip([430, 430, 140]).any(|(t, want)| {
        let got = class.entity(t.entity()).sum_exec_runtime / 1_000_000;
        got.abs_diff(want) > 5
    });
    i32::from(wrong || class.verify(cpu).is_err())
}

core::arch::global_asm!(".globl _start", "_start:", "and rsp, -16", "call {}", sym start);

extern "C" fn start() -> ! {
    exit(shares())
}

// What compilers call for copies, in the plainest form; volatile, so that they are not turned into calls of themselves.

/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    for i in 0..n {
        // SAFETY: the caller's duty.
        unsafe { to.add(i).write_volatile(from.add(i).read_volatile()) };
    }
    to
}

/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if (to as usize) <= from as usize {
        // SAFETY: the caller's duty; what is read has not been written over yet.
        return unsafe { memcpy(to, from, n) };
    }
    for i in (0..n).rev() {
        // SAFETY: as above, from the end.
        unsafe { to.add(i).write_volatile(from.add(i).read_volatile()) };
    }
    to
}

/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    for i in 0..n {
        // SAFETY: the caller's duty.
        unsafe { to.add(i).write_volatile(byte as u8) };
    }
    to
}

/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    for i in 0..n {
        // SAFETY: the caller's duty.
        let (x, y) = unsafe { (a.add(i).read_volatile(), b.add(i).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// Named in the tables of the precompiled core; nothing is ever unwound here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// See [`rust_eh_personality`].
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    exit(102)
}
