//! Instances as the daemon sees them: provider IDs, labels, amounts.

use std::collections::BTreeMap;

use longshore_api::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE};
use longshore_cloud::Instance;
use longshore_ec2::catalogue::machine::RESOURCES;
use longshore_ec2::catalogue::requirements::aws;
use longshore_ec2::catalogue::{ClassCatalogue, Region};
use longshore_ec2::tags;

use crate::launch::TENANCY;
use crate::launch::fleet::{GROUP_TAG, UID_TAG};
use crate::records::InstanceFacts;

/// `aws:///<zone>/<instance-id>`.
pub fn provider_id(zone: &str, id: &str) -> String {
    format!("aws:///{zone}/{id}")
}

/// Zone and ID of an instance in a provider ID of EC2's form.
pub fn parse_provider_id(text: &str) -> Option<(&str, &str)> {
    let (zone, id) = text.strip_prefix("aws:///")?.split_once('/')?;
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_id = id.len() > 2 && id.starts_with("i-") && plain(id);
    (is_id && plain(zone)).then_some((zone, id))
}

/// How an instance was bought.
pub fn capacity_type(facts: &InstanceFacts) -> &'static str {
    match () {
        () if facts.spot => "spot",
        () if facts.reservation.is_some() => "reserved",
        () => "on-demand",
    }
}

/// An instance, with labels and amounts of its type where its NodeClass is known.
pub fn instance(facts: &InstanceFacts, class: Option<(&Region, &ClassCatalogue)>) -> Instance {
    let mut labels = BTreeMap::new();
    let (mut capacity, mut allocatable) = (BTreeMap::new(), BTreeMap::new());
    let of_type =
        class.and_then(|(region, class)| Some((region, class, region.find(&facts.instance_type)?)));
    if let Some((region, class, at)) = of_type {
        class.labels(region, at, &mut |key, values| {
            if let [only] = values {
                labels.insert(key.to_owned(), (*only).to_owned());
            }
        });
        // A type may be in a reservation, and its instance in none.
        for key in [
            aws::RESERVATION_ID,
            aws::RESERVATION_TYPE,
            aws::RESERVATION_INTERRUPTIBLE,
            aws::ZONE_ID,
            aws::GROUP_PARTITION,
        ] {
            labels.remove(key);
        }
        let machine = class.machine(at);
        let amounts = |all: [Option<longshore_ec2::catalogue::amount::Amount>; RESOURCES.len()]| {
            let pairs = RESOURCES.iter().zip(all);
            let some = pairs.filter_map(|(name, amount)| Some((name, amount?)));
            some.filter(|(_, amount)| amount.milli > 0)
                .map(|(name, amount)| ((*name).to_owned(), amount.to_string()))
                .collect()
        };
        capacity = amounts(machine.capacity);
        allocatable = amounts(machine.allocatable());
    }
    let mut set = |key: &str, value: &str| {
        if !value.is_empty() {
            labels.insert(key.to_owned(), value.to_owned());
        }
    };
    set(INSTANCE_TYPE, &facts.instance_type);
    set(ZONE, &facts.zone);
    set(aws::ZONE_ID, &facts.zone_id);
    set(CAPACITY_TYPE, capacity_type(facts));
    set(TENANCY, &facts.tenancy);
    set(aws::GROUP_ID, &facts.placement_group);
    if facts.partition > 0 {
        set(aws::GROUP_PARTITION, &facts.partition.to_string());
    }
    let pool = facts.tags.get(tags::NODEPOOL).map_or("", String::as_str);
    set(NODEPOOL, pool);
    if let Some(id) = facts.reservation.as_deref().filter(|_| !facts.spot) {
        set(aws::RESERVATION_ID, id);
        let kind = match &*facts.lifecycle {
            "capacity-block" => "capacity-block",
            _ => "default",
        };
        set(aws::RESERVATION_TYPE, kind);
        let interruptible = facts.lifecycle == "interruptible-capacity-reservation";
        set(
            aws::RESERVATION_INTERRUPTIBLE,
            if interruptible { "true" } else { "false" },
        );
    }
    Instance {
        provider_id: provider_id(&facts.zone, &facts.id),
        // Karpenter does not say which NodeClaim it launched for.
        claim_uid: Some(facts.tags.get(UID_TAG).cloned().unwrap_or_default()),
        group: facts.tags.get(GROUP_TAG).cloned(),
        image_id: Some(facts.image.clone()).filter(|id| !id.is_empty()),
        labels,
        capacity,
        allocatable,
        annotations: Some((tags::PROFILE.to_owned(), facts.profile.clone()))
            .filter(|(_, profile)| !profile.is_empty())
            .into_iter()
            .collect(),
        created: facts.launched,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_ids_are_read_as_they_are_written() {
        let id = provider_id("us-east-1a", "i-0123abc");
        assert_eq!(parse_provider_id(&id), Some(("us-east-1a", "i-0123abc")));
        for wrong in [
            "",
            "kwok://x",
            "aws:///us-east-1a",
            "aws:///us-east-1a/x-1",
            "aws:///us-east-1a/i-",
            "aws:///us-east-1a/i-1/2",
            "aws:///a b/i-1",
        ] {
            assert_eq!(parse_provider_id(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_instance_says_how_it_was_bought() {
        let facts = InstanceFacts {
            id: "i-1".into(),
            zone: "us-east-1a".into(),
            instance_type: "m5.large".into(),
            reservation: Some("cr-1".into()),
            lifecycle: "capacity-block".into(),
            tags: [(tags::NODEPOOL.to_owned(), "default".to_owned())].into(),
            ..InstanceFacts::default()
        };
        let text: Vec<String> = instance(&facts, None)
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        expect_test::expect![[r#"
            karpenter.k8s.aws/capacity-reservation-id=cr-1
            karpenter.k8s.aws/capacity-reservation-interruptible=false
            karpenter.k8s.aws/capacity-reservation-type=capacity-block
            karpenter.sh/capacity-type=reserved
            karpenter.sh/nodepool=default
            node.kubernetes.io/instance-type=m5.large
            topology.kubernetes.io/zone=us-east-1a"#]]
        .assert_eq(&text.join("\n"));
    }
}
