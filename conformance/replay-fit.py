#!/usr/bin/env python3
"""How well `schedlab replay` explains recordings: one line each, as in docs/fidelity.md.

usage: replay-fit.py BINARY [OPTION...] -- TRACE...
"""
import json
import os
import subprocess
import sys

at = sys.argv.index("--")
binary, options, files = sys.argv[1], sys.argv[2:at], sys.argv[at + 1:]
print(f"{'recording':<22} {'run time':>9} {'worst':>7} {'misplaced':>9} {'switches':>15} {'delays, sum':>11} {'average':>8} {'ms, longest':>17}")
for file in files:
    done = subprocess.run([binary, "replay", file, "--json", *options], capture_output=True, text=True)
    name = os.path.basename(os.path.dirname(file))
    if done.returncode:
        print(f"{name:<22} {done.stderr.strip()}")
        continue
    v = json.loads(done.stdout)
    r, s = v["recorded"]["total"], v["simulated"][0]["sums"]["total"]
    change = lambda a, b: 100 * (b - a) / a if a else 0.0
    switches = lambda x: x["voluntary"] + x["involuntary"]
    mean = lambda x: x["delays"]["sum"] / max(x["delays"]["count"], 1)
    print(f"{name:<22} {change(r['runtime'], s['runtime']):+8.1f}% {v['simulated'][0]['worst_runtime_percent']:6.2f}%"
          f" {v['simulated'][0]['misplaced_percent']:8.1f}% {switches(r):6} {change(switches(r), switches(s)):+7.1f}%"
          f" {change(r['delays']['sum'], s['delays']['sum']):+10.1f}% {change(mean(r), mean(s)):+7.1f}%"
          f" {r['delays']['max'] / 1e6:8.2f} {s['delays']['max'] / 1e6:8.2f}")
