//! Pods: what they get, what stays, where they go and when they may leave.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::tests;
use crate::world::{World, version};

tests![
    a_pod_gets_its_defaults,
    a_pod_tolerates_trouble_for_five_minutes,
    limits_become_requests,
    a_pod_has_a_quality,
    a_pod_begins_pending_whatever_it_says,
    a_pod_without_containers_is_refused,
    a_pod_takes_the_priority_of_its_class,
    a_priority_class_that_is_not_there_is_refused,
    a_pod_can_hardly_be_changed,
    a_status_is_written_apart,
    a_pod_is_bound_once,
    a_pod_that_is_gated_is_not_bound,
    binding_clears_the_nomination,
    binding_another_uid_is_a_conflict,
    a_pod_that_is_going_is_not_bound,
    binding_is_no_new_generation,
    a_status_may_change_labels_and_no_owners,
    a_new_node_is_not_ready_and_keeps_its_status,
    a_provider_id_is_set_once,
    volumes_and_claims_are_protected,
];

async fn a_pod_gets_its_defaults(w: &World) -> Result<()> {
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "schedulerName": "nobody",
        "containers": [
            {"name": "a", "image": "none", "ports": [{"containerPort": 80}]},
            {"name": "b", "image": "registry:5000/none:1"},
        ],
    }});
    let made = w.post(&w.core("pods"), &pod).await?.ok()?;
    let spec = &made["spec"];
    ensure!(
        spec["restartPolicy"] == "Always" && spec["dnsPolicy"] == "ClusterFirst",
        "{spec}"
    );
    ensure!(
        spec["terminationGracePeriodSeconds"] == 30 && spec["enableServiceLinks"] == true,
        "{spec}"
    );
    ensure!(
        spec["securityContext"] == json!({}) && spec["priority"] == 0,
        "{spec}"
    );
    ensure!(spec["preemptionPolicy"] == "PreemptLowerPriority", "{spec}");
    let [a, b] = [&spec["containers"][0], &spec["containers"][1]];
    ensure!(
        a["imagePullPolicy"] == "Always" && b["imagePullPolicy"] == "IfNotPresent",
        "{spec}"
    );
    ensure!(
        a["resources"] == json!({}) && a["ports"][0]["protocol"] == "TCP",
        "{spec}"
    );
    ensure!(
        a["terminationMessagePath"] == "/dev/termination-log"
            && a["terminationMessagePolicy"] == "File"
    );
    ensure!(made["metadata"]["generation"] == 1, "{made}");
    Ok(())
}

async fn a_pod_tolerates_trouble_for_five_minutes(w: &World) -> Result<()> {
    let made = w.with_pod("p", json!({})).await?;
    let wanted = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let all = json!([
        wanted("node.kubernetes.io/not-ready"),
        wanted("node.kubernetes.io/unreachable")
    ]);
    ensure!(made["spec"]["tolerations"] == all, "{made}");
    let mut pod = w.pod("q", json!({}));
    pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    let made = w.post(&w.core("pods"), &pod).await?.ok()?;
    ensure!(
        made["spec"]["tolerations"] == json!([{"operator": "Exists"}]),
        "{made}"
    );
    Ok(())
}

fn with_resources(w: &World, name: &str, resources: Value) -> Value {
    let mut pod = w.pod(name, json!({}));
    pod["spec"]["containers"][0]["resources"] = resources;
    pod
}

async fn limits_become_requests(w: &World) -> Result<()> {
    let pod = with_resources(
        w,
        "p",
        json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}),
    );
    let made = w.post(&w.core("pods"), &pod).await?.ok()?;
    let requests = &made["spec"]["containers"][0]["resources"]["requests"];
    ensure!(
        *requests == json!({"cpu": "1", "memory": "1Gi"}),
        "{requests}"
    );
    Ok(())
}

