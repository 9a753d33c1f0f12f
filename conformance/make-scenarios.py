#!/usr/bin/env python3
"""Writes conformance/scenarios/*.toml: the loads of the recordings, for the simulator.

The grammar of a load is that of the recorder's task generator: KIND:key=value,...  A recording says when its load began
within a tick and when its reader of sched/debug ran; nothing else is taken from it.
"""
import os
import re

from recordings import HERE, SIMULATED, Load

OUT = os.path.join(HERE, "scenarios")
os.makedirs(OUT, exist_ok=True)
for n in SIMULATED:
    load = Load(n)
    m = load.meta
    base=700000; feats=[]; hz=250
    for l in m['settings']:
        if l.startswith('base_slice_ns'): base=int(l.split(':')[1])
    groups=[]
    for st in m['setup'].split(';'):
        st=st.strip()
        if st.startswith('feat '): feats.append(st.split()[1])
        if st.startswith('cg '): _,p,w=st.split(); groups.append([p,int(w),None])
        mm=re.match(r'echo "(\d+) (\d+)" >/sys/fs/cgroup/(\S+)/cpu.max',st)
        if mm:
            for g in groups:
                if g[0]==mm[3]: g[2]=(int(mm[1]),int(mm[2]))
    ms=int(m['seconds']*1000)
    ph, s0, srun = load.phase, load.snap_first, load.snap_run
    at=lambda x: f'{int(x)*1000+ph}us'
    L=['# The load of the recording of the same name:','# wl -d %g %s'%(m['seconds'],' '.join(m['tasks'])),
       f'name = "{n}"',f'# The tasks start {ph} us behind a tick, as in the recording.',f'duration = "{at(ms)}"','machine = { cpus = 1, hz = 250 }','costs = "icount-probed"','','[kernel]','profile = "6.12-stable"','preempt = "voluntary"',f'base_slice = "{base}ns"']
    if feats: L.append('features = ["%s"]'%'", "'.join(feats))
    for p,w,mx in groups:
        L+=['','[[group]]',f'name = "{p.rsplit("/",1)[-1]}"']
        if '/' in p: L.append(f'parent = "{p.rsplit("/",1)[0]}"')
        L.append(f'cpu.weight = {w}')
        if mx: L+= [f'quota = "{mx[0]}us"',f'period = "{mx[1]}us"']
    for t in m['tasks']:
        kind,rest=t.split(':'); kv=dict(x.split('=') for x in rest.split(','))
        def head(name,kv=kv):
            h=['','[[task]]',f'name = "{name}"']
            if 'nice' in kv: h.append(f'nice = {kv["nice"]}')
            if 'policy' in kv: h.append(f'policy = "{kv["policy"]}"')
            if 'prio' in kv: h.append(f'rt_priority = {kv["prio"]}')
            if 'slice' in kv: h.append(f'slice = "{kv["slice"]}ns"')
            if 'cg' in kv: h.append(f'group = "{kv["cg"].rsplit("/",1)[-1]}"')
            h.append(f'start = "{at(kv.get("start",0))}"')
            return h
        us=lambda k: kv.get(k,'0')+'us'
        if kind=='hog':
            end=int(kv['stop']) if 'stop' in kv else ms
            if 'lnice' in kv:
                when,to=kv['lnice'].split('/')
                prog=f'["run_until {at(when)}", "nice {to}", "run_until {at(end)}"]'
            else: prog=f'["run_until {at(end)}"]'
            L+=head(kv['name'])+[f'program = {prog}']
        elif kind=='periodic':
            L+=head(kv['name'])+['program = [{ loop = "forever", steps = ["beat period %s", "run %s"] }]'%(us('period'),us('run'))]
        elif kind=='yield':
            L+=head(kv['name'])+['program = [{ loop = "forever", steps = ["run %s", "yield"] }]'%us('run')]
        elif kind=='pingpong':
            L+=head(kv['name'])+['program = [{ loop = "forever", steps = ["send out 1", "recv in 1", "run %s"] }]'%us('run')]
            L+=head(kv['name']+'.b')+['program = [{ loop = "forever", steps = ["recv out 1", "run %s", "send in 1"] }]'%us('run')]
        elif kind=='fork':
            b=int(kv['burst'])
            L+=head(kv['name'])+['program = [{ loop = "forever", steps = [{ loop = %d, steps = ["fork child"] }, "wait_children", "sleep %s"] }]'%(b,us('gap'))]
            L+=['','[[task]]','name = "child"','count = 0',f'program = ["run {us("run")}"]']
    L+=['','# The reader of sched/debug, which every recording had.','[[task]]','name = "snap"','policy = "fifo"','rt_priority = 90',f'start = "{s0+ph}us"','program = [{ loop = "forever", steps = ["run %dus", "timer beat 250ms absolute"] }]'%srun]
    L+=['','# Kernel threads that woke in every recording; the times are means over all of them.']
    for nm,per,first in (('kcompactd0',512000,114000),('kworker/0:1',437000,211000),('kworker/u4:1',612000,115000)):
        L+=['','[[task]]',f'name = "{nm}"',f'start = "{first+ph}us"',f'program = [{{ loop = "forever", steps = ["run 10us kernel", "timer beat {per}us absolute"] }}]']
    open(os.path.join(OUT, n + '.toml'), 'w').write('\n'.join(L)+'\n')
