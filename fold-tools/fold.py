#!/usr/bin/env python3
"""fold.py ROOT: moves the modules of daemon/src/live into rooms and rewrites paths."""
import os, re, subprocess, sys
ROOT=sys.argv[1]; SRC=ROOT+'/host/daemon/src'
exec(open('/work/tools/foldmap.py').read())   # MOVES: {'old/mod': 'new/mod'} relative to live, without .rs; ROOMS docs
# ---- module tables
def module_files(src):
    out={}
    for d,_,fs in os.walk(src):
        for f in fs:
            if f.endswith('.rs'):
                p=os.path.relpath(os.path.join(d,f),src)
                parts=p[:-3].split('/')
                if parts==['lib']: parts=[]
                if parts==['main']: continue
                out[tuple(parts)]=p
    return out
old=module_files(SRC)
mods=set(old)
mv={}
for a,b in MOVES.items():
    mv[('live',)+tuple(a.split('/'))]=('live',)+tuple(b.split('/')) if not b.startswith('^') else tuple(b[1:].split('/'))
def new_mod(m):
    for k in range(len(m),0,-1):
        if m[:k] in mv: return mv[m[:k]]+m[k:]
    return m
inline=set()  # inline `mod x {` inside files: path tuples
def split_top(s):
    res=[];depth=0;cur=''
    for c in s:
        if c=='{':depth+=1
        if c=='}':depth-=1
        if c==',' and depth==0:
            res.append(cur);cur=''
        else: cur+=c
    if cur.strip(): res.append(cur)
    return [r.strip() for r in res if r.strip()]
def expand(tree):
    tree=tree.strip()
    m=re.match(r'^((?:\w+\s*::\s*)*)\{(.*)\}$',tree,re.S)
    if m:
        pre=[x for x in re.split(r'\s*::\s*',m.group(1)) if x]
        res=[]
        for part in split_top(m.group(2)):
            for p,al in expand(part): res.append((pre+p,al))
        return res
    al=None
    m=re.match(r'^(.*?)\s+as\s+(\w+)$',tree,re.S)
    if m: tree,al=m.group(1),m.group(2)
    return [([x for x in re.split(r'\s*::\s*',tree) if x],al)]
def absolute(mod,path):
    """(module, rest) of a path that begins with crate, super or self."""
    p=list(path)
    if p[0]=='crate': cur=();p=p[1:]
    elif p[0]=='self': cur=mod;p=p[1:]
    elif p[0]=='super':
        cur=mod
        while p and p[0]=='super': cur=cur[:-1];p=p[1:]
    else: return None
    while p and cur+(p[0],) in mods: cur=cur+(p[0],);p=p[1:]
    return cur,p
def render(own_new,target,rest,crate='crate'):
    """the new path as text segments"""
    if crate=='crate' and own_new is not None:
        # the same room and direct neighbours keep `super`, children keep `self`
        if target[:-1]==own_new[:-1] and len(target)==len(own_new) and target!=own_new:
            return ['super',target[-1]]+rest
        if target==own_new[:-1]: return ['super']+rest
        if len(own_new)>2 and target[:len(own_new)-1]==own_new[:-1] and target[:len(own_new)]!=own_new: return ['super']+list(target[len(own_new)-1:])+rest
        if target[:len(own_new)]==own_new: return ['self']+list(target[len(own_new):])+rest
    return [crate]+list(target)+rest
def changed(mod,path):
    a=absolute(mod,path)
    if a is None: return None
    target,rest=a
    return target,rest
