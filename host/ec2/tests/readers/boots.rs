//! What becomes of user data and settings with which nodes were seen not to boot, or to boot with
//! less than was asked for: kept, refused or said.

use std::fmt::Write as _;

use longshore_ec2::userdata::nodes;
use serde_json::{Value, json};

/// A node of a family, for its user data and settings.
fn node(family: &str, more: &Value) -> String {
    let mut node = json!({
        "name": "node",
        "amiFamily": family,
        "resolve": true,
        "maxPods": 29,
        "cluster": {"name": "demo", "endpoint": "https://demo.eks.example", "caBundle": "Y2E=",
            "cidr": "10.100.0.0/16", "kubeDNSIP": "10.100.0.10"},
    });
    let fields = more.as_object().cloned().unwrap_or_default();
    node.as_object_mut().expect("it is a map").extend(fields);
    let (found, problems) = nodes("node", node.to_string().as_bytes());
    assert!(problems.is_empty(), "{problems}");
    let one = &found[0];
    let mut out = match one.error.as_str() {
        "" => String::new(),
        error => format!("refused: {error}\n"),
    };
    let ours = "--//\nContent-Type: application/node.eks.aws\n\n# Karpenter Generated NodeConfig";
    let theirs = one.user_data.split(ours).next().unwrap_or_default();
    let theirs = theirs.split_once("\n\n").map_or(theirs, |(_, rest)| rest);
    let shown = match family {
        "AL2023" => theirs.to_owned(),
        "AL2" => one
            .user_data
            .lines()
            .filter(|line| line.contains("filename"))
            .collect::<Vec<_>>()
            .join("\n"),
        _ => {
            let ours = ["api-server", "cluster-", "karpenter.sh"];
            let own = |line: &&str| {
                !ours
                    .iter()
                    .any(|start| line.trim_start_matches('\'').starts_with(start))
            };
            one.user_data
                .lines()
                .filter(own)
                .collect::<Vec<_>>()
                .join("\n")
        }
    };
    out.push_str(shown.trim());
    for warning in &one.warnings {
        let _ = write!(out, "\nwarning: {warning}");
    }
    out.trim().to_owned()
}

fn all(family: &str, cases: &[(&str, Value)]) -> String {
    let mut out = String::new();
    for (what, more) in cases {
        let _ = writeln!(out, "==> {what}\n{}", node(family, more));
    }
    out
}

fn config(kubelet: &str) -> Value {
    let text = format!(
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n{kubelet}\n"
    );
    json!({"userData": text})
}