async fn a_pod_has_a_quality(w: &World) -> Result<()> {
    for (name, resources, quality) in [
        ("p", json!({}), "BestEffort"),
        ("q", json!({"requests": {"cpu": "1"}}), "Burstable"),
        (
            "r",
            json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
            "Guaranteed",
        ),
        ("s", json!({"limits": {"cpu": "1"}}), "Burstable"),
    ] {
        let made = w
            .post(&w.core("pods"), &with_resources(w, name, resources))
            .await?
            .ok()?;
        ensure!(
            made["status"]["qosClass"] == quality,
            "{name} {}",
            made["status"]
        );
    }
    Ok(())
}

async fn a_pod_begins_pending_whatever_it_says(w: &World) -> Result<()> {
    let mut pod = w.pod("p", json!({}));
    pod["status"] = json!({"phase": "Running", "podIP": "10.0.0.1"});
    let made = w.post(&w.core("pods"), &pod).await?.ok()?;
    ensure!(
        made["status"]["phase"] == "Pending" && made["status"]["podIP"].is_null(),
        "{made}"
    );
    Ok(())
}

async fn a_pod_without_containers_is_refused(w: &World) -> Result<()> {
    let answer = w
        .post(
            &w.core("pods"),
            &json!({"metadata": {"name": "p"}, "spec": {"containers": []}}),
        )
        .await?;
    ensure!(
        answer.body["details"]["causes"][0]["field"] == "spec.containers",
        "{answer:?}"
    );
    ensure!(
        answer.refused(422, "Invalid")? == "Pod \"p\" is invalid: spec.containers: Required value"
    );
    Ok(())
}

async fn a_pod_takes_the_priority_of_its_class(w: &World) -> Result<()> {
    let name = w.named("high");
    let class = json!({"metadata": {"name": name}, "value": 1000, "preemptionPolicy": "Never"});
    w.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class)
        .await?
        .ok()?;
    let mut pod = w.pod("p", json!({}));
    pod["spec"]["priorityClassName"] = json!(name);
    let made = w.post(&w.core("pods"), &pod).await?.ok()?;
    ensure!(
        made["spec"]["priority"] == 1000 && made["spec"]["preemptionPolicy"] == "Never",
        "{made}"
    );
    let mut pod = w.pod("q", json!({}));
    pod["spec"]["priorityClassName"] = json!("system-node-critical");
    let made = w.post(&w.core("pods"), &pod).await?.ok()?;
    ensure!(made["spec"]["priority"] == 2_000_001_000, "{made}");
    Ok(())
}

async fn a_priority_class_that_is_not_there_is_refused(w: &World) -> Result<()> {
    let mut pod = w.pod("p", json!({}));
    pod["spec"]["priorityClassName"] = json!("none");
    let message = w
        .post(&w.core("pods"), &pod)
        .await?
        .refused(403, "Forbidden")?;
    ensure!(
        message == "pods \"p\" is forbidden: no PriorityClass with name none was found",
        "{message}"
    );
    Ok(())
}

async fn a_pod_can_hardly_be_changed(w: &World) -> Result<()> {
    w.with_pod("p", json!({})).await?;
    let path = w.core("pods/p");
    let priority = json!({"spec": {"priority": 7}});
    w.patch(&path, "merge", &priority)
        .await?
        .refused(422, "Invalid")?;
    let node = json!({"spec": {"nodeName": "somewhere"}});
    w.patch(&path, "merge", &node)
        .await?
        .refused(422, "Invalid")?;
    let image = json!({"spec": {"containers": [{"name": "main", "image": "other"}]}});
    let now = w.patch(&path, "strategic-merge", &image).await?.ok()?;
    ensure!(
        now["spec"]["containers"][0]["image"] == "other" && now["metadata"]["generation"] == 2,
        "{now}"
    );
    let now = w
        .patch(&path, "merge", &json!({"metadata": {"labels": {"a": "b"}}}))
        .await?
        .ok()?;
    ensure!(now["metadata"]["generation"] == 2, "{now}");
    Ok(())
}

