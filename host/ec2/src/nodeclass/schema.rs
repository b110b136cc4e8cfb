//! Pieces of the schema of EC2NodeClasses that are stricter than their Rust types, or shared.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::devices::NetworkInterface;
use super::selectors::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, SecurityGroupSelectorTerm, SubnetSelectorTerm,
};

/// A CEL rule and its message.
type Rule = (&'static str, &'static str);

fn rules(rules: &[Rule]) -> Value {
    rules
        .iter()
        .map(|(rule, message)| json!({"rule": rule, "message": message}))
        .collect()
}

/// A list of terms, with rules for all of them together.
fn terms<T: JsonSchema>(generator: &mut SchemaGenerator, list: &[Rule]) -> Schema {
    json_schema!({
        "type": "array",
        "items": generator.subschema_for::<T>(),
        "maxItems": 30,
        "x-kubernetes-validations": rules(list),
    })
}

/// Terms that select subnets. The last rule refuses a list only if every term breaks it, as
/// upstream's does: a stricter one would refuse objects that clusters have.
pub fn subnet_terms(generator: &mut SchemaGenerator) -> Schema {
    terms::<SubnetSelectorTerm>(
        generator,
        &[
            ("self.size() != 0", "give one term at least"),
            (
                "self.all(x, has(x.tags) || has(x.id))",
                "a term that selects subnets needs tags or an id",
            ),
            (
                "!self.all(x, has(x.id) && has(x.tags))",
                "a term that selects subnets has tags or an id, and not both",
            ),
        ],
    )
}

/// Terms that select security groups; the last two rules as in [`subnet_terms`].
pub fn security_group_terms(generator: &mut SchemaGenerator) -> Schema {
    terms::<SecurityGroupSelectorTerm>(
        generator,
        &[
            ("self.size() != 0", "give one term at least"),
            (
                "self.all(x, has(x.tags) || has(x.id) || has(x.name))",
                "a term that selects security groups needs tags, an id or a name",
            ),
            (
                "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
                "a term that selects a security group by id has nothing else",
            ),
            (
                "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
                "a term that selects a security group by name has nothing else",
            ),
        ],
    )
}

/// Terms that select capacity reservations; the last rule as in [`subnet_terms`].
pub fn capacity_reservation_terms(generator: &mut SchemaGenerator) -> Schema {
    terms::<CapacityReservationSelectorTerm>(
        generator,
        &[
            (
                "self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",
                "a term that selects capacity reservations needs tags, an id or \
                 instanceMatchCriteria",
            ),
            (
                "!self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || \
                 has(x.instanceMatchCriteria)))",
                "a term that selects a capacity reservation by id has nothing else",
            ),
        ],
    )
}

/// Terms that select images.
pub fn ami_terms(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = terms::<AmiSelectorTerm>(
        generator,
        &[
            (
                "self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || \
                 has(x.ssmParameter))",
                "a term that selects images needs tags, an id, a name, an alias or an \
                 ssmParameter",
            ),
            (
                "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || \
                 has(x.owner)))",
                "a term that selects an image by id has no alias, tags, name or owner",
            ),
            (
                "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || \
                 has(x.owner)))",
                "a term with an alias has no id, tags, name or owner",
            ),
            (
                "!(self.exists(x, has(x.alias)) && self.size() != 1)",
                "a term with an alias must be the only one",
            ),
        ],
    );
    schema.insert("minItems".to_owned(), json!(1));
    schema
}

pub fn network_interfaces(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": generator.subschema_for::<NetworkInterface>(),
        "maxItems": 150,
        "x-kubernetes-validations": rules(&[
            (
                "self.size() == 0 || self.exists(x, x.deviceIndex == 0 && x.networkCardIndex == 0 \
                 && x.interfaceType == 'interface')",
                "device 0 of card 0 must be there, with the type interface",
            ),
            (
                "self.all(x, self.filter(y, x.networkCardIndex == y.networkCardIndex && \
                 x.deviceIndex == y.deviceIndex).size() == 1 && (x.interfaceType != 'efa-only' || \
                 self.filter(y, x.networkCardIndex == y.networkCardIndex && y.interfaceType == \
                 'efa-only').size() == 1))",
                "a device of a card is there once, and a card has at most one efa-only interface",
            ),
        ]),
    })
}

/// Tags that a term selects by.
pub fn selector_tags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"type": "string"},
        "maxProperties": 20,
        "x-kubernetes-validations": rules(&[(
            "self.all(k, k != '' && self[k] != '')",
            "a tag has a key and a value; write * for any value",
        )]),
    })
}

/// The kubelet's settings: any field.
pub fn kubelet(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"x-kubernetes-preserve-unknown-fields": true},
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// The size of a volume.
pub fn volume_size(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": "^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$",
    })
}

/// Yes or no, where absent means no.
pub fn boolean(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "boolean"})
}

pub fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string"})
}

/// A moment.
pub fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}
