#!/usr/bin/env python3
"""Module graph of a crate: graph.py SRC [room-map]. Crude: use-trees and paths crate::/super::/self::, outside tests."""
import os, re, sys, collections
src = sys.argv[1]
files = {}
for d, _, fs in os.walk(src):
    for f in fs:
        if not f.endswith('.rs'): continue
        p = os.path.relpath(os.path.join(d, f), src)
        if p in ('main.rs',): continue
        parts = p[:-3].split('/')
        if parts[-1] == 'mod': parts = parts[:-1]
        if parts == ['lib']: parts = []
        if 'tests' in parts or parts and parts[-1].endswith('_tests'): continue
        files[tuple(parts)] = os.path.join(d, f)
mods = set(files)
def strip_tests(text):
    # cut `#[cfg(test)] mod x { … }` blocks and `#[cfg(test)] mod x;`
    out = []; i = 0
    while True:
        m = re.compile(r'#\[cfg\((?:all\()?test').search(text, i)
        if not m: out.append(text[i:]); break
        out.append(text[i:m.start()])
        j = text.index(']', m.end())
        # next item: ends at ; or matching }
        k = j
        depth = 0
        while k < len(text):
            c = text[k]
            if c == '{': depth += 1
            elif c == '}':
                depth -= 1
                if depth == 0: k += 1; break
            elif c == ';' and depth == 0: k += 1; break
            k += 1
        i = k
    return ''.join(out)
def strip_comments(t):
    t = re.sub(r'//[^\n]*', '', t)
    t = re.sub(r'"(?:\\.|[^"\\])*"', '""', t)
    return t
def expand(tree):
    # expand use tree text -> list of paths
    tree = tree.strip()
    m = re.match(r'^((?:[\w]+\s*::\s*)*)\{(.*)\}$', tree, re.S)
    if m:
        pre = [x for x in re.split(r'\s*::\s*', m.group(1)) if x]
        res = []
        depth = 0; cur = ''
        for c in m.group(2):
            if c == '{': depth += 1
            if c == '}': depth -= 1
            if c == ',' and depth == 0:
                if cur.strip(): res += [pre + p for p in expand(cur)]
                cur = ''
            else: cur += c
        if cur.strip(): res += [pre + p for p in expand(cur)]
        return res
    tree = re.sub(r'\s+as\s+\w+', '', tree)
    return [[x for x in re.split(r'\s*::\s*', tree) if x]]
def resolve(mod, path, aliases):
    p = list(path)
    if not p: return None
    if p[0] == 'crate': cur = []; p = p[1:]
    elif p[0] == 'self': cur = list(mod); p = p[1:]
    elif p[0] == 'super':
        cur = list(mod)
        while p and p[0] == 'super': cur = cur[:-1]; p = p[1:]
    elif p[0] in aliases: 
        return resolve(mod, aliases[p[0]] + p[1:], {}) 
    elif tuple(list(mod)+[p[0]]) in mods: cur = list(mod)
    else: return None
    if tuple(cur) not in mods: return None
    while p and tuple(cur + [p[0]]) in mods: cur.append(p[0]); p = p[1:]
    return tuple(cur)
edges = collections.defaultdict(lambda: collections.defaultdict(set))
for mod, f in files.items():
    t = strip_comments(strip_tests(open(f).read()))
    aliases = {}
    for m in re.finditer(r'\buse\s+([^;]+);', t):
        for path in expand(m.group(1)):
            r = resolve(mod, path, {})
            if r is not None and r != mod: edges[mod][r].add('::'.join(path))
            if path and path[-1] not in ('*', 'self'): 
                aliases[path[-1]] = path
            elif path and path[-1] == 'self' and len(path) > 1: aliases[path[-2]] = path[:-1]
    body = re.sub(r'\buse\s+[^;]+;', '', t)
    for m in re.finditer(r'\b(?:crate|super|self|[a-z_][a-z_0-9]*)(?:\s*::\s*\w+)+', body):
        path = re.split(r'\s*::\s*', m.group(0))
        r = resolve(mod, path, aliases)
        if r is not None and r != mod: edges[mod][r].add('::'.join(path))
def sccs():
    idx = {}; low = {}; st = []; on = set(); res = []; n = [0]
    sys.setrecursionlimit(10000)
    def go(v):
        idx[v] = low[v] = n[0]; n[0] += 1; st.append(v); on.add(v)
        for w in edges[v]:
            if w not in idx: go(w); low[v] = min(low[v], low[w])
            elif w in on: low[v] = min(low[v], idx[w])
        if low[v] == idx[v]:
            c = []
            while True:
                w = st.pop(); on.discard(w); c.append(w)
                if w == v: break
            res.append(c)
    for v in sorted(mods):
        if v not in idx: go(v)
    return res
if __name__ == '__main__':
    cs = [c for c in sccs() if len(c) > 1]
    for c in sorted(cs, key=len, reverse=True):
        print(len(c), ' '.join('::'.join(x) for x in sorted(c))[:3000])