async fn a_status_is_written_apart(w: &World) -> Result<()> {
    w.with_pod("p", json!({})).await?;
    let running = json!({"status": {"phase": "Running"}});
    let now = w.patch(&w.core("pods/p"), "merge", &running).await?.ok()?;
    ensure!(now["status"]["phase"] == "Pending", "{now}");
    let both = json!({"status": {"phase": "Running"}, "spec": {"activeDeadlineSeconds": 5}});
    let now = w
        .patch(&w.core("pods/p/status"), "merge", &both)
        .await?
        .ok()?;
    ensure!(
        now["status"]["phase"] == "Running" && now["spec"]["activeDeadlineSeconds"].is_null(),
        "{now}"
    );
    let same = w
        .patch(&w.core("pods/p/status"), "merge", &running)
        .await?
        .ok()?;
    ensure!(version(&same) == version(&now), "{same}");
    Ok(())
}

fn binding(pod: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}})
}

async fn a_pod_is_bound_once(w: &World) -> Result<()> {
    w.with_pod("p", json!({})).await?;
    let answer = w
        .post(&w.core("pods/p/binding"), &binding("p", &w.named("n1")))
        .await?;
    ensure!(
        answer.code == 201 && answer.body["status"] == "Success",
        "{answer:?}"
    );
    let now = w.get(&w.core("pods/p")).await?.ok()?;
    ensure!(now["spec"]["nodeName"] == w.named("n1"), "{now}");
    let scheduled = now["status"]["conditions"]
        .as_array()
        .and_then(|all| all.iter().find(|c| c["type"] == "PodScheduled"));
    ensure!(scheduled.is_some_and(|c| c["status"] == "True"), "{now}");
    let message = w
        .post(&w.core("pods/p/binding"), &binding("p", &w.named("n2")))
        .await?
        .refused(409, "Conflict")?;
    let wanted = format!(
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"{}\"",
        w.named("n1")
    );
    ensure!(message == wanted, "{message}");
    Ok(())
}

