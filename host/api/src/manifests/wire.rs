//! Building blocks of wire types: borrowed strings, amounts, lists and maps that may be `null`.
//! Fields that planning does not use are not read.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

/// A string, borrowed from the input where it has no escapes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Text<'a>(pub Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsText<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for AsText<'a> {
            type Value = Text<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(AsText(PhantomData))
    }
}

/// A quantity as written: a string, or a bare number. Spaces around it do not count, and null is
/// nothing, as Go reads it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Amount<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Amount<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsAmount<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for AsAmount<'a> {
            type Value = Amount<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 500m or 2Gi")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Amount<'a>, E> {
                Ok(Amount(Cow::Borrowed(text.trim_matches(' '))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Amount<'a>, E> {
                Ok(Amount(Cow::Owned(text.trim_matches(' ').to_owned())))
            }

            fn visit_unit<E>(self) -> Result<Amount<'a>, E> {
                Ok(Amount(Cow::Borrowed("0")))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Amount<'a>, E> {
                Ok(Amount(Cow::Owned(number.to_string())))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Amount<'a>, E> {
                Ok(Amount(Cow::Owned(number.to_string())))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Amount<'a>, E> {
                Ok(Amount(Cow::Owned(number.to_string())))
            }
        }
        deserializer.deserialize_any(AsAmount(PhantomData))
    }
}

/// A list; `null` is empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<T> std::ops::Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsList<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for AsList<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_unit<E>(self) -> Result<List<T>, E> {
                Ok(List::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<List<T>, A::Error> {
                let mut list = Vec::new();
                while let Some(entry) = entries.next_element()? {
                    list.push(entry);
                }
                Ok(List(list))
            }
        }
        deserializer.deserialize_any(AsList(PhantomData))
    }
}

/// A map of strings to values, in the order written; `null` is empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Map<'a, T>(pub Vec<(Text<'a>, T)>);

impl<T> Default for Map<'_, T> {
    fn default() -> Self {
        Map(Vec::new())
    }
}

impl<'a, T> std::ops::Deref for Map<'a, T> {
    type Target = [(Text<'a>, T)];

    fn deref(&self) -> &[(Text<'a>, T)] {
        &self.0
    }
}

impl<'a, T> Map<'a, T> {
    /// The value under a key: of a repeated key the last, as Go has it.
    pub fn get(&self, key: &str) -> Option<&T> {
        self.0
            .iter()
            .rev()
            .find(|(k, _)| &**k == key)
            .map(|(_, value)| value)
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Map<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsMap<'a, T>(PhantomData<(&'a (), T)>);
        impl<'de: 'a, 'a, T: Deserialize<'de>> Visitor<'de> for AsMap<'a, T> {
            type Value = Map<'a, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_unit<E>(self) -> Result<Map<'a, T>, E> {
                Ok(Map::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Map<'a, T>, A::Error> {
                let mut map = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    map.push(entry);
                }
                Ok(Map(map))
            }
        }
        deserializer.deserialize_any(AsMap(PhantomData))
    }
}

/// Makes structs that are only read from maps: left to itself, serde takes a list for the fields in
/// their order, and so an empty list for an object without fields. The structs derive with
/// `remote = "Self"`.
macro_rules! only_from_maps {
    ($($wire:ident $(<$a:lifetime>)?),* $(,)?) => {
        $(impl<'de $(: $a, $a)?> serde::Deserialize<'de> for $wire $(<$a>)? {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct AsMap $(<$a>(std::marker::PhantomData<&$a ()>))?;
                impl<'de $(: $a, $a)?> serde::de::Visitor<'de> for AsMap $(<$a>)? {
                    type Value = $wire $(<$a>)?;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a map")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                        <$wire>::deserialize(serde::de::value::MapAccessDeserializer::new(map))
                    }
                }
                deserializer.deserialize_map(AsMap $({ 0: std::marker::PhantomData::<&$a ()> })?)
            }
        })*
    };
}
pub(crate) use only_from_maps;

/// `spec.resources` of a NodeClaim or a PersistentVolumeClaim.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct WireClaimResources<'a> {
    #[serde(borrow)]
    pub requests: Map<'a, Amount<'a>>,
}

/// `metadata` of any object.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(crate) struct Meta<'a> {
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
    #[serde(borrow)]
    pub generate_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub namespace: Option<Text<'a>>,
    #[serde(borrow)]
    pub uid: Option<Text<'a>>,
    #[serde(borrow)]
    pub labels: Map<'a, Option<Text<'a>>>,
    #[serde(borrow)]
    pub annotations: Map<'a, Option<Text<'a>>>,
    #[serde(borrow)]
    pub owner_references: List<Owner<'a>>,
    #[serde(borrow)]
    pub creation_timestamp: Option<Text<'a>>,
    #[serde(borrow)]
    pub deletion_timestamp: Option<Text<'a>>,
    pub generation: Option<i64>,
}

impl Meta<'_> {
    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).and_then(|v| v.as_deref())
    }
}

/// An owner reference.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub(crate) struct Owner<'a> {
    #[serde(borrow)]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub name: Text<'a>,
    pub controller: Option<bool>,
}

/// A condition of a status.
#[derive(Deserialize, Default, Debug)]
#[serde(remote = "Self", default)]
pub(crate) struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub status: Text<'a>,
    #[serde(borrow)]
    pub reason: Option<Text<'a>>,
    #[serde(borrow, rename = "lastTransitionTime")]
    pub since: Option<Text<'a>>,
}

only_from_maps!(Meta<'a>, Owner<'a>, Condition<'a>, WireClaimResources<'a>);
