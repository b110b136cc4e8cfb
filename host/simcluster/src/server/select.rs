//! The objects that a list or a watch selects: by labels and by the few selectable fields.

use serde_json::{Map, Value};

use super::api_error::ApiErrorWithDetails;
use super::meta::{is_label_value, is_qualified, text};
use crate::object::Resource;

/// A selection. The default one takes everything.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    labels: Vec<Need>,
    fields: Vec<(Vec<String>, String, bool)>,
}

#[derive(Clone, Debug)]
struct Need {
    key: String,
    how: How,
}

#[derive(Clone, Debug)]
enum How {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

impl Selector {
    /// From the two parameters of a request.
    pub fn parse(
        resource: Resource,
        labels: &str,
        fields: &str,
    ) -> Result<Self, ApiErrorWithDetails> {
        Ok(Selector {
            labels: parse_labels(labels)?,
            fields: parse_fields(resource, fields)?,
        })
    }

    /// From a `metav1.LabelSelector`. One with nothing in it takes everything.
    pub fn of(selector: &Value) -> Self {
        let mut labels = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            labels.push(Need {
                key: key.clone(),
                how: How::In(vec![value]),
            });
        }
        for need in selector["matchExpressions"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let values: Vec<String> = need["values"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            let how = match text(need, &["operator"]) {
                "In" => How::In(values),
                "NotIn" => How::NotIn(values),
                "DoesNotExist" => How::Absent,
                _ => How::Exists,
            };
            labels.push(Need {
                key: text(need, &["key"]).to_owned(),
                how,
            });
        }
        Selector {
            labels,
            fields: Vec::new(),
        }
    }

    /// As it is, and of one name alone.
    pub fn named(mut self, name: &str) -> Self {
        self.fields.push((
            vec!["metadata".to_owned(), "name".to_owned()],
            name.to_owned(),
            true,
        ));
        self
    }

    /// The node that pods are selected by, if any.
    pub fn node(&self) -> Option<&str> {
        let one = self
            .fields
            .iter()
            .find(|(path, _, equal)| *equal && *path == ["spec", "nodeName"]);
        one.map(|(_, node, _)| node.as_str())
            .filter(|node| !node.is_empty())
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether it takes an object.
    pub fn takes(&self, object: &Value) -> bool {
        if self.is_empty() {
            return true;
        }
        let labels = object["metadata"]["labels"].as_object();
        let field = |path: &Vec<String>| {
            path.iter()
                .try_fold(object, |v, f| v.get(f))
                .map(plain)
                .unwrap_or_default()
        };
        self.takes_labels(labels)
            && self
                .fields
                .iter()
                .all(|(path, wanted, equal)| (field(path) == *wanted) == *equal)
    }

    /// Whether it takes an object with these labels, its fields left aside.
    pub fn takes_labels(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.labels.iter().all(|need| {
            let value = labels
                .and_then(|labels| labels.get(&need.key))
                .and_then(Value::as_str);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match &need.how {
                How::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
                How::NotIn(values) => value.is_none_or(|value| values.iter().all(|v| v != value)),
                How::Exists => value.is_some(),
                How::Absent => value.is_none(),
                How::Above(least) => number().is_some_and(|n| n > *least),
                How::Below(most) => number().is_some_and(|n| n < *most),
            }
        })
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn parse_labels(all: &str) -> Result<Vec<Need>, ApiErrorWithDetails> {
    let mut needs = Vec::new();
    let mut rest = all.trim();
    while !rest.is_empty() {
        let end = top_comma(rest);
        let part = rest[..end].trim();
        needs.push(need(part).ok_or_else(|| {
            ApiErrorWithDetails::bad(format!(
                "unable to parse requirement: found '{part}' in the label selector '{all}'"
            ))
        })?);
        rest = rest.get(end + 1..).unwrap_or("").trim();
    }
    Ok(needs)
}

/// The first comma that is not between parentheses, or the end.
fn top_comma(text: &str) -> usize {
    let mut depth = 0i32;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

fn need(part: &str) -> Option<Need> {
    let made = |key: &str, how| {
        let key = key.trim();
        let values = match &how {
            How::In(values) | How::NotIn(values) => &values[..],
            _ => &[],
        };
        (is_qualified(key) && values.iter().all(|value| is_label_value(value))).then(|| Need {
            key: key.to_owned(),
            how,
        })
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((key, value)) = part.split_once("!=") {
        return made(key, How::NotIn(one(value)));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return made(key, How::In(one(value)));
    }
    if let Some((head, values)) = part.split_once('(') {
        let values = values
            .trim_end()
            .strip_suffix(')')?
            .split(',')
            .map(|v| v.trim().to_owned())
            .collect();
        let (key, operator) = head.trim().rsplit_once(char::is_whitespace)?;
        return match operator {
            "in" => made(key, How::In(values)),
            "notin" => made(key, How::NotIn(values)),
            _ => None,
        };
    }
    if let Some((key, least)) = part.split_once('>') {
        return made(key, How::Above(least.trim().parse().ok()?));
    }
    if let Some((key, most)) = part.split_once('<') {
        return made(key, How::Below(most.trim().parse().ok()?));
    }
    match part.strip_prefix('!') {
        Some(key) => made(key, How::Absent),
        None => made(part, How::Exists),
    }
}

fn parse_fields(
    resource: Resource,
    all: &str,
) -> Result<Vec<(Vec<String>, String, bool)>, ApiErrorWithDetails> {
    let mut needs = Vec::new();
    for part in all
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (field, value, equal) = match part.split_once("!=") {
            Some((field, value)) => (field, value, false),
            None => match part.split_once("==").or_else(|| part.split_once('=')) {
                Some((field, value)) => (field, value, true),
                None => {
                    return Err(ApiErrorWithDetails::bad(format!(
                        "invalid selector: '{all}'; can't understand '{part}'"
                    )));
                }
            },
        };
        if !can_be_asked_for(resource, field) {
            let version = resource.api_version();
            return Err(ApiErrorWithDetails::bad(match resource.is_custom() {
                true => format!("field label not supported: {field}"),
                false => format!(
                    "Unable to find \"{version}, Resource={}\" that match label selector \"\", field \
                    selector \"{part}\": field label not supported: {field}",
                    resource.plural
                ),
            }));
        }
        needs.push((
            field.split('.').map(str::to_owned).collect(),
            value.to_owned(),
            equal,
        ));
    }
    Ok(needs)
}

fn can_be_asked_for(resource: Resource, field: &str) -> bool {
    let more: &[&str] = match resource.plural {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "nodes" => &["spec.unschedulable"],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "namespaces" => &["status.phase"],
        "jobs" => &["status.successful"],
        "replicasets" => &["status.replicas"],
        "replicationcontrollers" => &["status.replicas"],
        "services" => &["spec.clusterIP", "spec.type"],
        _ => &[],
    };
    field == "metadata.name" || field == "metadata.namespace" || more.contains(&field)
}
