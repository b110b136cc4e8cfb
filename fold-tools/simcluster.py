#!/usr/bin/env python3
"""simcluster.py ROOT: the simulated cluster becomes a crate of its own below the loop."""
import os,re,subprocess,sys
ROOT=sys.argv[1]; H=ROOT+'/host/'
def rd(p): return open(p).read()
def wr(p,t):
    os.makedirs(os.path.dirname(p),exist_ok=True); open(p,'w').write(t)
LOW='actors clock cloud event_queue faults fields keyed_rng log object server world'.split()
RX='|'.join(LOW)
def git(*a): subprocess.run(['git',*a],cwd=ROOT,check=True)
os.makedirs(H+'simcluster/src',exist_ok=True); os.makedirs(H+'simcluster/tests',exist_ok=True)
for m in LOW:
    for p in (m+'.rs',m):
        if os.path.exists(H+'sim/src/'+p): git('mv','host/sim/src/'+p,'host/simcluster/src/'+p)
for t in ('contract','actors'): git('mv','host/sim/tests/'+t,'host/simcluster/tests/'+t)
wr(H+'simcluster/src/lib.rs','''//! A cluster in virtual time, decided by one seed: the API server, its controllers, kubelets,
//! kube-scheduler, a cloud, and their faults.
//!
//! Absent on purpose: the daemon. Its tests and the scenarios of `longshore-sim` run against this.

'''+''.join(f'pub mod {m};\n' for m in LOW))
t=rd(H+'sim/src/lib.rs')
for m in LOW: t=t.replace(f'pub mod {m};\n','')
t=t.replace('''//! A cluster in virtual time: production in one process, decided by one seed.
//!
//! The daemon's code runs against it unchanged; only its environment is replaced. Absent on
//! purpose: anything that the daemon decides.
''','''//! Production in one process, decided by one seed: scenarios, faults and judges around the daemon.
//!
//! The daemon's code runs against a simulated cluster (`longshore-simcluster`) unchanged; only its
//! environment is replaced. Absent on purpose: anything that the daemon decides.
''')
wr(H+'sim/src/lib.rs',t)
def split_top(s):
    res=[];d=0;cur=''
    for c in s:
        if c=='{':d+=1
        if c=='}':d-=1
        if c==',' and d==0: res.append(cur);cur=''
        else: cur+=c
    if cur.strip(): res.append(cur)
    return [r.strip() for r in res if r.strip()]
def conv(t,crate_names):
    for c in crate_names:
        # use crate::{a::X, b::Y}
        def grp(m):
            parts=split_top(m.group(3))
            low=[p for p in parts if re.split(r'\W',p)[0] in LOW]
            high=[p for p in parts if p not in low]
            if not low: return m.group(0)
            out=[]
            f=lambda l:l[0] if len(l)==1 else '{'+', '.join(l)+'}'
            if high: out.append(f'{m.group(1)}use {c}::{f(high)};')
            out.append(f'{m.group(1)}use longshore_simcluster::{f(low)};')
            return '\n'.join(out)
        t=re.sub(r'((?:pub(?:\([^)]*\))? )?)use (%s)::\{((?:[^{};]|\{[^{}]*\})*)\};'%c,grp,t)
        t=re.sub(r'(?<![\w:])%s::(%s)\b'%(c,RX),r'longshore_simcluster::\1',t)
    return t
for base,names in [('sim/src',['crate','longshore_sim']),('sim/tests',['longshore_sim']),('sim/examples',['longshore_sim']),('simcluster/tests',['longshore_sim'])]:
    for d,_,fs in os.walk(H+base):
        for f in fs:
            if not f.endswith('.rs'): continue
            p=os.path.join(d,f); o=rd(p)
            # `super::` that leads to the root of the crate
            depth=len(os.path.relpath(p,H+base).split('/'))-1
            t=conv(o,names)
            if base=='sim/src':
                rel=os.path.relpath(p,H+base)[:-3].split('/')
                n=len(rel)
                t=re.sub(r'(?<![\w:])'+'super::'*n+r'(%s)\b'%RX,r'longshore_simcluster::\1',t)
            if t!=o: wr(p,t)
