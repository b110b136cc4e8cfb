import re,sys,os
L=sys.argv[1]+'/host/daemon/src/live/'
rd=lambda p:open(L+p).read()
def wr(p,t): open(L+p,'w').write(t)
# (c) round -> create_claims + server_pods
t=rd('round.rs')
i=t.index('/// A NodeClaim that was created.\npub struct Created')
j=t.index('/// Asks which of the pods that wait have no node, as the server has it now')
create=t[i:j]; pods=t[j:]
lo=pods.index('/// Leaves out the claims that are for one of these pods; says how many those are.')
hi=pods.index('async fn pods_of(')
leave=pods[lo:hi]; pods=pods[:lo]+pods[hi:]
t=t[:i].rstrip()+'\n'
for l in ['use std::collections::BTreeSet;\n\n','use futures::StreamExt as _;\n','use k8s_openapi::api::core::v1::Pod;\n','use kube::api::{Api, ListParams, ObjectMeta, PostParams};\n','use kube::core::Request;\n','use kube::{Client, Resource as _};\n','use longshore_api::crd::NodeClaim;\n','use longshore_cloud::Launch;\n','use super::connection::is_not_leading;\n','use super::context::Context;\n','use super::kinds::Kind;\n','use super::launch_groups;\n','use super::launch_request::launch_of;\n','use super::refusals::{self, Refused};\n','use super::step_error::StepError;\n']:
    assert l in t, l
    t=t.replace(l,'',1)
t=t.replace('use super::claims::{NewNodeClaim, NominationPlan, PLANNED_PODS, ROUND};','use super::claims::NominationPlan;')
t=t.replace('//! One round: plans a snapshot and creates the NodeClaims of the plan.','//! One round: plans a snapshot.')
wr('round.rs',t)
wr('create_claims.rs','''//! Creates the NodeClaims of a plan, several at a time. Each is known by its name, so that a create
//! without an answer is looked up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Resource as _;
use kube::api::PostParams;
use kube::core::Request;
use longshore_api::crd::NodeClaim;
use longshore_cloud::Launch;

use super::claims::{NewNodeClaim, ROUND};
use super::connection::is_not_leading;
use super::context::Context;
use super::kinds::Kind;
use super::launch_groups;
use super::launch_request::launch_of;
use super::mutants::mutant;
use super::planned_pods::PLANNED_PODS;
use super::refusals::{self, Refused};
use super::step_error::StepError;

'''+leave+create.rstrip()+'\n')
wr('server_pods.rs','''//! Asks the API server itself about pods, where a second purchase for a pod must not come from a
//! watch that is behind.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams, ObjectMeta};

'''+pods.rstrip()+'\n')
# (b) planned pods
t=rd('claims.rs')
a=t.index('/// Annotation with the pods that a NodeClaim was made for'); b=t.index('/// Most bytes of that annotation')
const=t[a:b]
t=t[:a]+'/// Most bytes of the annotation [`PLANNED_PODS`]; the API server allows 256 KiB of annotations.\n'+t[b:].split('\n',1)[1]
a=t.index('/// A pod that a node is meant for.'); b=t.index('/// The group of a spread pod: its shape.')
typ=t[a:b]; t=t[:a]+t[b:]
t=t.replace('use super::overlays;\n','use super::overlays;\nuse super::planned_pods::PLANNED_PODS;\n',1)
wr('claims.rs',t)
wr('planned_pods.rs','''//! The pods that a NodeClaim was made for, in an annotation of it.

use longshore_api::crd::NodeClaim;

'''+const.rstrip()+'\n\n'+typ.rstrip()+'\n')
# users of PLANNED_PODS, planned_pods, Planned
names=['PLANNED_PODS','planned_pods','Planned']
for d,_,fs in os.walk(L):
    for f in fs:
        p=os.path.join(d,f)
        if not f.endswith('.rs') or p.endswith(('live/claims.rs','live/planned_pods.rs','live/create_claims.rs')): continue
        x=open(p).read(); o=x
        def sub(m):
            pre,inner=m.group(1),m.group(2)
            items=[s.strip() for s in inner.strip('{}').split(',') if s.strip()]
            mv=[s for s in items if s in names]; st=[s for s in items if s not in names]
            if not mv: return m.group(0)
            out=''
            def tail(l): return l[0] if len(l)==1 else '{'+', '.join(l)+'}'
            if st: out+='use '+pre+'claims::'+tail(st)+';\n'
            return out+'use '+pre+'planned_pods::'+tail(mv)+';'
        x=re.sub(r'use ((?:super::|crate::live::)+)claims::(\{[^{}]*\}|\w+);',sub,x)
        if x!=o: open(p,'w').write(x)
