//! Creating and replacing objects: what the server adds, keeps and refuses.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::tests;
use crate::world::{World, names, plain, version};

tests![
    a_new_object_gets_a_uid_a_version_and_a_time,
    a_name_is_taken_once,
    a_name_is_made_from_a_prefix,
    an_object_without_a_name_is_refused,
    a_name_has_to_be_a_name,
    a_label_has_to_be_a_label,
    what_does_not_exist_is_not_found,
    a_namespace_that_does_not_exist_takes_nothing,
    a_namespace_in_the_object_has_to_be_the_one_of_the_path,
    an_object_of_another_kind_is_refused,
    text_that_is_not_json_is_refused,
    a_version_is_not_for_new_objects,
    a_dry_run_creates_nothing,
    replacing_with_an_old_version_is_a_conflict,
    replacing_without_a_version_overwrites,
    replacing_with_another_uid_is_a_conflict,
    replacing_with_another_name_is_refused,
    replacing_what_is_not_there_finds_nothing,
    replacing_a_lease_that_is_not_there_makes_it,
    a_lease_cannot_be_replaced_without_its_version,
    replacing_an_object_by_itself_keeps_its_version,
    the_server_keeps_what_is_its_own,
    versions_grow,
    a_path_without_a_kind_is_not_found,
    namespaces_have_their_name_as_a_label_and_a_finalizer,
    namespaces_of_the_system_stay,
    an_event_can_be_written_and_found_by_its_object,
];

async fn a_new_object_gets_a_uid_a_version_and_a_time(w: &World) -> Result<()> {
    let made = w.with_map("one", json!({"a": "1"})).await?;
    let metadata = &made["metadata"];
    ensure!(
        metadata["uid"].as_str().is_some_and(|uid| uid.len() == 36),
        "{made}"
    );
    ensure!(
        version(&made)
            .parse::<u64>()
            .is_ok_and(|version| version > 0),
        "{made}"
    );
    ensure!(
        metadata["creationTimestamp"]
            .as_str()
            .is_some_and(|at| at.len() == 20 && at.ends_with('Z')),
        "{made}"
    );
    ensure!(
        made["kind"] == "ConfigMap"
            && made["apiVersion"] == "v1"
            && metadata["namespace"] == w.namespace
    );
    Ok(())
}

async fn a_name_is_taken_once(w: &World) -> Result<()> {
    w.with_map("one", json!({})).await?;
    let again = w
        .post(&w.core("configmaps"), &json!({"metadata": {"name": "one"}}))
        .await?;
    ensure!(
        again.body["details"]["name"] == "one" && again.body["details"]["kind"] == "configmaps"
    );
    let message = again.refused(409, "AlreadyExists")?;
    ensure!(message == "configmaps \"one\" already exists", "{message}");
    Ok(())
}

async fn a_name_is_made_from_a_prefix(w: &World) -> Result<()> {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let map = json!({"metadata": {"generateName": "some-"}});
        let made = w.post(&w.core("configmaps"), &map).await?.ok()?;
        let name = plain(&made["metadata"]["name"]);
        ensure!(
            name.starts_with("some-") && name.len() == 10 && !seen.contains(&name),
            "{name}"
        );
        ensure!(made["metadata"]["generateName"] == "some-", "{made}");
        seen.push(name);
    }
    Ok(())
}

async fn an_object_without_a_name_is_refused(w: &World) -> Result<()> {
    let answer = w
        .post(&w.core("configmaps"), &json!({"metadata": {}}))
        .await?;
    let message = answer.refused(422, "Invalid")?;
    ensure!(
        message
            == "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
        "{message}"
    );
    Ok(())
}

