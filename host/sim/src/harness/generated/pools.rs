//! NodePools of a generated scenario: one that can take everything, and sometimes others before it.

use std::fmt::Write as _;

use super::rng::Rng;

const CLASS: &str = "
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {}
";

/// The manifests.
pub fn pools(rng: &mut Rng) -> String {
    let mut text = CLASS.to_owned();
    let kinds = rng.one_of(&["spot, on-demand", "spot, on-demand", "on-demand"]);
    pool(&mut text, rng, "general", kinds, "");
    if rng.hits(0.6) {
        let cpus = rng.between(4, 60);
        let limits = if rng.hits(0.5) {
            format!("\n  limits: {{cpu: '{cpus}'}}")
        } else {
            String::new()
        };
        let weight = rng.between(1, 100);
        pool(
            &mut text,
            rng,
            "spot",
            "spot",
            &format!("\n  weight: {weight}{limits}"),
        );
    }
    if rng.hits(0.3) {
        let nodes = rng.between(1, 8);
        pool(
            &mut text,
            rng,
            "small",
            "spot, on-demand",
            &format!("\n  weight: 50\n  limits: {{nodes: '{nodes}'}}"),
        );
    }
    text
}

/// Now and then a NodePool that is preferred to all others and is soon full.
pub fn tight(rng: &mut Rng, size: u32) -> String {
    let mut text = String::new();
    if rng.hits(0.5) {
        let cpus = rng.between(8, u64::from(size) * 2 + 8);
        pool(
            &mut text,
            rng,
            "tight",
            "spot, on-demand",
            &format!("\n  weight: 100\n  limits: {{cpu: '{cpus}'}}"),
        );
    }
    text
}

/// The same manifests with NodePools that say when their nodes may be disrupted.
pub fn disrupted(base: &str, rng: &mut Rng) -> String {
    let (mut text, mut is_pool) = (String::new(), false);
    for line in base.lines() {
        is_pool |= line == "kind: NodePool";
        if line == "  template:" && is_pool {
            is_pool = false;
            let policy = rng.one_of(&[
                "WhenEmptyOrUnderutilized",
                "WhenEmptyOrUnderutilized",
                "WhenEmpty",
                "Balanced",
            ]);
            let after = rng.one_of(&["0s", "30s", "2m"]);
            let nodes = rng.one_of(&["10%", "50%", "1", "100%"]);
            let _ = writeln!(
                text,
                "  disruption: {{consolidationPolicy: {policy}, consolidateAfter: {after}, \
                budgets: [{{nodes: '{nodes}'}}]}}"
            );
        }
        let _ = writeln!(text, "{line}");
    }
    text
}

fn pool(text: &mut String, rng: &mut Rng, name: &str, capacity: &str, more: &str) {
    let mut spec = String::new();
    if rng.hits(0.2) {
        let minutes = rng.between(35, 55);
        let _ = write!(spec, "\n      expireAfter: {minutes}m");
    }
    if rng.hits(0.25) {
        let seconds = rng.between(60, 300);
        let _ = write!(spec, "\n      terminationGracePeriod: {seconds}s");
    }
    let _ = write!(
        text,
        "---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:{more}
  template:
    spec:
      nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}{spec}
      requirements:
      - {{key: kubernetes.io/os, operator: In, values: [linux]}}
      - {{key: karpenter.sh/capacity-type, operator: In, values: [{capacity}]}}
"
    );
}