# (d) cloud
t=rd('environment.rs')
a=t.index('/// Where nodes come from.\npub struct Cloud'); b=t.index('/// Everything that differs between a cluster and a simulation')
cloud=t[a:b]; t=t[:a]+t[b:]
wr('environment.rs',t)
wr('cloud.rs','''//! A provider as the loop takes it: what it offers, and what it does by itself.

use std::sync::Arc;

use longshore_cloud::CloudProvider;
use longshore_core::model::Symbols;
use tokio::task::JoinSet;

use super::context::Context;
use super::offers::Offers;

'''+cloud.rstrip()+'\n')
for p in ['aws.rs','run.rs']:
    x=rd(p)
    x=x.replace('use super::environment::{Cloud, Tasks};','use super::cloud::{Cloud, Tasks};').replace('use super::environment::{Cloud, Daemon,','use super::cloud::Cloud;\nuse super::environment::{Daemon,')
    wr(p,x)
x=rd('environment.rs')
x=x.replace('use super::clock::Clock;','use super::clock::Clock;\nuse super::cloud::Tasks;',1)
# (a) repair mode
m=rd('repair/mode.rs')
a=m.index('/// How nodes that stay unhealthy are repaired, as an operator'); b=m.index('/// How nodes that stay unhealthy are repaired, with what')
enum=m[a:b]; m=m[:a]+m[b:]
m=m.replace('use super::policies::{PolicyError, RepairPolicies};','use super::policies::{PolicyError, RepairPolicies};\nuse crate::live::settings::RepairMode;')
wr('repair/mode.rs',m)
s=rd('settings.rs').replace('use crate::live::repair::mode::RepairMode;\n','')
s=s.replace('/// What an operator set.\n',enum+'/// What an operator set.\n',1)
wr('settings.rs',s)
x=x.replace('pub use super::repair::{RepairMode, Repairs};','pub use super::repair::Repairs;',1).replace('use super::shared_list','pub use super::settings::RepairMode;\nuse super::shared_list',1)
wr('environment.rs',x)
r=rd('repair.rs').replace('pub use mode::{RepairMode, Repairs};','pub use mode::Repairs;'); wr('repair.rs',r)
x=rd('aws.rs').replace('use super::repair::RepairMode;\n','').replace('use super::settings::Settings;','use super::settings::{RepairMode, Settings};'); wr('aws.rs',x)
# controller users of round::
for p in ['controller.rs','controller/apply_plan.rs']:
    x=rd(p)
    wr(p,x)
x=open(L[:-1]+'.rs').read()
x=x.replace('pub mod clock;\n','pub mod clock;\nmod cloud;\n').replace('mod controller;\n','mod controller;\nmod create_claims;\n').replace('mod plan_index;\n','mod plan_index;\nmod planned_pods;\n').replace('mod serve;\n','mod serve;\nmod server_pods;\n')
open(L[:-1]+'.rs','w').write(x)
def edit(p, *pairs):
    x=rd(p)
    for a,b in pairs:
        assert a in x, (p,a)
        x=x.replace(a,b)
    wr(p,x)
edit('controller.rs',('use super::round::{self, Created, Round, RoundConfig};','use super::create_claims::Created;\nuse super::round::{self, Round, RoundConfig};'))
edit('disruption/step.rs',('round::write_all','create_claims::write_all'))
edit('static_pools.rs',('round::write_all','create_claims::write_all'))
edit('controller/tests.rs',('round::unbound','server_pods::unbound'))
edit('controller/apply_plan.rs',('use crate::live::round::{self, Asked, Created, Round};','use crate::live::create_claims::{self, Created};\nuse crate::live::round::Round;\nuse crate::live::server_pods::{self, Asked};'),
 ('round::unbound','server_pods::unbound'),('round::existing','server_pods::existing'),('round::leave_out','create_claims::leave_out'),('round::write_all','create_claims::write_all'))
edit('rollout/registration_queue.rs',('crate::live::claims::Planned','crate::live::planned_pods::Planned'))
edit('disruption/step.rs',('use crate::live::round;','use crate::live::create_claims;'))
edit('static_pools.rs',('use super::round;','use super::create_claims;'))
