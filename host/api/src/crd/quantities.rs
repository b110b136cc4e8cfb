//! Amounts of resources by name, in their original notation.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// Amounts by resource name, such as `cpu` or `nvidia.com/gpu`.
pub type Quantities = BTreeMap<String, Quantity>;

/// An amount as written: `100m`, `2Gi`, `4`. A number is taken for its text. Nothing is checked
/// here. Code that calculates parses it with [`crate::quantity`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Quantity(pub String);

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Quantity {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber)
    }
}

struct TextOrNumber;

impl de::Visitor<'_> for TextOrNumber {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity: text or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        Ok(Quantity(text.to_owned()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }
}

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    /// The two alternatives, integer and string, are added by [`super::definition`]: kube's
    /// transforms would lose them.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "pattern": super::schema::QUANTITY,
            "x-kubernetes-int-or-string": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_text_or_a_number() {
        for (json, text) in [
            ("\"100m\"", "100m"),
            ("4", "4"),
            ("-1", "-1"),
            ("0.5", "0.5"),
            ("\"\"", ""),
        ] {
            assert_eq!(
                serde_json::from_str::<Quantity>(json).unwrap(),
                Quantity::from(text),
                "{json}"
            );
        }
        assert!(serde_json::from_str::<Quantity>("true").is_err());
        assert_eq!(
            serde_json::to_string(&Quantity::from("2Gi")).unwrap(),
            "\"2Gi\""
        );
    }
}