async fn a_pod_that_is_gated_is_not_bound(w: &World) -> Result<()> {
    let mut pod = w.pod("p", json!({}));
    pod["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    w.post(&w.core("pods"), &pod).await?.ok()?;
    let answer = w
        .post(&w.core("pods/p/binding"), &binding("p", "n"))
        .await?;
    ensure!(answer.code == 409, "{answer:?}");
    w.patch(
        &w.core("pods/p"),
        "merge",
        &json!({"spec": {"schedulingGates": []}}),
    )
    .await?
    .ok()?;
    w.post(&w.core("pods/p/binding"), &binding("p", "n"))
        .await?
        .ok()?;
    Ok(())
}

async fn binding_clears_the_nomination(w: &World) -> Result<()> {
    w.with_pod("p", json!({})).await?;
    let nominated = json!({"status": {"nominatedNodeName": "elsewhere"}});
    w.patch(&w.core("pods/p/status"), "merge", &nominated)
        .await?
        .ok()?;
    w.post(&w.core("pods/p/binding"), &binding("p", "n"))
        .await?
        .ok()?;
    let now = w.get(&w.core("pods/p")).await?.ok()?;
    ensure!(now["status"]["nominatedNodeName"].is_null(), "{now}");
    Ok(())
}

async fn binding_another_uid_is_a_conflict(w: &World) -> Result<()> {
    w.with_pod("p", json!({})).await?;
    let mut other = binding("p", "n");
    other["metadata"]["uid"] = json!("11111111-2222-4333-8444-555555555555");
    w.post(&w.core("pods/p/binding"), &other)
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}

async fn a_pod_that_is_going_is_not_bound(w: &World) -> Result<()> {
    let mut pod = w.pod("p", json!({}));
    pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    w.post(&w.core("pods"), &pod).await?.ok()?;
    w.delete(&w.core("pods/p"), &Value::Null).await?.ok()?;
    let message = w
        .post(&w.core("pods/p/binding"), &binding("p", "n"))
        .await?
        .refused(409, "Conflict")?;
    ensure!(
        message.ends_with("pod p is being deleted, cannot be assigned to a host"),
        "{message}"
    );
    w.patch(
        &w.core("pods/p"),
        "merge",
        &json!({"metadata": {"finalizers": null}}),
    )
    .await?
    .ok()?;
    Ok(())
}

async fn binding_is_no_new_generation(w: &World) -> Result<()> {
    w.with_pod("p", json!({})).await?;
    w.post(&w.core("pods/p/binding"), &binding("p", "n"))
        .await?
        .ok()?;
    let now = w.get(&w.core("pods/p")).await?.ok()?;
    ensure!(now["metadata"]["generation"] == 1, "{now}");
    Ok(())
}

async fn a_status_may_change_labels_and_no_owners(w: &World) -> Result<()> {
    w.with_pod("p", json!({})).await?;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": "1"});
    let patch = json!({"metadata": {"labels": {"a": "b"}, "ownerReferences": [owner]}});
    let now = w
        .patch(&w.core("pods/p/status"), "merge", &patch)
        .await?
        .ok()?;
    ensure!(
        now["metadata"]["labels"]["a"] == "b" && now["metadata"]["ownerReferences"].is_null(),
        "{now}"
    );
    Ok(())
}

async fn a_new_node_is_not_ready_and_keeps_its_status(w: &World) -> Result<()> {
    let name = w.named("node");
    let node = json!({
        "metadata": {"name": name}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}},
    });
    let made = w.post("/api/v1/nodes", &node).await?.ok()?;
    let taints = &made["spec"]["taints"];
    let wanted = json!([
        {"key": "a", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    ]);
    ensure!(*taints == wanted, "{taints}");
    ensure!(
        made["status"]["capacity"]["cpu"] == "4" && made["status"]["allocatable"]["cpu"] == "3",
        "{made}"
    );
    ensure!(made["metadata"]["generation"].is_null(), "{made}");
    let more = json!({"status": {"capacity": {"cpu": "8"}}});
    let now = w
        .patch(&format!("/api/v1/nodes/{name}"), "merge", &more)
        .await?
        .ok()?;
    ensure!(now["status"]["capacity"]["cpu"] == "4", "{now}");
    let now = w
        .patch(&format!("/api/v1/nodes/{name}/status"), "merge", &more)
        .await?
        .ok()?;
    ensure!(now["status"]["capacity"]["cpu"] == "8", "{now}");
    Ok(())
}

async fn a_provider_id_is_set_once(w: &World) -> Result<()> {
    let name = w.named("node");
    w.post("/api/v1/nodes", &json!({"metadata": {"name": name}}))
        .await?
        .ok()?;
    let with = |id: &str| json!({"spec": {"providerID": id}});
    let path = format!("/api/v1/nodes/{name}");
    w.patch(&path, "merge", &with("x://1")).await?.ok()?;
    w.patch(&path, "merge", &with("x://2"))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn volumes_and_claims_are_protected(w: &World) -> Result<()> {
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "storageClassName": "none", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    let made = w
        .post(&w.core("persistentvolumeclaims"), &claim)
        .await?
        .ok()?;
    ensure!(
        made["metadata"]["finalizers"] == json!(["kubernetes.io/pvc-protection"]),
        "{made}"
    );
    ensure!(
        made["status"]["phase"] == "Pending" && made["spec"]["volumeMode"] == "Filesystem",
        "{made}"
    );
    let volume = json!({"metadata": {"name": w.named("v")}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "other",
        "csi": {"driver": "d", "volumeHandle": "h"},
    }});
    let made = w.post("/api/v1/persistentvolumes", &volume).await?.ok()?;
    ensure!(
        made["metadata"]["finalizers"] == json!(["kubernetes.io/pv-protection"]),
        "{made}"
    );
    ensure!(
        made["spec"]["persistentVolumeReclaimPolicy"] == "Retain",
        "{made}"
    );
    Ok(())
}
