//! Pieces of schema that several resources share: patterns, and fields with a schema stricter than
//! their Rust type.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::overlay::OverlayRequirement;
use super::requirement::{NodeClassRef, Requirement};

/// A quantity: a signed decimal number with a binary suffix, a decimal suffix or an exponent.
pub const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
/// A qualified name: an optional DNS domain and a slash, then letters, digits, `-`, `_` and `.`.
pub const NAME: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// A label's value.
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// A duration of whole hours, minutes and seconds.
pub const DURATION: &str = "^([0-9]+(s|m|h))+$";
/// A duration, or for ever.
pub const LIFETIME: &str = "^(([0-9]+(s|m|h))+|Never)$";

/// A CEL rule and its message.
type Rule = (&'static str, &'static str);

const KEY_NOT_OURS: Rule = (
    r#"self in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !self.find("^([^/]+)").endsWith("karpenter.sh")"#,
    "labels under karpenter.sh are the autoscaler's own",
);
const KEY_NOT_NODEPOOL: Rule = (
    r#"self != "karpenter.sh/nodepool""#,
    "karpenter.sh/nodepool is set by the autoscaler",
);
const KEY_NOT_HOSTNAME: Rule = (
    r#"self != "kubernetes.io/hostname""#,
    "kubernetes.io/hostname differs from node to node",
);

const IN_HAS_VALUES: Rule = (
    "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
    "operator In needs a value",
);
const NOT_IN_HAS_VALUES: Rule = (
    "self.all(x, x.operator == 'NotIn' ? x.values.size() != 0 : true)",
    "operator NotIn needs a value",
);
const ONE_NUMBER: Rule = (
    "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator \
    == 'Lte') ? \
     (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
    "operators Gt, Lt, Gte and Lte need one value, a whole number that is not negative",
);
const ENOUGH_VALUES: Rule = (
    "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
    "operator In needs as many values as minValues asks for",
);

const SAME_GROUP: Rule = (
    "self.group == oldSelf.group",
    "nodeClassRef.group cannot change",
);
const SAME_KIND: Rule = (
    "self.kind == oldSelf.kind",
    "nodeClassRef.kind cannot change",
);

const LABELS: [Rule; 3] = [
    (
        r#"self.all(x, x in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !x.find("^([^/]+)").endsWith("karpenter.sh"))"#,
        "labels under karpenter.sh are the autoscaler's own",
    ),
    (
        r#"self.all(x, x != "karpenter.sh/nodepool")"#,
        "karpenter.sh/nodepool is set by the autoscaler",
    ),
    (
        r#"self.all(x, x != "kubernetes.io/hostname")"#,
        "kubernetes.io/hostname differs from node to node",
    ),
];

fn rules(rules: &[Rule]) -> Value {
    rules
        .iter()
        .map(|(rule, message)| json!({"rule": rule, "message": message}))
        .collect()
}

/// A requirement's key, of a NodeClaim or NodeOverlay.
pub fn requirement_key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 316,
        "pattern": NAME,
        "x-kubernetes-validations": rules(&[KEY_NOT_OURS, KEY_NOT_HOSTNAME]),
    })
}

/// A requirement's values. Length and pattern stand at the list, as upstream has them: there they
/// hold for nothing.
pub fn requirement_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {"type": "string"},
        "maxLength": 63,
        "pattern": LABEL_VALUE,
        "x-kubernetes-list-type": "atomic",
    })
}

/// A requirement's `minValues`.
pub fn min_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": 50})
}

/// Requirements of a NodeClaim.
pub fn claim_requirements(generator: &mut SchemaGenerator) -> Schema {
    let items = generator.subschema_for::<Requirement>();
    requirements(items, &[IN_HAS_VALUES, ONE_NUMBER, ENOUGH_VALUES])
}

/// Requirements of a NodePool, which may not name the NodePool.
pub fn pool_requirements(generator: &mut SchemaGenerator) -> Schema {
    let mut items = generator.subschema_for::<Requirement>();
    if let Some(key) = items
        .pointer_mut("/properties/key")
        .and_then(Value::as_object_mut)
    {
        key.insert(
            "x-kubernetes-validations".to_owned(),
            rules(&[KEY_NOT_OURS, KEY_NOT_NODEPOOL, KEY_NOT_HOSTNAME]),
        );
    }
    requirements(items, &[IN_HAS_VALUES, ONE_NUMBER, ENOUGH_VALUES])
}

/// Requirements of a NodeOverlay.
pub fn overlay_requirements(generator: &mut SchemaGenerator) -> Schema {
    let items = generator.subschema_for::<OverlayRequirement>();
    requirements(items, &[NOT_IN_HAS_VALUES, IN_HAS_VALUES, ONE_NUMBER])
}

fn requirements(items: Schema, list: &[Rule]) -> Schema {
    json_schema!({
        "type": "array",
        "items": items,
        "maxItems": 100,
        "x-kubernetes-list-type": "atomic",
        "x-kubernetes-validations": rules(list),
    })
}

/// A NodePool's reference to its class: group and kind stay as they are.
pub fn pool_class(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<NodeClassRef>();
    schema.insert(
        "x-kubernetes-validations".to_owned(),
        rules(&[SAME_GROUP, SAME_KIND]),
    );
    schema
}

/// Labels of a NodePool's nodes.
pub fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"type": "string", "maxLength": 63, "pattern": LABEL_VALUE},
        "maxProperties": 100,
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": rules(&LABELS),
    })
}

/// A taint's value.
pub fn taint_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": NAME})
}

/// A text that may be absent.
pub fn text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string"})
}

/// A moment.
pub fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// A string with a duration of Go (`1h30m`).
pub fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": DURATION})
}

/// Conditions that must give a reason, one of each type.
pub fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = plain_conditions(generator);
    one_of_each_type(&mut schema);
    schema
}

/// Conditions that must give a reason.
pub fn plain_conditions(_: &mut SchemaGenerator) -> Schema {
    let reason = json!({
        "description": "Why, as one word for programs.",
        "type": "string",
        "minLength": 1,
        "maxLength": 1024,
        "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
    });
    condition_list(
        &reason,
        &["lastTransitionTime", "message", "reason", "status", "type"],
    )
}

/// Conditions of a NodeClaim, which need not give a reason.
pub fn claim_conditions(_: &mut SchemaGenerator) -> Schema {
    let reason = json!({
        "description": "Why, as one word for programs; may be empty.",
        "type": "string",
        "maxLength": 1024,
        "pattern": "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$",
    });
    let mut schema = condition_list(&reason, &["lastTransitionTime", "status", "type"]);
    one_of_each_type(&mut schema);
    schema
}

fn one_of_each_type(schema: &mut Schema) {
    schema.insert("x-kubernetes-list-map-keys".to_owned(), json!(["type"]));
    schema.insert("x-kubernetes-list-type".to_owned(), json!("map"));
}

fn condition_list(reason: &Value, required: &[&str]) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "description": "One statement about the object.",
            "type": "object",
            "required": required,
            "properties": {
                "lastTransitionTime": {
                    "description": "When the status changed last.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": {
                    "description": "Why, for people.",
                    "type": "string",
                    "maxLength": 32768,
                },
                "observedGeneration": {
                    "description": "The metadata.generation that it speaks of.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "reason": reason,
                "status": {
                    "description": "Whether it holds.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "type": {
                    "description": "What it is about.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}