async fn a_name_has_to_be_a_name(w: &World) -> Result<()> {
    for name in ["Upper", "-edge", "a_b", "a..b"] {
        let answer = w
            .post(&w.core("configmaps"), &json!({"metadata": {"name": name}}))
            .await?;
        ensure!(
            answer.body["details"]["causes"][0]["field"] == "metadata.name",
            "{}",
            answer.body
        );
        answer.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn a_label_has_to_be_a_label(w: &World) -> Result<()> {
    for labels in [json!({"a b": "x"}), json!({"a": "x y"}), json!({"a": "-"})] {
        let map = json!({"metadata": {"name": "m", "labels": labels}});
        let answer = w.post(&w.core("configmaps"), &map).await?;
        ensure!(
            answer.body["details"]["causes"][0]["field"] == "metadata.labels",
            "{}",
            answer.body
        );
        answer.refused(422, "Invalid")?;
    }
    Ok(())
}

async fn what_does_not_exist_is_not_found(w: &World) -> Result<()> {
    let answer = w.get(&w.core("pods/none")).await?;
    ensure!(
        answer.body["details"] == json!({"name": "none", "kind": "pods"}),
        "{}",
        answer.body
    );
    ensure!(answer.refused(404, "NotFound")? == "pods \"none\" not found");
    let answer = w.get(&w.group("apps/v1", "deployments/none")).await?;
    ensure!(answer.body["details"]["group"] == "apps", "{}", answer.body);
    ensure!(answer.refused(404, "NotFound")? == "deployments.apps \"none\" not found");
    w.delete(&w.core("pods/none"), &Value::Null)
        .await?
        .refused(404, "NotFound")?;
    Ok(())
}

async fn a_namespace_that_does_not_exist_takes_nothing(w: &World) -> Result<()> {
    let path = format!("/api/v1/namespaces/{}/configmaps", w.named("nowhere"));
    let message = w
        .post(&path, &json!({"metadata": {"name": "m"}}))
        .await?
        .refused(404, "NotFound")?;
    ensure!(
        message == format!("namespaces \"{}\" not found", w.named("nowhere")),
        "{message}"
    );
    let list = w.get(&path).await?.ok()?;
    ensure!(names(&list).is_empty(), "{list}");
    Ok(())
}

async fn a_namespace_in_the_object_has_to_be_the_one_of_the_path(w: &World) -> Result<()> {
    let map = json!({"metadata": {"name": "m", "namespace": "default"}});
    w.post(&w.core("configmaps"), &map)
        .await?
        .refused(400, "BadRequest")?;
    Ok(())
}

async fn an_object_of_another_kind_is_refused(w: &World) -> Result<()> {
    let other = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "m"}});
    w.post(&w.core("configmaps"), &other)
        .await?
        .refused(400, "BadRequest")?;
    Ok(())
}

