//! Kinds that make pods, as far as the server knows them.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::tests;
use crate::world::World;

tests![
    a_deployment_gets_its_defaults,
    a_generation_counts_changes_of_the_spec,
    a_status_of_a_new_object_is_dropped,
    a_selector_has_to_match_the_template,
    a_selector_stays,
    a_template_needs_containers,
    a_job_labels_its_pods_by_its_uid,
    a_job_restarts_on_failure_or_never,
    a_daemon_set_and_a_stateful_set_get_their_defaults,
    a_service_gets_an_address,
    a_null_is_nothing,
];

fn workload(name: &str, more: Value) -> Value {
    let mut object = json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}]},
            },
        },
    });
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        object["spec"][name] = value;
    }
    object
}

async fn a_deployment_gets_its_defaults(w: &World) -> Result<()> {
    let made = w
        .post(
            &w.group("apps/v1", "deployments"),
            &workload("d", json!({})),
        )
        .await?
        .ok()?;
    let spec = &made["spec"];
    ensure!(
        spec["replicas"] == 1 && spec["revisionHistoryLimit"] == 10,
        "{spec}"
    );
    ensure!(spec["progressDeadlineSeconds"] == 600, "{spec}");
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}});
    ensure!(spec["strategy"] == rolling, "{spec}");
    let pod = &spec["template"]["spec"];
    ensure!(
        pod["restartPolicy"] == "Always" && pod["terminationGracePeriodSeconds"] == 30,
        "{pod}"
    );
    ensure!(
        pod["tolerations"].is_null() && pod["priority"].is_null(),
        "{pod}"
    );
    ensure!(pod["containers"][0]["imagePullPolicy"] == "Always", "{pod}");
    Ok(())
}

async fn a_generation_counts_changes_of_the_spec(w: &World) -> Result<()> {
    let zero = workload("d", json!({"replicas": 0}));
    let made = w
        .post(&w.group("apps/v1", "replicasets"), &zero)
        .await?
        .ok()?;
    ensure!(made["metadata"]["generation"] == 1, "{made}");
    let path = w.group("apps/v1", "replicasets/d");
    let now = w
        .patch(&path, "merge", &json!({"metadata": {"labels": {"a": "b"}}}))
        .await?
        .ok()?;
    ensure!(now["metadata"]["generation"] == 1, "{now}");
    let now = w
        .patch(&path, "merge", &json!({"spec": {"minReadySeconds": 5}}))
        .await?
        .ok()?;
    ensure!(now["metadata"]["generation"] == 2, "{now}");
    let status = json!({"status": {"replicas": 0, "observedGeneration": 1}});
    let now = w
        .patch(&format!("{path}/status"), "merge", &status)
        .await?
        .ok()?;
    ensure!(now["metadata"]["generation"] == 2, "{now}");
    Ok(())
}

async fn a_status_of_a_new_object_is_dropped(w: &World) -> Result<()> {
    let mut set = workload("d", json!({"replicas": 0}));
    set["status"] = json!({"replicas": 7});
    let made = w
        .post(&w.group("apps/v1", "replicasets"), &set)
        .await?
        .ok()?;
    ensure!(
        made["status"]["replicas"].as_i64().unwrap_or(0) == 0,
        "{made}"
    );
    Ok(())
}

async fn a_selector_has_to_match_the_template(w: &World) -> Result<()> {
    let other = workload("d", json!({"selector": {"matchLabels": {"app": "other"}}}));
    let answer = w.post(&w.group("apps/v1", "deployments"), &other).await?;
    ensure!(
        answer.body["details"]["causes"][0]["field"] == "spec.template.metadata.labels",
        "{answer:?}"
    );
    answer.refused(422, "Invalid")?;
    Ok(())
}

async fn a_selector_stays(w: &World) -> Result<()> {
    w.post(
        &w.group("apps/v1", "deployments"),
        &workload("d", json!({"replicas": 0})),
    )
    .await?
    .ok()?;
    let labels = json!({"app": "d", "more": "x"});
    let patch = json!({"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}});
    let answer = w
        .patch(&w.group("apps/v1", "deployments/d"), "merge", &patch)
        .await?;
    ensure!(
        answer.body["details"]["causes"][0]["field"] == "spec.selector",
        "{answer:?}"
    );
    answer.refused(422, "Invalid")?;
    Ok(())
}

async fn a_template_needs_containers(w: &World) -> Result<()> {
    let mut set = workload("d", json!({}));
    set["spec"]["template"]["spec"]["containers"] = json!([]);
    let answer = w.post(&w.group("apps/v1", "daemonsets"), &set).await?;
    ensure!(
        answer.body["details"]["causes"][0]["field"] == "spec.template.spec.containers",
        "{answer:?}"
    );
    answer.refused(422, "Invalid")?;
    Ok(())
}

fn job(name: &str, policy: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"suspend": true, "template": {"spec": {
        "restartPolicy": policy, "containers": [{"name": "main", "image": "none"}],
    }}}})
}