def fix_file(mod,text,crate_names):
    own_new=new_mod(mod)
    moved = own_new!=mod
    # inline test modules: `super::` inside them is one level deeper. Track by brace scanning.
    out=[];i=0
    # find spans of inline modules
    spans=[]
    for m in re.finditer(r'\bmod\s+(\w+)\s*\{',text):
        d=0;k=m.end()-1
        while k<len(text):
            if text[k]=='{':d+=1
            elif text[k]=='}':
                d-=1
                if d==0:break
            k+=1
        spans.append((m.end(),k,m.group(1)))
    def context(pos):
        names=[n for a,b,n in spans if a<=pos<b]
        return tuple(names)
    def conv(path,pos,in_use):
        extra=context(pos)
        cm=mod+extra
        p=list(path)
        if p[0] in crate_names:
            r=absolute((),['crate']+p[1:])
            if r is None or not r[0]: return None
            t,rest=r
            nt=new_mod(t)
            if nt==t: return None
            return [p[0]]+list(nt)+rest
        if p[0] not in('crate','super','self'): return None
        # extra levels are not in `mods`; strip supers
        cur=list(cm);q=p
        if q[0]=='crate': cur=[];q=q[1:]
        elif q[0]=='self': q=q[1:]
        else:
            while q and q[0]=='super': cur=cur[:-1];q=q[1:]
        if len(cur)>len(mod) : return None      # stays within the file
        cur=tuple(cur)
        while q and cur+(q[0],) in mods: cur=cur+(q[0],);q=q[1:]
        nt=new_mod(cur)
        if cur==mod or (cur[:len(mod)]==mod and nt[:len(own_new)]==own_new): return None   # self or own child, moved along
        if not moved and nt==cur: return None
        if not extra: new=render(own_new,nt,list(q))
        else: new=['crate']+list(nt)+list(q)
        if new==p: return None
        return new
    # 1. use statements
    def use_sub(m):
        vis,tree=m.group(1) or '',m.group(2)
        ex=expand(tree)
        conved=[(conv(p,m.start(),True),p,al) for p,al in ex]
        if all(c is None for c,_,_ in conved): return m.group(0)
        lines={}
        order=[]
        for c,p,al in conved:
            q=c or p
            if q and q[-1]=='self': q=q[:-1]
            head,last='::'.join(q[:-1]),q[-1]+(f' as {al}' if al else '')
            if head not in lines: lines[head]=[];order.append(head)
            lines[head].append(last)
        res=[]
        for h in order:
            l=lines[h]
            res.append(f'{vis}use {h}::{l[0]};' if len(l)==1 else f'{vis}use {h}::{{{", ".join(l)}}};')
        return '\n'.join(res)
    text2=re.sub(r'((?:pub(?:\([^)]*\))?\s+)?)\buse\s+([^;"]+?);',use_sub,text)
    # 2. inline paths and doc links (spans are recomputed on the new text)
    text=text2;spans.clear()
    for m in re.finditer(r'\bmod\s+(\w+)\s*\{',text):
        d=0;k=m.end()-1
        while k<len(text):
            if text[k]=='{':d+=1
            elif text[k]=='}':
                d-=1
                if d==0:break
            k+=1
        spans.append((m.end(),k,m.group(1)))
    def inl(m):
        # skip within use lines (already done)
        ls=text.rfind('\n',0,m.start())+1
        if re.match(r'\s*(pub(\([^)]*\))?\s+)?use\s',text[ls:m.start()+1]): return m.group(0)
        path=re.split(r'\s*::\s*',m.group(0))
        c=conv(path,m.start(),False)
        return '::'.join(c) if c else m.group(0)
    names='|'.join(['crate','super','self']+crate_names)
    text=re.sub(r'(?<![\w:])(?:%s)(?:::\w+)+'%names,inl,text)
    # 3. visibility
    if moved:
        def vis(m):
            if context(m.start()): return m.group(0)
            old_parent=mod[:-1]; new_parent=own_new[:-1]
            np=new_mod(old_parent)
            if np==new_parent: return m.group(0)
            common=old_parent
            return 'pub(in crate::%s)'%'::'.join(np) if new_parent[:len(np)]==np else 'pub(crate)'
        text=re.sub(r'\bpub\(super\)',vis,text)
    return text
crate_dirs={'daemon':[], 'sim':['longshore_daemon'],'fuzz':['longshore_daemon'],'xtask':['longshore_daemon'],'aws':['longshore_daemon']}
new_text={}
for m,p in old.items():
    t=open(os.path.join(SRC,p)).read()
    new_text[m]=fix_file(m,t,[])