async fn text_that_is_not_json_is_refused(w: &World) -> Result<()> {
    let header = [("content-type", "application/json")];
    let answer = w
        .send(
            "POST",
            &w.core("configmaps"),
            &header,
            "{\"metadata\":".to_owned(),
        )
        .await?;
    answer.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_version_is_not_for_new_objects(w: &World) -> Result<()> {
    let map = json!({"metadata": {"name": "m", "resourceVersion": "5"}});
    let answer = w.post(&w.core("configmaps"), &map).await?;
    ensure!(answer.code == 500, "{answer:?}");
    ensure!(
        plain(&answer.body["message"]).contains("resourceVersion should not be set"),
        "{answer:?}"
    );
    Ok(())
}

async fn a_dry_run_creates_nothing(w: &World) -> Result<()> {
    let path = format!("{}?dryRun=All", w.core("configmaps"));
    let made = w
        .post(&path, &json!({"metadata": {"name": "m"}}))
        .await?
        .ok()?;
    ensure!(made["metadata"]["uid"].is_string(), "{made}");
    w.get(&w.core("configmaps/m"))
        .await?
        .refused(404, "NotFound")?;
    Ok(())
}

async fn replacing_with_an_old_version_is_a_conflict(w: &World) -> Result<()> {
    let first = w.with_map("m", json!({"a": "1"})).await?;
    let mut next = first.clone();
    next["data"]["a"] = json!("2");
    w.put(&w.core("configmaps/m"), &next).await?.ok()?;
    let message = w
        .put(&w.core("configmaps/m"), &next)
        .await?
        .refused(409, "Conflict")?;
    let wanted = "Operation cannot be fulfilled on configmaps \"m\": the object has been modified; please apply your \
        changes to the latest version and try again";
    ensure!(message == wanted, "{message}");
    Ok(())
}

async fn replacing_without_a_version_overwrites(w: &World) -> Result<()> {
    w.with_map("m", json!({"a": "1", "b": "2"})).await?;
    let next = json!({"metadata": {"name": "m"}, "data": {"c": "3"}});
    let now = w.put(&w.core("configmaps/m"), &next).await?.ok()?;
    ensure!(now["data"] == json!({"c": "3"}), "{now}");
    Ok(())
}

async fn replacing_with_another_uid_is_a_conflict(w: &World) -> Result<()> {
    let mut next = w.with_map("m", json!({})).await?;
    next["metadata"]["uid"] = json!("11111111-2222-4333-8444-555555555555");
    w.put(&w.core("configmaps/m"), &next)
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}

async fn replacing_with_another_name_is_refused(w: &World) -> Result<()> {
    let mut next = w.with_map("m", json!({})).await?;
    next["metadata"]["name"] = json!("n");
    w.put(&w.core("configmaps/m"), &next)
        .await?
        .refused(400, "BadRequest")?;
    Ok(())
}

async fn replacing_what_is_not_there_finds_nothing(w: &World) -> Result<()> {
    let map = json!({"metadata": {"name": "m"}});
    w.put(&w.core("configmaps/m"), &map)
        .await?
        .refused(404, "NotFound")?;
    Ok(())
}

async fn replacing_a_lease_that_is_not_there_makes_it(w: &World) -> Result<()> {
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    let answer = w
        .put(&w.group("coordination.k8s.io/v1", "leases/l"), &lease)
        .await?;
    ensure!(answer.code == 201, "{answer:?}");
    Ok(())
}

async fn a_lease_cannot_be_replaced_without_its_version(w: &World) -> Result<()> {
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    w.post(&w.group("coordination.k8s.io/v1", "leases"), &lease)
        .await?
        .ok()?;
    let answer = w
        .put(&w.group("coordination.k8s.io/v1", "leases/l"), &lease)
        .await?;
    ensure!(
        answer.body["details"]["causes"][0]["field"] == "metadata.resourceVersion",
        "{answer:?}"
    );
    answer.refused(422, "Invalid")?;
    Ok(())
}

async fn replacing_an_object_by_itself_keeps_its_version(w: &World) -> Result<()> {
    let first = w.with_map("m", json!({"a": "1"})).await?;
    let again = w.put(&w.core("configmaps/m"), &first).await?.ok()?;
    ensure!(version(&first) == version(&again), "{again}");
    Ok(())
}

async fn the_server_keeps_what_is_its_own(w: &World) -> Result<()> {
    let first = w.with_map("m", json!({})).await?;
    let mut next = first.clone();
    next["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    next["metadata"]["generation"] = json!(17);
    let now = w.put(&w.core("configmaps/m"), &next).await?.ok()?;
    ensure!(
        now["metadata"]["creationTimestamp"] == first["metadata"]["creationTimestamp"],
        "{now}"
    );
    ensure!(now["metadata"]["generation"].is_null(), "{now}");
    next["metadata"]["deletionTimestamp"] = json!("2001-01-01T00:00:00Z");
    next["metadata"]["resourceVersion"] = json!("");
    w.put(&w.core("configmaps/m"), &next)
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn versions_grow(w: &World) -> Result<()> {
    let a = w.with_map("a", json!({})).await?;
    let b = w.with_pod("b", json!({})).await?;
    ensure!(version(&a).parse::<u64>()? < version(&b).parse::<u64>()?);
    let list = w.get(&w.core("configmaps")).await?.ok()?;
    ensure!(version(&list).parse::<u64>()? >= version(&b).parse::<u64>()?);
    Ok(())
}

async fn a_path_without_a_kind_is_not_found(w: &World) -> Result<()> {
    let code = |path: &'static str| async move {
        let request = http::Request::get(path).body(Vec::new().into())?;
        anyhow::Ok(w.client.send(request).await?.status().as_u16())
    };
    ensure!(code("/apis/nowhere.example/v1/things").await? == 404);
    ensure!(code("/api/v1/things").await? == 404);
    Ok(())
}

async fn namespaces_have_their_name_as_a_label_and_a_finalizer(w: &World) -> Result<()> {
    let namespace = w
        .get(&format!("/api/v1/namespaces/{}", w.namespace))
        .await?
        .ok()?;
    ensure!(
        namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] == w.namespace,
        "{namespace}"
    );
    ensure!(
        namespace["spec"]["finalizers"] == json!(["kubernetes"]),
        "{namespace}"
    );
    ensure!(namespace["status"]["phase"] == "Active", "{namespace}");
    Ok(())
}

async fn namespaces_of_the_system_stay(w: &World) -> Result<()> {
    for name in ["default", "kube-system"] {
        w.get(&format!("/api/v1/namespaces/{name}")).await?.ok()?;
        let answer = w
            .delete(&format!("/api/v1/namespaces/{name}"), &Value::Null)
            .await?;
        answer.refused(403, "Forbidden")?;
    }
    Ok(())
}

async fn an_event_can_be_written_and_found_by_its_object(w: &World) -> Result<()> {
    let event = |name: &str, of: &str| {
        json!({
            "metadata": {"name": name}, "reason": "Tried", "type": "Normal", "message": "as asked",
            "involvedObject": {"kind": "Pod", "name": of, "namespace": w.namespace},
        })
    };
    w.post(&w.core("events"), &event("e1", "a")).await?.ok()?;
    w.post(&w.core("events"), &event("e2", "b")).await?.ok()?;
    let list = w
        .get(&format!(
            "{}?fieldSelector=involvedObject.name%3Db",
            w.core("events")
        ))
        .await?
        .ok()?;
    ensure!(names(&list) == ["e2"], "{list}");
    Ok(())
}