async fn a_job_labels_its_pods_by_its_uid(w: &World) -> Result<()> {
    let made = w
        .post(&w.group("batch/v1", "jobs"), &job("j", "Never"))
        .await?
        .ok()?;
    let uid = &made["metadata"]["uid"];
    let spec = &made["spec"];
    ensure!(
        spec["selector"]["matchLabels"] == json!({"batch.kubernetes.io/controller-uid": uid}),
        "{spec}"
    );
    let labels = &spec["template"]["metadata"]["labels"];
    ensure!(
        labels["batch.kubernetes.io/controller-uid"] == *uid && labels["controller-uid"] == *uid,
        "{labels}"
    );
    ensure!(
        labels["batch.kubernetes.io/job-name"] == "j" && labels["job-name"] == "j",
        "{labels}"
    );
    ensure!(
        spec["completions"] == 1 && spec["parallelism"] == 1 && spec["backoffLimit"] == 6,
        "{spec}"
    );
    ensure!(spec["completionMode"] == "NonIndexed", "{spec}");
    Ok(())
}

async fn a_job_restarts_on_failure_or_never(w: &World) -> Result<()> {
    let answer = w
        .post(&w.group("batch/v1", "jobs"), &job("j", "Always"))
        .await?;
    ensure!(
        answer.body["details"]["causes"][0]["field"] == "spec.template.spec.restartPolicy",
        "{answer:?}"
    );
    answer.refused(422, "Invalid")?;
    Ok(())
}

async fn a_daemon_set_and_a_stateful_set_get_their_defaults(w: &World) -> Result<()> {
    let nowhere = json!({"metadata": {"labels": {"app": "d"}}, "spec": {
        "nodeSelector": {"no": "where"}, "containers": [{"name": "main", "image": "none"}],
    }});
    let made = w
        .post(
            &w.group("apps/v1", "daemonsets"),
            &workload("d", json!({"template": nowhere})),
        )
        .await?
        .ok()?;
    let rolling =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    ensure!(made["spec"]["updateStrategy"] == rolling, "{made}");
    let zero = workload("s", json!({"replicas": 0, "serviceName": "s"}));
    let made = w
        .post(&w.group("apps/v1", "statefulsets"), &zero)
        .await?
        .ok()?;
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
    ensure!(
        made["spec"]["updateStrategy"] == rolling
            && made["spec"]["podManagementPolicy"] == "OrderedReady",
        "{made}"
    );
    Ok(())
}

async fn a_service_gets_an_address(w: &World) -> Result<()> {
    let service = json!({"metadata": {"name": "s"}, "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}});
    let made = w.post(&w.core("services"), &service).await?.ok()?;
    let spec = &made["spec"];
    ensure!(
        spec["type"] == "ClusterIP"
            && spec["clusterIP"]
                .as_str()
                .is_some_and(|ip| ip.starts_with("10.96.")),
        "{spec}"
    );
    ensure!(
        spec["ports"][0] == json!({"port": 80, "protocol": "TCP", "targetPort": 80}),
        "{spec}"
    );
    let now = json!({"metadata": {"name": "s"}, "spec": {"selector": {"app": "b"}, "ports": [{"port": 80}]}});
    let now = w.put(&w.core("services/s"), &now).await?.ok()?;
    ensure!(now["spec"]["clusterIP"] == spec["clusterIP"], "{now}");
    Ok(())
}

async fn a_null_is_nothing(w: &World) -> Result<()> {
    let mut pod = w.pod("p", json!({}));
    pod["spec"]["nodeSelector"] = Value::Null;
    pod["metadata"]["annotations"] = Value::Null;
    let made = w.post(&w.core("pods"), &pod).await?.ok()?;
    let spec = made["spec"].as_object().cloned().unwrap_or_default();
    ensure!(!spec.contains_key("nodeSelector"), "{made}");
    ensure!(made["metadata"].get("annotations").is_none(), "{made}");
    Ok(())
}
