//! Reads EC2NodeClasses from manifests.

use std::collections::BTreeSet;

use longshore_api::manifests::{Diagnostic, Diagnostics, Document, PASSED_OVER, documents, quoted};
use serde_json::{Value, json};

use super::{EC2NodeClass, GROUP, admission, unreadable};

/// The EC2NodeClasses of a text (YAML, JSON, Lists), in its order, and diagnostics of those that
/// cannot be read or have fields that do not count. Defaults of the schema are filled in; its rules
/// are not checked. Other kinds are counted. `source` names the text in diagnostics.
pub fn read(source: &str, bytes: &[u8]) -> (Vec<EC2NodeClass>, Diagnostics) {
    let (found, problems) = documents(source, bytes);
    let found: Vec<Document> = found.into_iter().flat_map(Document::items).collect();
    of_documents(&found, problems)
}

/// The same of the documents of a text, none of which is a List. `problems` are those that are
/// known of it.
pub fn of_documents(
    found: &[Document],
    mut problems: Diagnostics,
) -> (Vec<EC2NodeClass>, Diagnostics) {
    let (mut classes, mut names) = (Vec::new(), BTreeSet::new());
    for document in found {
        let group = document
            .field("apiVersion")
            .and_then(|v| v.split('/').next());
        let kind = document.field("kind").unwrap_or_default();
        if kind != "EC2NodeClass" || group.is_some_and(|group| group != GROUP) {
            let kind = kind.chars().take(100).collect();
            *problems.ignored.entry(kind).or_default() += 1;
            continue;
        }
        let admitted = admitted(document).map(|(class, notes)| {
            notes.into_iter().for_each(|note| problems.push(note));
            class
        });
        match admitted {
            Ok(class) if !names.insert(class.metadata.name.clone()) => {
                problems.push(document.refuse(
                    "",
                    "is there twice",
                    "remove one; the first is used",
                ));
            }
            Ok(class) => classes.push(class),
            Err(problem) => problems.push(problem),
        }
    }
    (classes, problems)
}

/// The EC2NodeClass of a document that says that it is one.
#[allow(
    clippy::result_large_err,
    reason = "one for each document that is refused"
)]
pub fn of_document(document: &Document) -> Result<EC2NodeClass, Diagnostic> {
    admitted(document).map(|(class, _)| class)
}

/// Gives an EC2NodeClass without a spec, which the API server takes, one that selects nothing.
pub fn give_spec(object: &mut Value) {
    if let Some(object) = object
        .as_object_mut()
        .filter(|object| !object.contains_key("spec"))
    {
        object.insert("spec".to_owned(), selects_nothing());
    }
}

fn selects_nothing() -> Value {
    json!({"amiSelectorTerms": [], "securityGroupSelectorTerms": [], "subnetSelectorTerms": []})
}

/// The EC2NodeClass of a document as the API server stores it, and fields that do not count.
#[allow(
    clippy::result_large_err,
    reason = "one for each document that is refused"
)]
fn admitted(document: &Document) -> Result<(EC2NodeClass, Vec<Diagnostic>), Diagnostic> {
    match document.field("apiVersion") {
        Some("karpenter.k8s.aws/v1") => {}
        Some(other) => {
            let what = format!("{} is not read", quoted(other));
            return Err(document.refuse("apiVersion", what, "convert it to karpenter.k8s.aws/v1"));
        }
        None => {
            return Err(document.refuse("apiVersion", "is missing", "write karpenter.k8s.aws/v1"));
        }
    }
    let mut document = document.clone();
    let mut notes = document.prune(admission())?;
    let object: Value = serde_json::from_str(document.text()).unwrap_or_default();
    for (field, what) in unreadable(&object) {
        if field == "status" {
            document.leave_out("status");
        }
        notes.push(document.refuse(&field, what, PASSED_OVER));
    }
    // Types are those of what is written.
    let written = document.clone();
    document.give("spec", &selects_nothing());
    let class: EC2NodeClass = document.read()?;
    if class
        .metadata
        .name
        .as_deref()
        .unwrap_or_default()
        .is_empty()
    {
        return Err(document.refuse("metadata.name", "is missing", "give it one"));
    }
    written.check_types(admission())?;
    Ok((class, notes))
}
