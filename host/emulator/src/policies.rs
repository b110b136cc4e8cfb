//! Policies of IAM: which statements allow a call.
//!
//! Read are Effect, Action, Resource and Condition with the operators of [`Operator`]. Anything else
//! in a policy is an error when it is read, and is never passed over. Variables of CloudFormation
//! have to be put in before.

pub mod karpenter;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// A policy document.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Policy {
    /// `2012-10-17`.
    #[serde(default)]
    pub version: String,
    pub statement: Vec<Statement>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Statement {
    /// Its name, for people.
    #[serde(default)]
    pub sid: String,
    /// Whether it allows or denies.
    pub effect: Effect,
    /// Actions such as `ec2:RunInstances`, with `*` and `?`.
    #[serde(deserialize_with = "one_or_more")]
    pub action: Vec<String>,
    /// ARNs, with `*` and `?`.
    #[serde(deserialize_with = "one_or_more")]
    pub resource: Vec<String>,
    /// Values by key by operator. All of them have to hold.
    #[serde(default)]
    pub condition: BTreeMap<Operator, BTreeMap<String, Values>>,
}

/// Allows or denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[allow(missing_docs)]
pub enum Effect {
    Allow,
    Deny,
}

/// How a key of the request is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Operator {
    /// One of the values is the request's.
    StringEquals,
    /// Equal, with `*` and `?` as wildcards.
    StringLike,
    /// As [`Operator::StringEquals`], and it holds where the request has no such key.
    StringEqualsIfExists,
    /// Each value of the request is one of these. It holds where there is none.
    #[serde(rename = "ForAllValues:StringEquals")]
    ForAllValuesStringEquals,
}

/// One or several values.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Values(#[serde(deserialize_with = "one_or_more")] pub Vec<String>);

fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        One(String),
        More(Vec<String>),
    }
    match Either::deserialize(deserializer)? {
        Either::One(one) => Ok(vec![one]),
        Either::More(more) if more.is_empty() => Err(D::Error::custom("is an empty list")),
        Either::More(more) => Ok(more),
    }
}

/// One thing that a call has to be allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// `ec2:RunInstances`.
    pub action: String,
    /// The ARN of what it is done to, or `*`.
    pub resource: String,
    /// Keys of conditions with their values.
    pub context: BTreeMap<String, Vec<String>>,
}

