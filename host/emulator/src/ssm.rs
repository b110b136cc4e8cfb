//! SSM: parameters that name images, and those of the world file.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::action::Context;
use crate::json::{read, unknown};
use crate::wire::Refusal;
use crate::world::World;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct One {
    name: String,
    #[serde(default, rename = "WithDecryption")]
    _decrypted: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Several {
    names: Vec<String>,
    #[serde(default, rename = "WithDecryption")]
    _decrypted: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct ByPath {
    path: String,
    #[serde(default)]
    recursive: bool,
    #[serde(default)]
    max_results: Option<usize>,
    #[serde(default)]
    next_token: Option<String>,
    #[serde(default, rename = "WithDecryption")]
    _decrypted: bool,
}

pub(crate) fn answer(world: &World, context: &Context, body: &[u8]) -> Result<Value, Refusal> {
    let all = parameters(world);
    match &*context.action {
        "GetParameter" => {
            let wanted: One = read(body)?;
            let found = find(world, &all, &wanted.name);
            let found = found.ok_or_else(|| Refusal::new("ParameterNotFound", ""))?;
            Ok(json!({"Parameter": found}))
        }
        "GetParameters" => {
            let wanted: Several = read(body)?;
            let (mut found, mut invalid) = (Vec::new(), Vec::new());
            for name in wanted.names {
                match find(world, &all, &name) {
                    Some(one) => found.push(one),
                    None => invalid.push(name),
                }
            }
            Ok(json!({"Parameters": found, "InvalidParameters": invalid}))
        }
        "GetParametersByPath" => by_path(world, &all, read(body)?),
        other => Err(unknown(other)),
    }
}

fn by_path(world: &World, all: &BTreeMap<&str, &str>, wanted: ByPath) -> Result<Value, Refusal> {
    let most = wanted.max_results.unwrap_or(10);
    if !(1..=10).contains(&most) {
        let message = format!("MaxResults is {most}; it goes from 1 to 10");
        return Err(Refusal::new("ValidationException", message));
    }
    let folder = format!("{}/", wanted.path.trim_end_matches('/'));
    let inside = |name: &str| {
        let rest = name.strip_prefix(&folder);
        rest.is_some_and(|rest| wanted.recursive || !rest.contains('/'))
    };
    let after = wanted.next_token.unwrap_or_default();
    let mut names = all.keys().filter(|name| inside(name) && ***name > *after);
    let page: Vec<&&str> = names.by_ref().take(most).collect();
    let more = names.next().is_some();
    let found: Vec<_> = page
        .iter()
        .filter_map(|name| find(world, all, name))
        .collect();
    let mut answer = json!({"Parameters": found});
    if let (true, Some(last)) = (more, page.last()) {
        answer["NextToken"] = json!(last);
    }
    Ok(answer)
}

fn parameters(world: &World) -> BTreeMap<&str, &str> {
    let images = world.account.images.values();
    let of_images = images.flat_map(|one| one.parameters.iter().map(|name| (&**name, &*one.id)));
    let own = world
        .account
        .parameters
        .iter()
        .map(|(name, value)| (&**name, &**value));
    of_images.chain(own).collect()
}

/// A parameter by name or ARN.
fn find(world: &World, all: &BTreeMap<&str, &str>, name: &str) -> Option<Value> {
    let plain = match name.starts_with("arn:") {
        true => name.split_once(":parameter").map_or(name, |(_, rest)| rest),
        false => name,
    };
    let value = all.get(plain)?;
    Some(json!({
        "Name": plain,
        "Type": "String",
        "Value": value,
        "Version": 1,
        "LastModifiedDate": 1_760_000_000.0,
        "ARN": world.account.arn("ssm", &format!("parameter{plain}")),
        "DataType": "text",
    }))
}