#[test]
fn user_data_of_al2023_is_sent_as_what_it_is_or_refused() {
    let two = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: {podPidsLimit: 1000}}}\n\
               ---\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: {seccompDefault: true}}}\n";
    let archive = |part: &str| json!({"userData": format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\n{part}\n--B--\n")});
    let script = "Content-Type: text/x-shellscript; charset=\"utf-8\"\nContent-Transfer-Encoding: base64\n\
                  Content-Disposition: attachment; filename=\"setup.sh\"\n\nIyEvYmluL2Jhc2gKZWNobyBoaQo=";
    let merge = "Content-Type: text/cloud-config\nX-Merge-Type: list(append)+dict(recurse_array)+str()\n\n\
                 #cloud-config\nruncmd: [two]";
    let cases = [
        (
            "a cloud-config alone",
            json!({"userData": "#cloud-config\nruncmd:\n- echo hi\n"}),
        ),
        (
            "a script of comments",
            json!({"userData": "#!/bin/bash\n# nothing yet\n"}),
        ),
        (
            "a script that reads as a map",
            json!({"userData": "#!/bin/bash\necho a: b\n"}),
        ),
        ("comments alone", json!({"userData": "# nothing yet\n"})),
        (
            "a map that is no NodeConfig",
            json!({"userData": "runcmd:\n- echo hi\n"}),
        ),
        (
            "a NodeConfig of another version",
            json!({"userData": "apiVersion: node.eks.aws/v1beta1\nkind: NodeConfig\n"}),
        ),
        ("flags as a text", config("    flags: --node-labels=a=b")),
        (
            "a NodeConfig with a merge key",
            json!({"userData": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    \
                config: &all {podPidsLimit: 5}\n  other:\n    <<: *all\n"}),
        ),
        ("two documents", json!({"userData": two})),
        ("a script in base64", archive(script)),
        ("a way to merge", archive(merge)),
        (
            "a line like the boundary",
            json!({"userData": "#!/bin/bash\ncat <<EOF\n--//--\nEOF\n"}),
        ),
        (
            "a flag that no kubelet has",
            config("    flags: [--no-such-flag=1]"),
        ),
        (
            "a flag of taints",
            config("    flags: [\"--register-with-taints=mine=1:NoSchedule\"]"),
        ),
        (
            "a setting that no kubelet takes",
            config("    config: {imageGCHighThresholdPercent: 80}"),
        ),
        (
            "a setting that there is not",
            config("    config: {maxPodz: 20}"),
        ),
        (
            "settings of every node",
            config(
                "    config: {maxPods: 110, clusterDNS: [169.254.20.10], registerWithTaints: []}",
            ),
        ),
        (
            "a signal that Karpenter does not know",
            config("    config: {evictionHard: {containerfs.available: 10%}}"),
        ),
        (
            "an amount that is none",
            config("    config: {systemReserved: {memory: 1Gx}}"),
        ),
        (
            "an ID of one instance",
            config("    config: {providerID: \"aws:///us-east-1a/i-1\"}"),
        ),
        ("no Node", config("    flags: [--register-node=false]")),
        ("one name", config("    flags: [--hostname-override=node]")),
        (
            "a label of Kubernetes",
            config("    flags: [--node-labels=node-role.kubernetes.io/gpu=true]"),
        ),
        (
            "TOML that is broken",
            json!({"userData": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  containerd:\n    config: \"a = [\"\n"}),
        ),
        (
            "disks in a way that there is not",
            json!({"userData": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  instance:\n    localStorage: {strategy: RAID5}\n"}),
        ),
        (
            "an outpost without an ID",
            json!({"userData": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {enableOutpost: true}\n"}),
        ),
    ];
    expect_test::expect_file!["boots/al2023.txt"].assert_eq(&all("AL2023", &cases));
}

#[test]
fn settings_that_a_kubelet_ends_on_are_refused_with_its_reason() {
    let kubelet = |settings: Value| json!({"kubelet": settings});
    let cases = [
        (
            "a mark against the other's default",
            kubelet(json!({"imageGCHighThresholdPercent": 80})),
        ),
        (
            "the other mark",
            kubelet(json!({"imageGCLowThresholdPercent": 85})),
        ),
        (
            "an unknown gate",
            kubelet(json!({"featureGates": {"NoSuchGate": true}})),
        ),
        (
            "a gate in other letters",
            kubelet(json!({"featureGates": {"nodeswap": true}})),
        ),
        (
            "a locked gate",
            kubelet(json!({"featureGates": {"InPlacePodVerticalScaling": false}})),
        ),
        (
            "the same gate of 1.34",
            json!({"kubernetes": "1.34",
            "kubelet": {"featureGates": {"InPlacePodVerticalScaling": false}}}),
        ),
        (
            "a gate that others need",
            kubelet(json!({"featureGates": {"GracefulNodeShutdown": false}})),
        ),
        (
            "a gate whose default is there",
            kubelet(json!({"featureGates": {"KubeletCrashLoopBackOffMax": false}})),
        ),
        (
            "CPUs of the system",
            kubelet(json!({"reservedSystemCPUs": "0"})),
        ),
        (
            "CPUs of the system, without groups",
            kubelet(json!({"reservedSystemCPUs": "0",
            "systemReservedCgroup": "", "kubeReservedCgroup": ""})),
        ),
        (
            "a short shutdown",
            kubelet(json!({"shutdownGracePeriod": "20s"})),
        ),
        ("no shutdown", kubelet(json!({"shutdownGracePeriod": "0s"}))),
        (
            "no shutdown of 1.33",
            json!({"kubernetes": "1.33", "kubelet": {"shutdownGracePeriod": "0s"}}),
        ),
        (
            "shutdown by priority",
            kubelet(json!({"shutdownGracePeriodByPodPriority":
            [{"priority": 0, "shutdownGracePeriodSeconds": 60}]})),
        ),
        ("one log file", kubelet(json!({"containerLogMaxFiles": 1}))),
        (
            "a short interval",
            kubelet(json!({"containerLogMonitorInterval": "1s"})),
        ),
        (
            "a long back-off",
            kubelet(json!({"crashLoopBackOff": {"maxContainerRestartPeriod": "10m"}})),
        ),
        ("a relative folder", kubelet(json!({"podLogsDir": "logs"}))),
        ("a burst below zero", kubelet(json!({"eventBurst": -1}))),
        (
            "a score beyond the kernel's",
            kubelet(json!({"oomScoreAdj": -2000})),
        ),
        (
            "swap as it was",
            kubelet(json!({"memorySwap": {"swapBehavior": "UnlimitedSwap"}})),
        ),
        (
            "ages that cross",
            kubelet(json!({"imageMaximumGCAge": "1m"})),
        ),
        (
            "few ids",
            kubelet(json!({"userNamespaces": {"idsPerPod": 1000}})),
        ),
        (
            "an unknown word",
            kubelet(json!({"topologyManagerPolicy": "numa"})),
        ),
        (
            "a manager of memory alone",
            kubelet(json!({"memoryManagerPolicy": "Static"})),
        ),
        ("no hard eviction", kubelet(json!({"evictionHard": null}))),
        (
            "sysctls of the node",
            kubelet(json!({"allowedUnsafeSysctls": ["net.core.somaxconn", "vm.swappiness"]})),
        ),
        (
            "a sysctl that is none",
            kubelet(json!({"allowedUnsafeSysctls": ["Net.Core"]})),
        ),
        (
            "metrics of another version",
            kubelet(json!({"showHiddenMetricsForVersion": "1.34"})),
        ),
        (
            "metrics of the version before",
            kubelet(json!({"showHiddenMetricsForVersion": "1.35"})),
        ),
        (
            "a cipher suite by OpenSSL's name",
            kubelet(json!({"tlsCipherSuites": ["ECDHE-RSA-AES128-GCM-SHA256"]})),
        ),
        (
            "a curve twice",
            kubelet(json!({"tlsCurvePreferences": [29, 29]})),
        ),
        (
            "a threshold of nothing",
            kubelet(json!({"evictionHard": {"memory.available": "0"}})),
        ),
        (
            "a threshold that is off",
            kubelet(json!({"evictionHard": {"memory.available": "0%"}})),
        ),
        (
            "an interval below zero",
            kubelet(json!({"syncFrequency": "-1s"})),
        ),
        ("no Node", kubelet(json!({"registerNode": false}))),
        (
            "one instance's ID for all",
            kubelet(json!({"providerID": "aws:///us-east-1a/i-1"})),
        ),
        (
            "a name as a server of DNS",
            kubelet(json!({"clusterDNS": ["dns.local"]})),
        ),
        (
            "another runtime",
            kubelet(json!({"containerRuntimeEndpoint": "unix:///run/crio/crio.sock"})),
        ),
        (
            "a domain",
            kubelet(json!({"clusterDomain": "example.local"})),
        ),
    ];
    expect_test::expect_file!["boots/kubelet.txt"].assert_eq(&all("AL2023", &cases));
}

#[test]
fn what_user_data_changes_of_pods_is_said_with_both_numbers() {
    let with = |kubelet: Value, text: &str| {
        let mut all = config(text);
        all["kubelet"] = kubelet;
        all
    };
    let cases = [
        (
            "a flag of pods",
            with(json!({"maxPods": 58}), "    flags: [--max-pods=110]"),
        ),
        (
            "a flag of what is reserved",
            with(
                json!({"kubeReserved": {"memory": "1Gi"}}),
                "    flags: [--kube-reserved=cpu=1]",
            ),
        ),
        (
            "reserved in a NodeConfig",
            with(
                json!({}),
                "    config: {kubeReserved: {memory: 2Gi}, systemReserved: {cpu: 100m}}",
            ),
        ),
        (
            "eviction in a NodeConfig",
            with(
                json!({}),
                "    config: {evictionHard: {memory.available: 500Mi}}",
            ),
        ),
        (
            "an expression",
            with(json!({}), "    maxPodsExpression: max_pods * 4"),
        ),
        (
            "nothing that counts",
            with(json!({"maxPods": 58}), "    config: {podPidsLimit: 1000}"),
        ),
    ];
    let warnings: String = all("AL2023", &cases)
        .lines()
        .filter(|line| {
            line.starts_with("==>") || line.starts_with("warning") || line.starts_with("refused")
        })
        .map(|line| format!("{line}\n"))
        .collect();
    expect_test::expect_file!["boots/counted.txt"].assert_eq(&warnings);
}

#[test]
fn settings_of_bottlerocket_are_taken_as_its_model_takes_them() {
    let text = |settings: &str| json!({"userData": format!("[settings.kubernetes]\n{settings}\n")});
    let cases = [
        (
            "younger settings",
            text(
                "reserved-cpus = \"0-1\"\nmemory-swap-behavior = \"LimitedSwap\"\n\
            max-parallel-image-pulls = 5\nimage-minimum-gc-age = \"5m\"\nimage-maximum-gc-age = \"24h\"\n\
            static-pods-enabled = false\nprovider-id = \"aws:///us-east-1a/i-1\"",
            ),
        ),
        ("an unknown setting", text("no-such-key = 1")),
        (
            "a percentage as a number",
            text("image-gc-high-threshold-percent = 90"),
        ),
        (
            "a percentage as a text",
            text("image-gc-high-threshold-percent = \"90\""),
        ),
        (
            "a percentage that no kubelet takes",
            text("image-gc-high-threshold-percent = 80"),
        ),
        (
            "a list of addresses",
            text("cluster-dns-ip = [\"10.0.0.10\", \"10.0.0.11\"]"),
        ),
        (
            "a taint as a text",
            text("node-taints = {mine = \"1:NoSchedule\"}"),
        ),
        (
            "all of the memory",
            json!({"kubelet": {"evictionHard": {"memory.available": "100%"}}}),
        ),
        ("pods as a text", text("max-pods = \"110\"")),
        (
            "an amount that is none",
            text("kube-reserved = {cpu = \"100x\"}"),
        ),
        (
            "less than no time",
            text("eviction-max-pod-grace-period = -1"),
        ),
        ("a loud log", text("log-level = 300")),
        (
            "soft eviction without a time",
            text("eviction-soft = {\"memory.available\" = \"500Mi\"}"),
        ),
        (
            "reserved in the text",
            text("kube-reserved = {memory = \"2Gi\"}"),
        ),
        (
            "an ID of one instance",
            text("provider-id = \"aws:///us-east-1a/i-1\""),
        ),
        ("no cluster", text("standalone-mode = true")),
        ("one name", text("hostname-override = \"node\"")),
        ("a cloud of old", text("cloud-provider = \"aws\"")),
        (
            "a label of Kubernetes",
            text("[settings.kubernetes.node-labels]\n\"node-role.kubernetes.io/gpu\" = \"true\""),
        ),
        (
            "a policy in capitals",
            text("cpu-manager-policy = \"Static\""),
        ),
        (
            "options of the policy",
            text(
                "cpu-manager-policy = \"static\"\ncpu-manager-policy-options = [\"full-pcpus-only\"]",
            ),
        ),
        ("a setting that was removed", text("fail-cgroup-v1 = false")),
        (
            "settings of every node",
            text("max-pods = 110\ncluster-dns-ip = \"10.0.0.10\""),
        ),
    ];
    expect_test::expect_file!["boots/bottlerocket.txt"].assert_eq(&all("Bottlerocket", &cases));
}

#[test]
fn sections_of_bottlerocket_are_taken_as_its_models_take_them() {
    let text = |text: &str| json!({"userData": text});
    let cases = [
        (
            "sections that there are",
            text(
                "[settings]\nmotd = \"hi\"\n[settings.host-containers.admin]\nenabled = true\n\
                 [settings.kernel.sysctl]\n\"net.core.somaxconn\" = \"1024\"\n\
                 [settings.kernel]\nlockdown = \"integrity\"\n[settings.boot.kernel-parameters]\n\
                 console = [\"ttyS0\"]\n[settings.ntp]\ntime-servers = [\"169.254.169.123\"]\n\
                 [settings.container-registry.mirrors]\n\"docker.io\" = [\"https://mirror\"]\n",
            ),
        ),
        (
            "a section of another spelling",
            text("[settings.host-container.admin]\nenabled = true\n"),
        ),
        (
            "a section of ECS",
            text("[settings.ecs]\ncluster = \"a\"\n"),
        ),
        (
            "a setting that there is not",
            text("[settings.host-containers.admin]\nenable = true\nsuperpowered = true\n"),
        ),
        (
            "a sysctl as a number",
            text("[settings.kernel.sysctl]\n\"net.core.somaxconn\" = 1024\n"),
        ),
        (
            "data that is not in base64",
            text("[settings.host-containers.admin]\nuser-data = \"#!/bin/sh\"\n"),
        ),
        (
            "a mode that there is not",
            text("[settings.bootstrap-containers.setup]\nmode = \"every\"\n"),
        ),
        (
            "a truth as a text",
            text("[settings.host-containers.admin]\nenabled = \"true\"\n"),
        ),
        (
            "a parameter of the kernel as a text",
            text("[settings.boot.kernel-parameters]\nconsole = \"ttyS0\"\n"),
        ),
        ("a text for a section", text("[settings]\nntp = \"a\"\n")),
        ("outside of settings", text("[kubernetes]\nmax-pods = 5\n")),
    ];
    expect_test::expect_file!["boots/sections.txt"].assert_eq(&all("Bottlerocket", &cases));
}

#[test]
fn a_taint_reaches_the_kubelet_without_its_time() {
    let taints = json!([{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-11-28T00:00:00Z"}]);
    let (found, _) = nodes(
        "node",
        json!({"amiFamily": "AL2023", "cluster": {"cidr": "10.100.0.0/16"}, "taints": taints})
            .to_string()
            .as_bytes(),
    );
    let text = &found[0].user_data;
    assert!(
        text.contains("key: a") && !text.contains("timeAdded"),
        "{text}"
    );
}

#[test]
fn scripts_of_al2_with_names_run_before_the_node_joins() {
    let archive = |name: &str| {
        json!({"userData": format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\n\
            Content-Type: text/x-shellscript\nContent-Disposition: attachment; filename=\"{name}\"\n\n\
            #!/bin/bash\necho hi\n--B--\n")})
    };
    let cases = [
        ("a name after part-002", archive("setup.sh")),
        ("a name of z", archive("zz-last.sh")),
        ("a name before it", archive("00-first.sh")),
    ];
    expect_test::expect_file!["boots/al2.txt"].assert_eq(&all("AL2", &cases));
}
