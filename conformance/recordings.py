"""What a recording of conformance/recordings shows of its load: when it began, and what each task ran and switched."""
import json
import lzma
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDINGS = os.path.join(HERE, "recordings", "6.12.117")
# Recordings that have a scenario of the same name: those of the first set.
SIMULATED = """cg_2to1 cg_max cg_nested cg_sleepers cg_unequal_tasks forkstorm hogs10_eq hogs2_eq hogs2_slice
hogs3_base2800 hogs3_nice hogs3_noparity hogs3_slice hogs5_nice hogs_arrive hogs_renice pingpong pingpong_hog
policy_idle policy_rr sleeper_hog sleeper_nodelaydq sleeper_nolag sleeper_nowkpre sleeper_short sleepers_hogs
yield_hog""".split()


class Load:
    """A recording: `start` of the load (s), `phase` behind a tick (us), snapshots, and per task (run ns, switches)."""

    def __init__(self, name):
        folder = os.path.join(RECORDINGS, name)
        self.meta = json.load(open(os.path.join(folder, "meta.json")))
        tasks = self.meta["results"]
        kind = {t["pid"]: t["spec"].split(":")[0] for t in tasks}
        stops = {t["pid"] for t in tasks if "stop=" in t["spec"]}
        starts = {t["pid"] for t in tasks if "start=" in t["spec"]}
        names = {t["pid"]: t["name"] for t in tasks}
        exits, wakes, ticks, snap_wakes, begins, ends, switches, charges = [], [], [], [], [], [], [], []
        for line in lzma.open(os.path.join(folder, "trace.txt.xz"), "rt", errors="replace"):
            m = re.search(r"\] \S+\s+([\d.]+): (\w+): (.*)", line)
            if not m:
                continue
            t, event, rest = float(m[1]), m[2], m[3]
            if event == "sched_process_exit":
                pid = int(re.search(r"pid=(\d+)", rest)[1])
                if pid in names and pid not in stops:
                    exits.append((t, pid))
            elif event == "sched_waking":
                pid = int(re.search(r"pid=(\d+)", rest)[1])
                if pid in names and pid not in starts:
                    wakes.append(t)
                if "comm=snap" in rest:
                    snap_wakes.append(t)
            elif event == "tick":
                ticks.append(t)
            elif event == "tracing_mark_write" and "begin" in rest:
                begins.append(t)
            elif event == "tracing_mark_write" and " end" in rest:
                ends.append(t)
            elif event == "sched_switch":
                switches.append((t, int(re.search(r"prev_pid=(\d+)", rest)[1])))
            elif event == "sched_stat_runtime":
                charges.append((t, int(re.search(r"pid=(\d+)", rest)[1]), int(re.search(r"runtime=(\d+)", rest)[1])))
        seconds = self.meta["seconds"]
        # Hogs end with the load; the others a little before.
        spinning = [t for t, pid in exits if kind[pid] in ("hog", "yield")]
        end = min(spinning) if spinning else max(t for t, _ in exits)
        guess = end - seconds
        self.start = min([t for t in wakes if guess - 0.006 < t < guess + 0.003] or [guess])
        self.phase = round((self.start * 1e6 - (ticks[5] * 1e6) % 4000) % 4000)
        self.snap_first = round((min(t for t in snap_wakes if t > self.start) - self.start) * 1e6)
        runs = sorted(round((e - b) * 1e6) for b, e in zip(begins, ends))[1:-1]
        self.snap_run = runs[len(runs) // 2]
        stop = self.start + seconds
        count, run = {}, {}
        for t, prev in switches:
            if self.start <= t <= stop:
                count[prev] = count.get(prev, 0) + 1
        # As the kernel charged it: from a reading of its clock to the next, which are not the switches.
        for t, pid, ns in charges:
            ns = min(ns, round((t - self.start) * 1e9)) - max(0, round((t - stop) * 1e9))
            if ns > 0:
                run[pid] = run.get(pid, 0) + ns
        self.tasks = [(names[p], run.get(p, 0), count.get(p, 0)) for p in names]
