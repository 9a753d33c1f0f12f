#!/usr/bin/env python3
"""Prints what the recorded kernel's paths cost, over all recordings that have a scenario: the figures of the cost profile
`icount-probed` (crates/sim/src/costs.rs). Times are those of the events, so whole microseconds, but for the tick's."""
import lzma
import os
import re
import statistics

from recordings import RECORDINGS, SIMULATED

paths = {
    "dequeue of a task that blocks, to the pick": [],
    "pick, to the switch": [],
    "sched_waking, to sched_wakeup": [],
    "tick, to the schedule() it causes (clock_task, ns)": [],
    "ticks, from whole ticks behind the first (clock_task, ns)": [],
}
dequeue, pick, wake, tick, jitter = paths.values()

for name in SIMULATED:
    began = blocked = waking = ticked = base = None
    for line in lzma.open(os.path.join(RECORDINGS, name, "trace.txt.xz"), "rt", errors="replace"):
        m = re.search(r"\] \S+\s+(\d+)\.(\d{6}): (\w+): (.*)", line)
        if not m:
            continue
        us, event, rest = int(m[1]) * 1_000_000 + int(m[2]), m[3], m[4]
        clock = re.search(r"clk=(\d+)", rest)
        if event == "sched_waking":
            waking = us
        elif event == "sched_wakeup" and waking is not None:
            wake.append(us - waking)
            waking = None
        elif event == "curr" and "dequeue_entity" in rest:
            blocked = us
        elif event in ("curr", "pick") and "pick_task_fair" in rest:
            began = us if began is None else began
            if event == "pick" and blocked is not None:
                dequeue.append(us - blocked)
                blocked = None
            if event == "curr" and ticked is not None and clock:
                after = int(clock[1]) - ticked
                if after < 100_000:  # else no schedule() of this tick
                    tick.append(after)
                ticked = None
        elif event == "sched_switch":
            if began is not None:
                pick.append(us - began)
            began = blocked = None
        elif event == "tick":
            ticked = int(clock[1])
            base = ticked if base is None else base
            jitter.append((ticked - base + 2_000_000) % 4_000_000 - 2_000_000)

for what, values in paths.items():
    values.sort()
    n = len(values)
    low, high = values[n // 10], values[n * 9 // 10]
    print(f"{what:57} {n:6} times, median {statistics.median(values):8.0f}, 10 % {low}, 90 % {high}")
