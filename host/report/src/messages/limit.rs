//! Limits of NodePools that refuse: the limit, what is used of it, and what is wanted.

use longshore_core::model::ClusterObjects;
use longshore_core::reasons::LimitReached;

use super::amount;

/// A limit of a resource.
pub(super) fn of_resource(world: &ClusterObjects, reached: LimitReached) -> String {
    let LimitReached {
        resource,
        limit,
        used,
        wants,
    } = reached;
    let name = resource.name(&world.names);
    let [limit_text, used_text, wants_text] =
        [limit, used, wants].map(|value| amount(resource, value));
    if used.saturating_add(wants) <= limit {
        return format!(
            "every instance type passes a limit of the NodePool; of {name} it uses {used_text} of \
            {limit_text}"
        );
    }
    format!(
        "the NodePool's limit of {name} is reached: it uses {used_text} of {limit_text}, and the \
        smallest node that would do has {wants_text}"
    )
}

/// The limit of nodes and how many there are; nothing where one is tried first.
pub(super) fn of_nodes(limit: Option<(i64, i64)>) -> String {
    match limit {
        Some((limit, used)) => {
            format!("the NodePool's limit of nodes is reached: it has {used} of {limit}")
        }
        None => "its last nodes never joined, and one is tried before others are bought".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use longshore_core::model::ResourceId;

    use super::*;

    fn said(resource: ResourceId, limit: i64, used: i64, wants: i64) -> String {
        let reached = LimitReached {
            resource,
            limit,
            used,
            wants,
        };
        of_resource(&ClusterObjects::default(), reached)
    }

    #[test]
    fn a_limit_names_its_value_what_is_used_and_what_is_wanted() {
        assert_eq!(
            said(ResourceId::Cpu, 14_000, 13_500, 2_000),
            "the NodePool's limit of cpu is reached: it uses 13500m of 14, and the smallest node that \
            would do has 2"
        );
        assert_eq!(
            said(ResourceId::Memory, 8 << 30, 0, 16 << 30),
            "the NodePool's limit of memory is reached: it uses 0 of 8Gi, and the smallest node that \
            would do has 16Gi"
        );
        assert_eq!(
            of_nodes(Some((3, 4))),
            "the NodePool's limit of nodes is reached: it has 4 of 3"
        );
    }

    #[test]
    fn limits_that_no_type_keeps_together_are_not_said_to_be_reached() {
        assert_eq!(
            said(ResourceId::Cpu, 8_000, 2_000, 2_000),
            "every instance type passes a limit of the NodePool; of cpu it uses 2 of 8"
        );
    }

    #[test]
    fn a_node_that_is_tried_alone_is_no_limit() {
        assert!(!of_nodes(None).contains("limit"));
    }
}
