#!/usr/bin/env python3
"""Writes conformance/expected.tsv: run time and switches of every task, from the start of the load to its end."""
import os

from recordings import HERE, SIMULATED, Load

with open(os.path.join(HERE, "expected.tsv"), "w") as out:
    print("recording\ttask\trun_ns\tswitches", file=out)
    for name in SIMULATED:
        for task, run, switches in sorted(Load(name).tasks):
            print(name, task, run, switches, sep="\t", file=out)
