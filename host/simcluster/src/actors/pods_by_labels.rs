//! Pods with equal labels, counted together. A budget needs the number of healthy pods that it
//! selects whenever one of them changes; there are few distinct labels where there are many pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use crate::fields;

/// All pods that have not ended, by namespace and labels.
#[derive(Default)]
pub struct PodsByLabels(FxHashMap<Arc<str>, BTreeMap<Box<str>, Count>>);

/// Pods with the same labels.
#[derive(Default)]
pub struct Count {
    pub labels: Map<String, Value>,
    pub pods: usize,
    /// How many of them are ready and stay.
    pub healthy: usize,
    /// How many each controller has, by its UID; those without one have the empty one.
    pub controllers: BTreeMap<Box<str>, usize>,
}

/// What is counted of a pod.
#[derive(PartialEq)]
struct Mark<'a> {
    labels: Option<&'a Map<String, Value>>,
    healthy: bool,
    controller: &'a str,
}

impl<'a> Mark<'a> {
    fn read(pod: &'a Value) -> Option<Self> {
        let labels = fields::at(pod, "/metadata/labels").and_then(Value::as_object);
        let controller = fields::controller(pod).map_or("", |o| fields::text(o, "/uid"));
        (!fields::ended(pod)).then(|| Mark {
            labels,
            healthy: healthy(pod),
            controller,
        })
    }

    fn key(&self) -> Box<str> {
        let mut key = String::with_capacity(128);
        for (name, value) in self.labels.into_iter().flatten() {
            key.push_str(name);
            key.push('=');
            key.push_str(value.as_str().unwrap_or_default());
            key.push(',');
        }
        key.into()
    }
}

/// Whether a pod is ready and stays.
pub fn healthy(pod: &Value) -> bool {
    fields::ready(pod) && !fields::deleting(pod)
}

impl PodsByLabels {
    /// A pod has come, gone or changed.
    pub fn change(&mut self, namespace: &Arc<str>, before: Option<&Value>, after: Option<&Value>) {
        let [old, new] = [before, after].map(|pod| pod.and_then(Mark::read));
        if old == new {
            return;
        }
        let here = self.0.entry(namespace.clone()).or_default();
        if let Some(mark) = old {
            let key = mark.key();
            if let Some(count) = here.get_mut(&key) {
                count.pods -= 1;
                count.healthy -= usize::from(mark.healthy);
                if let Some(theirs) = count.controllers.get_mut(mark.controller) {
                    *theirs -= 1;
                    if *theirs == 0 {
                        count.controllers.remove(mark.controller);
                    }
                }
                if count.pods == 0 {
                    here.remove(&key);
                }
            }
        }
        if let Some(mark) = new {
            let count = here.entry(mark.key()).or_insert_with(|| Count {
                labels: mark.labels.cloned().unwrap_or_default(),
                ..Count::default()
            });
            count.pods += 1;
            count.healthy += usize::from(mark.healthy);
            match count.controllers.get_mut(mark.controller) {
                Some(theirs) => *theirs += 1,
                None => drop(count.controllers.insert(mark.controller.into(), 1)),
            }
        }
    }

    /// All of a namespace, by labels.
    pub fn within(&self, namespace: &Arc<str>) -> impl Iterator<Item = &Count> {
        self.0.get(namespace).into_iter().flat_map(BTreeMap::values)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_counted_with_those_that_have_the_same_labels() {
        let namespace: Arc<str> = "shop".into();
        let pod = |app: &str, ready: &str| json!({"metadata": {"labels": {"app": app}}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        let (new, well, other) = (pod("web", "False"), pod("web", "True"), pod("db", "True"));
        let mut alike = PodsByLabels::default();
        alike.change(&namespace, None, Some(&new));
        alike.change(&namespace, None, Some(&new));
        alike.change(&namespace, None, Some(&other));
        alike.change(&namespace, Some(&new), Some(&well));
        let counts = |alike: &PodsByLabels| {
            alike
                .within(&namespace)
                .map(|c| (c.pods, c.healthy))
                .collect::<Vec<_>>()
        };
        assert_eq!(counts(&alike), [(1, 1), (2, 1)]);
        alike.change(&namespace, Some(&new), None);
        alike.change(&namespace, Some(&other), None);
        assert_eq!(counts(&alike), [(1, 1)]);
    }
}
