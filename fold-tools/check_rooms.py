import sys, collections
sys.argv = ['x', '/work/main/host/daemon/src']
exec(open('/work/tools/graph.py').read().split("if __name__")[0])
exec(open('/work/tools/roommap.py').read())
def room(m):
    # longest prefix
    for k in range(len(m),1,-1):
        key='/'.join(m[1:k])
        if key in R: return R[key]
    return None
cnt=collections.Counter(); ex=collections.defaultdict(set)
for a in edges:
    if len(a)<2 or a[0]!='live': continue
    for b in edges[a]:
        if len(b)<2 or b[0]!='live': continue
        ra,rb=room(a),room(b)
        if ra is None or rb is None: print('no room', a, b); continue
        if ra!=rb:
            cnt[(ra,rb)]+=1; ex[(ra,rb)].add('::'.join(a[1:])+'->'+'::'.join(b[1:]))
for (ra,rb),n in sorted(cnt.items()):
    bad = ORDER.index(rb)>ORDER.index(ra)
    if bad: print('BAD',ra,'->',rb,n,sorted(ex[(ra,rb)]))
files_by=collections.Counter(room(m) for m in mods if len(m)>1 and m[0]=='live')
print(files_by)