impl Asked {
    /// Without keys.
    pub fn of(action: impl Into<String>, resource: impl Into<String>) -> Self {
        Asked {
            action: action.into(),
            resource: resource.into(),
            context: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.context.insert(key.into(), vec![value.into()]);
        self
    }
}

/// Whether policies allow something: a statement allows it and none denies it.
pub fn allow(policies: &[Policy], asked: &Asked) -> bool {
    let statements = || policies.iter().flat_map(|policy| &policy.statement);
    let of = |effect: Effect| statements().filter(move |one| one.effect == effect);
    let denied = of(Effect::Deny).any(|one| one.is_about(asked));
    !denied && of(Effect::Allow).any(|one| one.is_about(asked))
}

impl Statement {
    fn is_about(&self, asked: &Asked) -> bool {
        // Actions have no case.
        let action = asked.action.to_ascii_lowercase();
        let mut actions = self.action.iter();
        actions.any(|own| is_like(&own.to_ascii_lowercase(), &action))
            && self
                .resource
                .iter()
                .any(|own| is_like(own, &asked.resource))
            && self.condition.iter().all(|(operator, keys)| {
                let mut keys = keys.iter();
                keys.all(|(key, values)| operator.holds(&values.0, asked.context.get(key)))
            })
    }
}

impl Operator {
    fn holds(self, values: &[String], given: Option<&Vec<String>>) -> bool {
        let given = given.map_or(&[][..], Vec::as_slice);
        let equal = |one: &String| values.contains(one);
        match self {
            Operator::StringEquals => given.iter().any(equal),
            Operator::StringLike => given
                .iter()
                .any(|one| values.iter().any(|pattern| is_like(pattern, one))),
            Operator::StringEqualsIfExists => given.is_empty() || given.iter().any(equal),
            Operator::ForAllValuesStringEquals => given.iter().all(equal),
        }
    }
}

/// Whether a text is like a pattern: `*` is any number of characters, `?` one.
fn is_like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut from) = (0, 0);
    // Where the last star was, and up to where it reaches.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(own) if *own == '?' || *own == text[from] => {
                at += 1;
                from += 1;
            }
            _ => match &mut star {
                Some((place, reach)) => {
                    *reach += 1;
                    at = *place + 1;
                    from = *reach;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Policy {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn patterns_are_those_of_arns() {
        for (pattern, text, like) in [
            ("*", "", true),
            (
                "arn:aws:ec2:*:*:instance/*",
                "arn:aws:ec2:r:1:instance/i-1",
                true,
            ),
            (
                "arn:aws:ec2:*:*:instance/*",
                "arn:aws:ec2:r:1:volume/v-1",
                false,
            ),
            ("i-?", "i-1", true),
            ("i-?", "i-12", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbY", false),
        ] {
            assert_eq!(is_like(pattern, text), like, "{pattern} {text}");
        }
    }

    #[test]
    fn a_call_is_allowed_where_action_resource_and_all_conditions_fit() {
        let policies = [policy(
            r#"{"Version": "2012-10-17", "Statement": [
                {"Sid": "Own", "Effect": "Allow", "Action": ["ec2:TerminateInstances"],
                 "Resource": "arn:aws:ec2:r:*:instance/*",
                 "Condition": {"StringEquals": {"aws:ResourceTag/own": "owned"},
                               "StringLike": {"aws:ResourceTag/pool": "*"}}},
                {"Effect": "Allow", "Action": "ec2:CreateTags", "Resource": "*",
                 "Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": ["Name", "claim"]},
                               "StringEqualsIfExists": {"aws:RequestTag/cluster": "demo"}}},
                {"Effect": "Deny", "Action": "ec2:*", "Resource": "arn:aws:ec2:r:1:instance/i-9"}
            ]}"#,
        )];
        let end = |id: &str| {
            let resource = format!("arn:aws:ec2:r:1:instance/{id}");
            Asked::of("ec2:terminateinstances", resource).with("aws:ResourceTag/own", "owned")
        };
        let pool = |asked: Asked| asked.with("aws:ResourceTag/pool", "default");
        assert!(allow(&policies, &pool(end("i-1"))));
        assert!(!allow(&policies, &end("i-1")));
        assert!(!allow(
            &policies,
            &pool(end("i-1")).with("aws:ResourceTag/own", "shared")
        ));
        assert!(!allow(&policies, &pool(end("i-9"))));
        assert!(!allow(&policies, &Asked::of("ec2:RunInstances", "*")));
        let tags = |keys: &[&str]| {
            let mut asked = Asked::of("ec2:CreateTags", "arn:aws:ec2:r:1:instance/i-1");
            let keys = keys.iter().map(|key| (*key).to_owned());
            asked
                .context
                .insert("aws:TagKeys".to_owned(), keys.collect());
            asked
        };
        assert!(allow(&policies, &tags(&["Name", "claim"])));
        assert!(!allow(&policies, &tags(&["Name", "team"])));
        let cluster = |name: &str| tags(&["Name"]).with("aws:RequestTag/cluster", name);
        assert!(allow(&policies, &cluster("demo")) && !allow(&policies, &cluster("other")));
    }

    #[test]
    fn what_is_not_evaluated_is_refused_when_it_is_read() {
        for (part, word) in [
            (
                r#""Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}"#,
                "IpAddress",
            ),
            (r#""NotResource": "*""#, "NotResource"),
            (r#""Resource": []"#, "empty list"),
        ] {
            let text = format!(
                r#"{{"Statement": [{{"Effect": "Allow", "Action": "ec2:*", {part}, "Resource": "*"}}]}}"#
            );
            let said = serde_json::from_str::<Policy>(&text)
                .unwrap_err()
                .to_string();
            assert!(said.contains(word) || said.contains("duplicate"), "{said}");
        }
    }
}
