exec(open('/work/tools/presplit.py').read())
# (e) Cost of a cluster
t=rd('recent/cost.rs')
a=t.index('/// What the nodes of all NodePools cost at a moment.'); b=t.index('impl Cost {')
c=t.index('}\n\n',t.index('}\n',b)-0)
m=re.search(r'impl Cost \{.*?\n\}\n\n',t,re.S)
block=t[a:m.end()]
t=t[:a]+t[m.end():]
t=t.replace('use super::{DAY, HOUR};','use super::{DAY, HOUR};\nuse crate::live::state::cost::Cost;')
wr('recent/cost.rs',t)
wr('state/cost.rs','//! What the nodes of a cluster cost.\n\n'+block.rstrip().replace('    fn per_core','    /// USD per hour and requested core.\n    pub fn per_core')+'\n')
edit('recent.rs',('pub use cost::{Cost, SAMPLE_INTERVAL};','pub use cost::SAMPLE_INTERVAL;'))
edit('state/metrics_snapshot.rs',('use crate::live::recent::Cost;','use crate::live::state::cost::Cost;'))
edit('recent.rs',('use super::node_claim::rfc3339;','use super::node_claim::rfc3339;\nuse super::state::cost::Cost;'))
edit('state.rs',('mod class;\n','mod class;\npub mod cost;\n'))
# (f) disruption's own names

edit('environment.rs',('use super::cloud::Tasks;','pub use super::cloud::{Cloud, Tasks};'))
