//! What is bought in vain: pods that kube-scheduler refuses for a reason that nobody foresees, and a
//! NodePool whose nodes never join. Ordinary pods beside them get their nodes all the same, and what
//! is bought for the others is bounded ([`judges`](crate::harness::judges)).

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use longshore_core::model::{Catalogue, Symbols};

use super::disrupt;
use super::event::ScenarioEvent;
use super::rng::Rng;
use super::scenario::{GeneratedScenario, HOUR};
use crate::harness::judges::vain::BROKEN;
use longshore_simcluster::actors::scheduler::REFUSED;

/// So that what is bought in vain does not follow from what else a seed says.
const VAIN: u64 = 0x7661_696e;

/// A NodePool for pods that are refused and no others: no other pod takes the room of its nodes.
const OWN: &str = "own";

/// The scenario of a seed: one of disruption, and what is bought in vain beside it.
pub(super) fn scenario(
    seed: u64,
    size: u32,
    types: Arc<(Catalogue, Symbols)>,
) -> GeneratedScenario {
    let mut scenario = disrupt::scenario(seed, size, types);
    let mut rng = Rng::new(seed ^ VAIN);
    scenario.base += &pool(BROKEN, "");
    let after = rng.one_of(&["0s", "30s", "2m"]);
    scenario.base += &pool(
        OWN,
        &format!("\n  disruption: {{consolidateAfter: {after}, budgets: [{{nodes: '100%'}}]}}"),
    );
    let faults = &mut scenario.world.cloud.faults;
    faults.never_register_pools.push(BROKEN.to_owned());
    for number in 0..rng.between(1, 3) {
        workload(&mut scenario, &mut rng, &format!("refused-{number}"), true);
    }
    for number in 0..rng.between(0, 2) {
        workload(&mut scenario, &mut rng, &format!("stuck-{number}"), false);
    }
    scenario.acts.retain(|(at, _)| *at < HOUR);
    scenario.acts.sort_by_key(|(at, _)| *at);
    scenario
}

/// A NodePool that takes its own pods only.
fn pool(name: &str, spec: &str) -> String {
    format!(
        "---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:{spec}
  template:
    metadata: {{labels: {{only: {name}}}}}
    spec:
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
      taints: [{{key: only, value: {name}, effect: NoSchedule}}]
      requirements:
      - {{key: kubernetes.io/os, operator: In, values: [linux]}}
"
    )
}

/// Pods that kube-scheduler refuses, or that only the NodePool takes whose nodes never join. They
/// come, get more and fewer, and go before the hour is over.
fn workload(scenario: &mut GeneratedScenario, rng: &mut Rng, name: &str, is_refused: bool) {
    let (replicas, cpu) = (rng.between(1, 3), rng.between(1, 4));
    let mut pod = String::new();
    let mut annotations = String::new();
    let only = match is_refused {
        true => rng.hits(0.6).then_some(OWN),
        false => Some(BROKEN),
    };
    if is_refused {
        let _ = write!(annotations, ", annotations: {{{REFUSED}: 'true'}}");
    }
    if let Some(only) = only {
        let _ = write!(
            pod,
            "\n      nodeSelector: {{only: {only}}}\n      tolerations: [{{key: only, operator: Exists}}]"
        );
    }
    let manifest = format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}{annotations}}}
    spec:
      containers: [{{name: c, image: 'x:1', resources: {{requests: {{cpu: '{cpu}', memory: 1Gi}}}}}}]{pod}
"
    );
    let minute = |minutes: u64| Duration::from_secs(60 * minutes);
    let begins = Duration::from_secs(5) + rng.time(minute(8));
    let mut act = |at, act| scenario.acts.push((at, act));
    act(begins, ScenarioEvent::Apply(manifest));
    for _ in 0..rng.between(0, 2) {
        let to = rng.between(1, 4) as u32;
        let at = begins + minute(1) + rng.time(minute(40));
        act(at, ScenarioEvent::Scale(name.to_owned(), to));
    }
    act(minute(55), ScenarioEvent::Scale(name.to_owned(), 0));
}
