//! Karpenter's flags, accepted so that a Karpenter deployment starts Longshore unchanged. Each is
//! an environment variable as well. [`crate::settings`] says what they mean, and which have no effect.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Command};

/// One of Karpenter's flags.
pub struct Flag {
    /// `metrics-port`.
    pub name: &'static str,
    /// `METRICS_PORT`.
    pub variable: &'static str,
    /// What follows it; nothing for one that is true by itself.
    pub value: Option<&'static str>,
    /// What it does, or why it does nothing.
    pub effect: Effect,
}

/// Whether a flag does anything.
#[derive(Clone, Copy)]
pub enum Effect {
    Supported(&'static str),
    /// It does this with `--provider aws`, and nothing else.
    Ec2(&'static str),
    /// It does nothing, and why.
    Ignored(&'static str),
    /// It does nothing, and why. With the value that comes second, Karpenter makes other nodes.
    Missing(&'static str, &'static str),
}

use Effect::{Ec2, Ignored, Missing, Supported};

const fn flag(
    name: &'static str,
    variable: &'static str,
    value: &'static str,
    meaning: Effect,
) -> Flag {
    Flag {
        name,
        variable,
        value: Some(value),
        effect: meaning,
    }
}

const fn switch(name: &'static str, variable: &'static str, meaning: Effect) -> Flag {
    Flag {
        name,
        variable,
        value: None,
        effect: meaning,
    }
}

const NO_RATE: Effect =
    Ignored("requests are not limited by rate; how many are under way at once is");

/// All of them: those of Karpenter 1.15's core, of its KWOK provider, and of its EC2 provider.
pub const FLAGS: [Flag; 40] = [
    flag(
        "metrics-port",
        "METRICS_PORT",
        "PORT",
        Supported("Port of metrics [default: 8080]"),
    ),
    flag(
        "health-probe-port",
        "HEALTH_PROBE_PORT",
        "PORT",
        Supported("Port of probes [default: 8081]"),
    ),
    switch(
        "disable-leader-election",
        "DISABLE_LEADER_ELECTION",
        Supported("Leads without asking for the Lease"),
    ),
    flag(
        "leader-election-name",
        "LEADER_ELECTION_NAME",
        "NAME",
        Supported("The Lease [default: karpenter-leader-election]"),
    ),
    flag(
        "leader-election-namespace",
        "LEADER_ELECTION_NAMESPACE",
        "NAMESPACE",
        Supported("Its namespace [default: SYSTEM_NAMESPACE, or kube-system]"),
    ),
    flag(
        "batch-idle-duration",
        "BATCH_IDLE_DURATION",
        "TIME",
        Supported("Batching window: closes after this time without a new pod [default: 1s]"),
    ),
    flag(
        "batch-max-duration",
        "BATCH_MAX_DURATION",
        "TIME",
        Supported("Batching window: longest duration [default: 10s]"),
    ),
    flag(
        "preference-policy",
        "PREFERENCE_POLICY",
        "POLICY",
        Supported("Respect or Ignore what pods prefer [default: Respect]"),
    ),
    flag(
        "min-values-policy",
        "MIN_VALUES_POLICY",
        "POLICY",
        Supported("Strict or BestEffort about minValues [default: Strict]"),
    ),
    flag(
        "scheduler-config",
        "SCHEDULER_CONFIG",
        "YAML|FILE",
        Supported(
            "Default topology spread constraints: podTopologySpread.defaultConstraints, or a \
            KubeSchedulerConfiguration",
        ),
    ),
    flag(
        "feature-gates",
        "FEATURE_GATES",
        "NAME=BOOL,…",
        Supported(
            "ReservedCapacity [default: true]; NodeOverlay, NodeRepair, SpotToSpotConsolidation, \
            StaticCapacity, TerminateFirstDrift and TerminateFirstRepair [default: false]",
        ),
    ),
    flag(
        "garbage-limit",
        "GARBAGE_LIMIT",
        "N",
        Supported(
            "Garbage collection limit per 2-minute pass, instances and NodeClaims each; above it \
            nothing is removed [default: 5, or 5 % of all]",
        ),
    ),
    flag(
        "log-level",
        "LOG_LEVEL",
        "LEVEL",
        Supported("debug, info, warn or error [default: info]"),
    ),
    flag(
        "instance-types-file-path",
        "INSTANCE_TYPES_FILE_PATH",
        "FILE",
        Supported("As --instance-types, which wins over it"),
    ),
    flag("kube-client-qps", "KUBE_CLIENT_QPS", "N", NO_RATE),
    flag("kube-client-burst", "KUBE_CLIENT_BURST", "N", NO_RATE),
    flag(
        "memory-limit",
        "MEMORY_LIMIT",
        "BYTES",
        Ignored("there is no garbage collector to tune"),
    ),
    flag(
        "cpu-requests",
        "CPU_REQUESTS",
        "MILLI",
        Ignored("work is not scaled by it"),
    ),
    switch(
        "enable-profiling",
        "ENABLE_PROFILING",
        Ignored("not yet: there is no profile to serve"),
    ),
    switch(
        "disable-controller-warmup",
        "DISABLE_CONTROLLER_WARMUP",
        Ignored("replicas always watch"),
    ),
    switch(
        "disable-cluster-state-observability",
        "DISABLE_CLUSTER_STATE_OBSERVABILITY",
        Supported("Turns off metrics and Events about the state of pods, nodes and conditions"),
    ),
    flag(
        "karpenter-service",
        "KARPENTER_SERVICE",
        "NAME",
        Ignored("nothing uses it"),
    ),
    switch(
        "ignore-dra-requests",
        "IGNORE_DRA_REQUESTS",
        Missing(
            "pods that ask for dynamic resources are never planned for",
            "false",
        ),
    ),
    switch(
        "legacy-node-repair",
        "LEGACY_NODE_REPAIR",
        Supported(
            "With feature gate NodeRepair: unhealthy nodes are replaced at once, and not within \
            disruption budgets [default: false]",
        ),
    ),
    flag(
        "log-output-paths",
        "LOG_OUTPUT_PATHS",
        "PATHS",
        Ignored("the log goes to standard error"),
    ),
    flag(
        "log-error-output-paths",
        "LOG_ERROR_OUTPUT_PATHS",
        "PATHS",
        Ignored("the log goes to standard error"),
    ),
    flag(
        "cluster-name",
        "CLUSTER_NAME",
        "NAME",
        Ec2("The cluster's name in EKS; needed"),
    ),
    flag(
        "cluster-endpoint",
        "CLUSTER_ENDPOINT",
        "URL",
        Ec2("The API server's address for nodes [default: as EKS says]"),
    ),
    flag(
        "cluster-ca-bundle",
        "CLUSTER_CA_BUNDLE",
        "BASE64",
        Ec2(
            "The API server's certificate in base64 [default: the ServiceAccount's, or as EKS says]",
        ),
    ),
    switch(
        "isolated-vpc",
        "ISOLATED_VPC",
        Ec2("There is no way to IAM [default: false]"),
    ),
    switch(
        "eks-control-plane",
        "EKS_CONTROL_PLANE",
        Ec2("The Kubernetes version is asked of EKS [default: false]"),
    ),
    flag(
        "vm-memory-overhead-percent",
        "VM_MEMORY_OVERHEAD_PERCENT",
        "SHARE",
        Ec2("The share of memory that the hypervisor keeps [default: 0.075]"),
    ),
    flag(
        "interruption-queue",
        "INTERRUPTION_QUEUE",
        "NAME",
        Ec2("The queue with interruptions [default: none]"),
    ),
    flag(
        "reserved-enis",
        "RESERVED_ENIS",
        "N",
        Ec2("Network interfaces of each node that pods do not get [default: 0]"),
    ),
    switch(
        "disable-dry-run",
        "DISABLE_DRY_RUN",
        Ec2("EC2NodeClasses are validated without trying a launch [default: false]"),
    ),
    switch(
        "enable-zonal-shift",
        "ENABLE_ZONAL_SHIFT",
        Ec2(
            "Nothing is launched or changed in zones that traffic is shifted away from [default: false]",
        ),
    ),
    flag(
        "ami-refresh-interval",
        "AMI_REFRESH_INTERVAL",
        "TIME",
        Ec2("How often images are asked for [default: 1m]"),
    ),
    flag(
        "subnet-refresh-interval",
        "SUBNET_REFRESH_INTERVAL",
        "TIME",
        Ec2("How often subnets are asked for [default: 1m]"),
    ),
    flag(
        "security-group-refresh-interval",
        "SECURITY_GROUP_REFRESH_INTERVAL",
        "TIME",
        Ec2("How often security groups are asked for [default: 1m]"),
    ),
    flag(
        "aws-feature-gates",
        "AWS_FEATURE_GATES",
        "NAME=BOOL,…",
        Ec2("NodeClassCEL, RebootForRepair [default: all false]"),
    ),
];

/// What was typed, by variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KarpenterArgs(BTreeMap<&'static str, String>);

impl KarpenterArgs {
    /// What was typed for the flag of a variable.
    pub fn get(&self, variable: &str) -> Option<&str> {
        self.0.get(variable).map(String::as_str)
    }
}

impl clap::Args for KarpenterArgs {
    fn augment_args(command: Command) -> Command {
        command.args(FLAGS.iter().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for KarpenterArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed =
            |flag: &Flag| Some((flag.variable, matches.get_one::<String>(flag.name)?.clone()));
        Ok(KarpenterArgs(FLAGS.iter().filter_map(typed).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn arg(flag: &Flag) -> Arg {
    let (help, hidden) = match flag.effect {
        Supported(what) | Ec2(what) => (what, false),
        Ignored(why) | Missing(why, _) => (why, true),
    };
    let arg = Arg::new(flag.name).long(flag.name).help(help).hide(hidden);
    let arg = arg.help_heading(match flag.effect {
        Ec2(_) => "As Karpenter's AWS provider has them, with --provider aws",
        _ => "As Karpenter has them, also as environment variables (METRICS_PORT, …)",
    });
    match flag.value {
        Some(value) => arg.value_name(value),
        // As Go has it: `--flag` or `--flag=false`.
        None => arg
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
    }
}
