//! What a NodeClaim says of labels whose values its NodePool counts (`minValues`), as Karpenter writes
//! it: bounds stay bounds, and a number that was lowered is the lower one.

use std::collections::BTreeSet;

use longshore_api::crd::{Operator, Requirement};
use longshore_api::labels;
use longshore_core::model::{ClusterObjects, Op, Symbol};
use longshore_core::plan::PlannedClaim;

/// A planned claim beside the requirements of its NodePool.
pub(super) struct Counted<'a> {
    pub world: &'a ClusterObjects,
    pub claim: &'a PlannedClaim,
    /// `spec.template.spec.requirements`.
    pub template: &'a [Requirement],
}

impl<'a> Counted<'a> {
    /// What the NodePool requires of a label.
    fn of_template(&self, key: &str) -> impl Iterator<Item = &'a Requirement> {
        let all = self.template.iter();
        all.filter(move |requirement| labels::stable(&requirement.key) == key)
    }

    /// How many values of a label the NodePool asks for. Where that was lowered, no more than the
    /// claim's instance types have.
    pub fn least(&self, key: &str) -> Option<i64> {
        let asked = self.of_template(key).filter_map(|r| r.min_values).max()?;
        if !self.claim.min_values_relaxed {
            return Some(asked);
        }
        let lowered = asked.min(self.values(key));
        (lowered > 0).then_some(lowered)
    }

    /// How many values of a label the claim's instance types and their offerings have.
    fn values(&self, key: &str) -> i64 {
        if key == labels::INSTANCE_TYPE {
            return self.claim.types.len() as i64;
        }
        let Some(key) = self.world.names.get(key) else {
            return 0;
        };
        let own = self.claim.requirements.iter().find(|(of, _)| *of == key);
        let is_admitted = |value: &Symbol| own.is_none_or(|(_, values)| values.contains(value));
        let mut found: BTreeSet<Symbol> = BTreeSet::new();
        for &kind in &self.claim.types {
            let of_type = &self.world.catalogue.instance_type(kind).requirements;
            let offerings = self.world.catalogue.offerings_of(kind).iter();
            let offerings = offerings.filter(|offering| offering.available);
            let of_offerings = offerings.flat_map(|offering| offering.requirements.iter());
            for requirement in of_type.iter().chain(of_offerings).filter(|r| r.key == key) {
                if let Op::In(values) = &requirement.op {
                    found.extend(values.iter().copied().filter(is_admitted));
                }
            }
        }
        found.len() as i64
    }

    /// The bounds of a label as entries of operator and value, if the NodePool counts its values,
    /// says nothing but bounds of it, and no pod of the claim names it.
    pub fn bounds(&self, key: &str) -> Option<Vec<(&'static str, String)>> {
        self.of_template(key).find(|r| r.min_values.is_some())?;
        let (mut lo, mut hi) = (None::<i64>, None::<i64>);
        for requirement in self.of_template(key) {
            let [bound] = requirement.values.as_slice() else {
                return None;
            };
            let bound: i64 = bound.parse().ok()?;
            match requirement.operator {
                Operator::Gt => lo = lo.max(Some(bound.checked_add(1)?)),
                Operator::Gte => lo = lo.max(Some(bound)),
                Operator::Lt => hi = Some(bound.checked_sub(1)?.min(hi.unwrap_or(i64::MAX))),
                Operator::Lte => hi = Some(bound.min(hi.unwrap_or(i64::MAX))),
                _ => return None,
            }
        }
        if self.is_named_by_pods(key) {
            return None;
        }
        let lo = lo.map(|bound| ("Gte", bound.to_string()));
        let hi = hi.map(|bound| ("Lte", bound.to_string()));
        Some(lo.into_iter().chain(hi).collect())
    }

    fn is_named_by_pods(&self, key: &str) -> bool {
        let Some(key) = self.world.names.get(key) else {
            return false;
        };
        self.claim.pods.iter().any(|pod| {
            let shape = self.world.pods[pod.0 as usize].shape;
            let shape = self.world.shapes.get(shape);
            let required = shape.required.iter().flatten();
            let preferred = shape.preferred.iter().flat_map(|(_, term)| term);
            let mut all = shape.node_selector.iter().chain(required).chain(preferred);
            all.any(|requirement| requirement.key == key)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use longshore_api::crd::NodePool;
    use longshore_api::manifests::Reader;
    use longshore_core::model::MinValuesPolicy;
    use longshore_core::plan::Effort;
    use longshore_core::planner::{self, PlanOptions};
    use longshore_core::policy::ByPrice;
    use longshore_core::snapshot::Snapshot;
    use serde_json::{Value, json};

    use crate::decide::claims::{NominationPlan, new_node_claims};

    const CPU: &str = "karpenter.kwok.sh/instance-cpu";

    /// What a NodeClaim for one pod says of CPUs, of families and of whether `minValues` were lowered.
    fn written(requirements: Value, selector: &Value) -> String {
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "c"});
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": requirements}}}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "shop", "uid": "p"},
            "spec": {"nodeSelector": selector,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
        let mut reader = Reader::new();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [pool, pod]}).to_string();
        reader.read("cluster.json", list.as_bytes());
        let (mut world, problems) = reader.finish();
        assert!(problems.list.is_empty(), "{problems}");
        world.catalogue = longshore_kwok::catalogue::built_in(&mut world.names);
        world.settings.min_values = MinValuesPolicy::BestEffort;
        let snapshot = Snapshot::new(world.into());
        let options = PlanOptions {
            effort: Effort::None,
            seed: 0,
        };
        let plan = planner::plan(&snapshot, &ByPrice, options).expect("a plan");
        let pool: NodePool = serde_json::from_value(pool).expect("a NodePool");
        let pools = BTreeMap::from([("default".to_owned(), Arc::new(pool))]);
        let nominations = NominationPlan::default();
        let claims = new_node_claims(&snapshot, &plan, &nominations, &pools, "round");
        let claim = &claims.first().expect("a NodeClaim").object;
        let relaxed = &claim["metadata"]["annotations"];
        let relaxed = &relaxed["karpenter.sh/nodeclaim-min-values-relaxed"];
        let entries = claim["spec"]["requirements"].as_array().expect("a list");
        let is_asked = |entry: &&Value| {
            let key = entry["key"].as_str().unwrap_or_default();
            key.starts_with("karpenter.kwok.sh/instance-")
        };
        let one = |entry: &Value| {
            let key = entry["key"].as_str().and_then(|key| key.rsplit_once('-'));
            let key = key.map_or("", |(_, key)| key);
            let (op, values, least) = (&entry["operator"], &entry["values"], &entry["minValues"]);
            format!("{key} {op} {values} {least}").replace('"', "")
        };
        let entries: Vec<String> = entries.iter().filter(is_asked).map(one).collect();
        format!(
            "{}; relaxed {}",
            entries.join("; "),
            relaxed.as_str().unwrap_or("?")
        )
    }

    fn bound(operator: &str, value: &str, least: Value) -> Value {
        json!({"key": CPU, "operator": operator, "values": [value], "minValues": least})
    }

    #[test]
    fn bounds_stay_bounds_and_every_entry_says_how_many_values_are_asked_for() {
        let both = || json!([bound("Gte", "4", json!(3)), bound("Lt", "32", Value::Null)]);
        assert_eq!(
            written(both(), &json!({})),
            "cpu Gte [4] 3; cpu Lte [31] 3; relaxed false"
        );
        let named = written(both(), &json!({CPU: "8"}));
        assert!(named.starts_with("cpu In [8] "), "{named}");
        let uncounted = json!([
            bound("Gte", "4", Value::Null),
            bound("Lt", "16", Value::Null)
        ]);
        let uncounted = written(uncounted, &json!({}));
        assert!(uncounted.starts_with("cpu In [4,8] null"), "{uncounted}");
    }

    #[test]
    fn a_number_that_was_lowered_is_written_as_what_there_is() {
        let lowered = json!([bound("Gte", "4", json!(3)), bound("Lte", "8", Value::Null)]);
        assert_eq!(
            written(lowered, &json!({})),
            "cpu Gte [4] 2; cpu Lte [8] 2; relaxed true"
        );
        let family = "karpenter.kwok.sh/instance-family";
        let one = json!([
            {"key": family, "operator": "In", "values": ["c", "x"], "minValues": 2},
            bound("Lte", "4", json!(2)),
        ]);
        assert_eq!(
            written(one, &json!({})),
            "cpu Lte [4] 2; family In [c,x] 1; relaxed true",
            "what there is enough of stays"
        );
    }
}
