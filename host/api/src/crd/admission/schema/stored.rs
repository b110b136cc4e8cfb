//! Whether an object's text is already what the API server stores, found in one pass over the text.
//!
//! Most objects of a dump are: nothing is to be taken from them, and nothing to be filled in.

use std::borrow::Cow;
use std::fmt;

use super::{Schema, is_own};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

impl Schema {
    /// Whether `text` is a JSON object of which all fields are known and there once, none is null
    /// without need, and none that has a default is missing. Metadata may have any fields.
    pub fn is_stored_form(&self, text: &str) -> bool {
        let mut reader = serde_json::Deserializer::from_str(text);
        let whole = Part {
            of: Some(self),
            is_root: true,
        };
        whole.deserialize(&mut reader).is_ok() && reader.end().is_ok()
    }
}

/// A value, and what is known of it. The first thing that is not as stored ends the reading.
#[derive(Clone, Copy)]
struct Part<'s> {
    /// Nothing: any value.
    of: Option<&'s Schema>,
    is_root: bool,
}

impl<'s> Part<'s> {
    fn below(of: Option<&'s Schema>) -> Self {
        Part { of, is_root: false }
    }

    /// The part for a field, if it may have such a field.
    fn field<E: Error>(self, name: &str) -> Result<Self, E> {
        let Some(schema) = self.of.filter(|_| !(self.is_root && is_own(name))) else {
            return Ok(Part::below(None));
        };
        match schema.field(name) {
            Some(part) => Ok(Part::below(Some(part))),
            None if schema.open => Ok(Part::below(None)),
            None => Err(E::custom("not a known field")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

/// A key. Its text is borrowed where nothing in it is escaped.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Cow<'de, str>, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen: Vec<Cow<'de, str>> = Vec::new();
        while let Some(key) = map.next_key_seed(Key)? {
            if seen.contains(&key) {
                return Err(A::Error::custom("is there twice"));
            }
            map.next_value_seed(self.field(&key)?)?;
            seen.push(key);
        }
        // Like `Schema::complete`, which gives metadata no defaults either: it has none.
        let mut properties = self.of.into_iter().flat_map(|schema| &schema.properties);
        let lacks = |(name, part): (&String, &Schema)| {
            part.default.is_some() && !seen.iter().any(|key| key == name)
        };
        match properties.any(lacks) {
            true => Err(A::Error::custom("lacks a default")),
            false => Ok(()),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let item = Part::below(self.of.and_then(|schema| schema.items.as_deref()));
        while items.next_element_seed(item)?.is_some() {}
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        match self.of.is_none_or(|schema| schema.nullable) {
            true => Ok(()),
            false => Err(E::custom("is null")),
        }
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Schema;

    fn schema() -> Schema {
        let fields = json!({
            "name": {"type": "string"},
            "note": {"type": "string", "nullable": true},
            "list": {"type": "array", "items": {"type": "object", "properties": {
                "key": {"type": "string"}, "size": {"type": "integer", "default": 3}}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        });
        Schema::read(&json!({"type": "object", "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"},
            "metadata": {"type": "object"}, "spec": {"type": "object", "properties": fields}}}))
    }

    /// What the tree of a text becomes.
    fn completed(text: &str) -> Value {
        let mut object: Value = serde_json::from_str(text).unwrap();
        schema().clean(&mut object);
        schema().complete(&mut object);
        object
    }

    #[test]
    fn what_is_in_stored_form_is_changed_by_nothing() {
        for spec in [
            r#"{}"#,
            r#"{"name": "a", "note": null, "map": {"any": "b"}, "open": {"any": [null, {"a": 1}]}}"#,
            r#"{"list": [], "open": {}}"#,
            r#"{"list": [{"key": "a", "size": 1}, {"size": -1.5}]}"#,
        ] {
            let text = format!(r#"{{"kind": "A", "metadata": {{"any": null}}, "spec": {spec}}}"#);
            assert!(schema().is_stored_form(&text), "{text}");
            let object: Value = serde_json::from_str(&text).unwrap();
            assert!(schema().unknown(&object).is_empty(), "{text}");
            assert_eq!(completed(&text), object, "{text}");
        }
    }

    #[test]
    fn what_the_api_server_would_change_is_not_in_stored_form() {
        for text in [
            r#"{"spec": {"nmae": "a"}}"#,
            r#"{"other": 1}"#,
            r#"{"spec": {"name": null}}"#,
            r#"{"spec": {"list": [{"key": "a"}]}}"#,
            r#"{"spec": {"list": [{"key": "a", "size": 1, "other": 1}]}}"#,
            r#"{"spec": {"name": "a", "name": "b"}}"#,
            r#"{"metadata": {"name": "a", "labels": {"b": "c", "b": "d"}}}"#,
            r#"{"spec": {"open": {"a": {"b": 1, "b": 2}}}}"#,
            r#"{"spec": {}"#,
            r#"{"spec": {}} {}"#,
        ] {
            assert!(!schema().is_stored_form(text), "{text}");
        }
    }
}