for d,_,fs in os.walk(H+'simcluster/src'):
    for f in fs:
        p=os.path.join(d,f); o=rd(p)
        t=re.sub(r'\bpub\(crate\)','pub',o)
        if t!=o: wr(p,t)
# manifests
sim=rd(H+'sim/Cargo.toml')
a=sim.index('# Whether there is a real control plane'); b=sim.index('[[test]]\nname = "simulation"')
contract=sim[a:b]; sim=sim[:a]+sim[b:]
m=re.search(r'\[\[test\]\]\nname = "actors"\npath = "tests/actors/main.rs"\n+',sim); actors=m.group(0); sim=sim.replace(actors,'')
sim=sim.replace('longshore-kwok.workspace = true\n','longshore-kwok.workspace = true\nlongshore-simcluster.workspace = true\n')
wr(H+'sim/Cargo.toml',sim.rstrip()+'\n')
wr(H+'simcluster/Cargo.toml','''[package]
name = "longshore-simcluster"
description = "A cluster in virtual time: API server, controllers, kubelet, scheduler, cloud and faults, by seed"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true
# Tests that need no process of their own are one program: each links all that the crate uses.
autotests = false

[lints]
workspace = true

[dependencies]
async-trait.workspace = true
bytes = "1"
futures = { version = "0.3", default-features = false, features = ["std"] }
http = "1"
http-body = "1"
k8s-openapi.workspace = true
kube = { workspace = true, features = ["client"] }
longshore-api = { workspace = true, features = ["crd"] }
longshore-cloud.workspace = true
longshore-core.workspace = true
longshore-ec2.workspace = true
longshore-kwok.workspace = true
rustc-hash.workspace = true
serde_json.workspace = true
thiserror.workspace = true
tokio = { version = "1", default-features = false, features = ["rt", "sync", "time", "macros", "test-util"] }
tower-service = "0.3"

[dev-dependencies]
anyhow = { workspace = true }
expect-test = "1"
kube = { workspace = true, features = ["client", "rustls-tls", "ring"] }
libtest-mimic = { workspace = true }
longshore-xtask = { path = "../xtask" }

'''+contract+actors)
c=rd(ROOT+'/Cargo.toml')
c=c.replace('"host/sim", ','"host/sim", "host/simcluster", ').replace('longshore-policy = { path = "host/policy" }\n','longshore-policy = { path = "host/policy" }\nlongshore-simcluster = { path = "host/simcluster" }\n').replace('[profile.dev.package.longshore-userdata]','[profile.dev.package.longshore-simcluster]\ncodegen-units = 16\n[profile.dev.package.longshore-userdata]')
wr(ROOT+'/Cargo.toml',c)
p=H+'xtask/src/module_cycles.rs'; t=rd(p)
t=t.replace('const LARGEST: [(&str, usize); 14]','const LARGEST: [(&str, usize); 15]').replace('        ("sim", 4),\n','        ("sim", 4),\n        ("simcluster", 4),\n'); wr(p,t)
p=H+'xtask/src/repo_rules.rs'; t=rd(p)
t=t.replace('''                "longshore-kwok",
                "longshore-policy",
            ],
        ),
        (
            "fuzz",''','''                "longshore-kwok",
                "longshore-policy",
                "longshore-simcluster",
            ],
        ),
        (
            "simcluster",
            &[
                "longshore-api",
                "longshore-cloud",
                "longshore-core",
                "longshore-ec2",
                "longshore-kwok",
            ],
        ),
        (
            "fuzz",'''); wr(p,t)
p=H+'xtask/src/test/programs.rs'; t=rd(p)
t=t.replace('["api", "daemon", "ec2", "sim", "xtask"]','["api", "daemon", "ec2", "sim", "simcluster", "xtask"]'); wr(p,t)
names=subprocess.run(['git','ls-files','*.md','*.rs','*.toml','*.tsv','*.sh','.ci'],cwd=ROOT,capture_output=True,text=True).stdout.split()
rx=re.compile(r'(?<![\w/])((?:host/)?)sim/(src/(?:%s)|tests/(?:contract|actors))\b'%RX)
for n in names:
    f=os.path.join(ROOT,n)
    if not os.path.isfile(f): continue
    try: o=rd(f)
    except UnicodeDecodeError: continue
    t=rx.sub(r'\1simcluster/\2',o)
    if t!=o: wr(f,t)