# mod declarations of moved modules: taken out of the old parent, put into the new
decl={}
for a,b in mv.items():
    parent=a[:-1]
    t=new_text[parent]
    r=re.compile(r'((?:^[ \t]*(?:#\[[^\]]*\]|///[^\n]*)\n)*)^((?:pub(?:\([^)]*\))?\s+)?)mod %s;\n'%re.escape(a[-1]),re.M)
    mm=r.search(t)
    if not mm: print('no declaration of',a); continue
    new_text[parent]=t[:mm.start()]+t[mm.end():]
    v=mm.group(2).strip()
    if v in('','pub(super)'): v='pub(in crate::live)' if b[0]=='live' else 'pub(crate)'
    if v=='pub(in crate::live)' and len(b)==2: v=''
    decl.setdefault(b[:-1],[]).append((b[-1],mm.group(1),v))
# write
for m,p in old.items():
    n=new_mod(m)
    np='/'.join(n)+'.rs' if n else 'lib.rs'
    if np!=p:
        os.makedirs(os.path.dirname(os.path.join(SRC,np)),exist_ok=True)
        subprocess.run(['git','mv',p,np],cwd=SRC,check=True)
    deeper=len(n)-len(m)
    if deeper:
        def rel(mm):
            p=mm.group(2)
            return mm.group(1)+('../'*deeper+p if deeper>0 else p[3*-deeper:])
        new_text[m]=re.sub(r'((?:include_bytes!|include_str!|expect_file!)[\[(]\s*"|#\[path = ")((?:\.\./)+[^"]*)',rel,new_text[m])
    open(os.path.join(SRC,np),'w').write(new_text[m])
for parent,items in sorted(decl.items()):
    f=os.path.join(SRC,'/'.join(parent)+'.rs') if parent else SRC+'/lib.rs'
    items.sort()
    lines=''.join(f'{attr}{v+" " if v else ""}mod {name};\n' for name,attr,v in items)
    if os.path.exists(f):
        t=open(f).read()
        doc=re.match(r'((?://![^\n]*\n)*)',t).group(1)
        open(f,'w').write(doc+'\n'+lines+t[len(doc):])
    else:
        open(f,'w').write(ROOMS.get('/'.join(parent[1:]),'//! TODO\n')+'\n'+lines)
# live.rs declares rooms
t=open(SRC+'/live.rs').read()
rooms=''.join(f'{ROOM_VIS.get(r,"")}mod {r};\n' for r in TOP)
i=re.search(r'^(#\[cfg\(test\)\]\n)?(pub(\([^)]*\))? )?(mod|use) ',t,re.M).start()
t=t[:i]+rooms+t[i:]
open(SRC+'/live.rs','w').write(t)
# other crates and tests of the daemon
for base in ['host/sim','host/fuzz','host/xtask','host/daemon/tests','host/daemon/benches','host/daemon/src/main.rs']:
    b=os.path.join(ROOT,base)
    fl=[b] if b.endswith('.rs') else [os.path.join(d,f) for d,_,fs in os.walk(b) for f in fs if f.endswith('.rs')]
    for f in fl:
        if not os.path.exists(f): continue
        t=open(f).read()
        n=fix_file(('#',),t,['longshore_daemon']) if 'longshore_daemon' in t else t
        if n!=t: open(f,'w').write(n)
# texts that name files
pairs=[]
for a,b in mv.items():
    pairs.append(('/'.join(a),'/'.join(b)))
pairs.sort(key=lambda x:-len(x[0]))
names=subprocess.run(['git','ls-files','*.md','*.rs','*.toml','*.tsv','*.sh','.ci','*.py'],cwd=ROOT,capture_output=True,text=True).stdout.split()
for n in names:
    f=os.path.join(ROOT,n)
    if not os.path.isfile(f): continue
    try: t=open(f).read()
    except UnicodeDecodeError: continue
    o=t
    if 'live/' in t:
        table=dict(pairs)
        rx=re.compile(r'(?<![\w/])((?:host/)?daemon/src/|src/)?(%s)(?!\w)'%'|'.join(re.escape(a) for a,_ in pairs))
        t=rx.sub(lambda m:(m.group(1) or '')+table[m.group(2)] if (m.group(1) or n.endswith(('.md','Cargo.toml'))) else m.group(0),t)
    if t!=o: open(f,'w').write(t)
