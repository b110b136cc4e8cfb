//! Manifests made from valid ones by one to three changes: another type, an odd text, a number at an
//! edge, a field too few, too many or twice, a value that another place takes.

use longshore_api::manifests::{Document, documents};
use longshore_core::rng::SplitMix64;
use serde_json::{Value, json};

/// Numbers from a seed.
pub struct Random(SplitMix64);

impl Random {
    /// The numbers of a manifest.
    pub fn new(seed: u64, at: u64) -> Self {
        let start =
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at.wrapping_mul(0xd134_2543_de82_ef95);
        Random(SplitMix64(start))
    }

    fn below(&mut self, most: usize) -> usize {
        self.0.bits() as usize % most.max(1)
    }

    fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// A manifest as text.
pub struct Manifest {
    pub kind: String,
    pub text: String,
    pub changes: String,
}

/// The valid manifests.
pub fn bases() -> Vec<Value> {
    let (found, problems) = documents("bases.yaml", include_bytes!("bases.yaml"));
    assert!(problems.is_empty(), "{problems}");
    let read = |document: Document| serde_json::from_str(document.text()).expect("it is JSON");
    found.into_iter().map(read).collect()
}

/// Of so many manifests, as many are of each kind.
const SHARES: [(&str, usize); 7] = [
    ("NodePool", 26),
    ("Pod", 32),
    ("EC2NodeClass", 16),
    ("NodeClaim", 9),
    ("NodeOverlay", 8),
    ("DaemonSet", 6),
    ("KWOKNodeClass", 3),
];

/// What stands behind a key that comes twice, until the object is a text.
const TWICE: &str = "%twice";

/// The manifest of a number.
pub fn manifest(bases: &[Value], seed: u64, at: u64) -> Manifest {
    let random = &mut Random::new(seed, at);
    let mut left = random.below(100);
    let kind = SHARES.iter().find(|(_, share)| {
        let is_it = left < *share;
        left = left.saturating_sub(*share);
        is_it
    });
    let kind = kind.map_or("Pod", |(kind, _)| kind);
    let of_kind: Vec<&Value> = bases.iter().filter(|base| base["kind"] == kind).collect();
    let mut object = (*random.pick(&of_kind)).clone();
    let mut changes = Vec::new();
    // Some are only put together from valid parts.
    for _ in 0..random.below(3) + 1 {
        changes.push(change(random, &mut object, &of_kind));
    }
    Manifest {
        kind: kind.to_owned(),
        text: object.to_string().replace(&format!("{TWICE}\""), "\""),
        changes: changes.join("; "),
    }
}

/// Places below a value, each as a JSON pointer.
fn places(value: &Value, path: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                let path = format!("{path}/{name}");
                places(value, &path, all);
                all.push(path);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let path = format!("{path}/{at}");
                places(item, &path, all);
                all.push(path);
            }
        }
        _ => {}
    }
}

/// The name of the nearest field at or above a place, and of the one above that.
fn names(path: &str) -> (&str, &str) {
    let is_name = |part: &&str| !part.is_empty() && !part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = path.rsplit('/').filter(is_name);
    (parts.next().unwrap_or(""), parts.next().unwrap_or(""))
}

fn change(random: &mut Random, object: &mut Value, others: &[&Value]) -> String {
    let mut all = Vec::new();
    places(object, "", &mut all);
    // What an object is, is not in question.
    all.retain(|path| !matches!(path.as_str(), "/apiVersion" | "/kind" | "/metadata"));
    if all.is_empty() {
        return "nothing left".to_owned();
    }
    let path = random.pick(&all).clone();
    let (name, above) = names(&path);
    let pool = pool(name, above);
    match random.below(100) {
        0..45 if !pool.is_empty() => {
            let value = random.pick(&pool).clone();
            let said = format!("{path} = {value}");
            *object.pointer_mut(&path).expect("it is there") = value;
            said
        }
        0..52 => {
            let (parent, last) = path.rsplit_once('/').expect("a place");
            let last = last.replace("~1", "/").replace("~0", "~");
            match object.pointer_mut(parent).expect("it is there") {
                Value::Object(fields) => drop(fields.remove(&last)),
                Value::Array(items) => drop(items.remove(last.parse().unwrap_or(0))),
                _ => {}
            }
            format!("without {path}")
        }
        52..62 => {
            let other = random.pick(others).pointer(&path).cloned();
            let said = format!("{path} of another: {}", other.is_some());
            if let Some(other) = other {
                *object.pointer_mut(&path).expect("it is there") = other;
            }
            said
        }
        _ => {
            let value = object.pointer_mut(&path).expect("it is there");
            let how = odd(random, value, name);
            format!("{path} {how}")
        }
    }
}

const UNKNOWN: [&str; 3] = ["colour", "Spec", "operators"];

/// Changes a value whatever it is.
fn odd(random: &mut Random, value: &mut Value, name: &str) -> &'static str {
    if random.percent(12) {
        *value = match random.below(7) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!([value.clone()]),
            3 => json!({"a": value.clone()}),
            4 => json!(5),
            5 => json!("text"),
            _ => json!([]),
        };
        return "of another type";
    }
    let letters = [
        "", " ", "é", "/", "_", "-", ".", "%", "\n", "=", ",", "0", "A",
    ];
    match value {
        Value::String(text) => match random.below(8) {
            0 => text.clear(),
            1 => text.push_str(random.pick::<&str>(&letters[1..])),
            2 => text.insert_str(0, random.pick::<&str>(&letters[1..])),
            3 => *text = text.to_uppercase(),
            4 => *text = text.repeat(64).chars().take(64).collect(),
            5 => *text = text.repeat(254).chars().take(254).collect(),
            6 => {
                *text = random
                    .pick(&["+1", "-1", "0", "1.5", "1e3", "null", "true"])
                    .to_string()
            }
            _ => *text = text.to_lowercase().replace('-', "_"),
        },
        Value::Number(number) => {
            let edges = [
                json!(0),
                json!(-1),
                json!(1),
                json!(51),
                json!(101),
                json!(10_001),
                json!(65_536),
                json!(2_147_483_647_i64),
                json!(2_147_483_648_i64),
                json!(i64::MAX),
                json!(1.5),
                json!(number.to_string()),
            ];
            *value = random.pick(&edges).clone();
        }
        Value::Bool(is) => *value = random.pick(&[json!(!*is), json!("true"), json!(1)]).clone(),
        Value::Array(items) => match random.below(4) {
            0 => items.clear(),
            1 => items.extend(items.first().cloned()),
            2 => items.push(
                random
                    .pick(&[Value::Null, json!(""), json!({}), json!(5)])
                    .clone(),
            ),
            _ => {
                let times = *random.pick(&[31, 51, 101, 151]);
                let first = items.first().cloned();
                items.extend((0..times).filter_map(|_| first.clone()));
            }
        },
        Value::Object(fields) => {
            let is_map = fields.keys().any(|key| key.contains(['/', '.']))
                || [
                    "labels",
                    "limits",
                    "requests",
                    "capacity",
                    "tags",
                    "matchLabels",
                    "annotations",
                ]
                .contains(&name);
            let first = fields
                .iter()
                .next()
                .map(|(key, value)| (key.clone(), value.clone()));
            match random.below(4) {
                0 if is_map => {
                    let key = random.pick(&keys(name)).to_string();
                    let like = first.map_or(json!("1"), |(_, value)| value);
                    fields.insert(key, like);
                }
                1 => {
                    if let Some((key, value)) = first {
                        fields.insert(format!("{key}{TWICE}"), value);
                    }
                }
                2 => drop(fields.insert(random.pick(&UNKNOWN).to_string(), json!("blue"))),
                _ => {
                    // Spelt in another way.
                    if let Some((key, value)) = first {
                        fields.remove(&key);
                        fields.insert(
                            random
                                .pick(&[key.to_uppercase(), format!("{key}s")])
                                .clone(),
                            value,
                        );
                    }
                }
            }
        }
        Value::Null => *value = json!(0),
    }
    "odd"
}

const LONG: &str = "a123456789b123456789c123456789d123456789e123456789f123456789g1234";

fn keys(of: &str) -> Vec<&'static str> {
    match of {
        "limits" | "requests" | "capacity" => vec![
            "cpu",
            "memory",
            "pods",
            "nodes",
            "ephemeral-storage",
            "storage",
            "example.com/gpu",
            "hugepages-2Mi",
            "hugepages-x",
            "gpu",
            "example.com/",
            "/gpu",
            "Example.com/x",
            "a/b/c",
            "requests.cpu",
            "kubernetes.io/x",
            "attachable-volumes-aws-ebs",
            LONG,
            "-cpu",
            "requests.example.com/x",
        ],
        _ => vec![
            "team",
            "example.com/team",
            "karpenter.sh/nodepool",
            "karpenter.sh/do-not-disrupt",
            "kubernetes.io/hostname",
            "karpenter.sh/mine",
            "x.karpenter.sh/mine",
            "a/b/c",
            "A.b/c",
            "-a",
            "a_b.c",
            "",
            LONG,
            "karpenter.k8s.aws/instance-cpu",
            "karpenter.k8s.aws/mine",
            "topology.kubernetes.io/zone",
            "node.kubernetes.io/instance-type",
            "beta.kubernetes.io/arch",
            "karpenter.sh/capacity-type",
            "kubernetes.io/os",
            "kubernetes.io/cluster/demo",
            "eks:eks-cluster-name",
            "karpenter.kwok.sh/instance-size",
            "node.kubernetes.io/windows-build",
            "karpenter.sh/nodeclaim",
            "node-role.kubernetes.io/x",
        ],
    }
}

/// Values that a field of this name, below one of another, may be given.
fn pool(name: &str, above: &str) -> Vec<Value> {
    let texts = |all: &[&str]| all.iter().map(|text| json!(text)).collect::<Vec<_>>();
    let amounts = || {
        let mut all = texts(&[
            "1",
            "500m",
            "1.5",
            "2Gi",
            "1e3",
            "1E3",
            "1E",
            "99Ei",
            "8Ei",
            "-1",
            "+1",
            "",
            "1Gx",
            "Gi",
            ".5",
            "5.",
            "1_000",
            " 1",
            "0",
            "0.1n",
            "1Ki",
            "12345678901234567890",
            "1e400",
            "100u",
        ]);
        all.extend([json!(0), json!(1), json!(1.5), json!(-1), json!(1e30)]);
        all
    };
    let values = || {
        let mut all = texts(&[
            "a",
            "linux",
            "spot",
            "on-demand",
            "reserved",
            "ondemand",
            "",
            "a b",
            "-a",
            "a-",
            "+1",
            "5",
            "-5",
            "1.5",
            "é",
            "5000000000",
            "99999999999999999999",
            LONG,
            "a_b.c",
            "zone-a",
            "0",
        ]);
        all.extend([json!(5), json!(true), Value::Null]);
        all
    };
    if matches!(above, "limits" | "requests" | "capacity" | "overhead") {
        return amounts();
    }
    if matches!(
        above,
        "labels" | "matchLabels" | "nodeSelector" | "tags" | "annotations"
    ) {
        return values();
    }
    match name {
        "schedule" => texts(&[
            "@daily",
            "@every 1h",
            "@daily x",
            "@dayly",
            "0 9 * * 1-5",
            "0 9 * * 7",
            "0 9 * * fri-7",
            "TZ=Europe/Berlin 0 9 * * *",
            "0 0 9 * * *",
            "61 * * * *",
            "x",
            "* * * *",
            " 0 9 * * *",
            "0 9 31 2 *",
            "1/2 * * * *",
            "0  9 * * *",
            "",
        ]),
        "duration" => texts(&[
            "8h", "1h30m", "30s", "8h0s", "-1h", "1d", "90m", "0h", "1h30s", "Never", "1.5h", "",
        ]),
        "nodes" => {
            let mut all = texts(&[
                "10%",
                "100%",
                "101%",
                "0",
                "-1",
                "5.5",
                "10 %",
                "007",
                "%",
                "",
                "2147483648",
            ]);
            all.push(json!(5));
            all
        }
        "reasons" => {
            let mut all = texts(&[
                "Empty",
                "Drifted",
                "Underutilized",
                "Unhealthy",
                "empty",
                "",
                "Expired",
            ]);
            all.extend([
                json!([]),
                json!(["Empty", "Empty"]),
                json!(["Empty", "Drifted"]),
            ]);
            all
        }
        "consolidationPolicy" => texts(&[
            "WhenEmpty",
            "WhenEmptyOrUnderutilized",
            "Balanced",
            "WhenUnderutilized",
            "",
        ]),
        "expireAfter" | "consolidateAfter" | "terminationGracePeriod" | "nodeRegistrationDelay" => {
            texts(&[
                "720h",
                "Never",
                "1h30m",
                "1.5h",
                "-1h",
                "30",
                "0s",
                "1ms",
                "never",
                "",
                "9999999999h",
                "1h 30m",
            ])
        }
        "operator" => texts(&[
            "In",
            "NotIn",
            "Exists",
            "DoesNotExist",
            "Gt",
            "Lt",
            "Gte",
            "Lte",
            "Equal",
            "in",
            "",
        ]),
        "effect" => texts(&[
            "NoSchedule",
            "PreferNoSchedule",
            "NoExecute",
            "noSchedule",
            "",
        ]),
        "key" | "topologyKey" | "matchLabelKeys" => texts(&keys("")),
        "values" => values(),
        "value" => values(),
        "weight" | "minValues" | "replicas" | "maxSkew" | "minDomains" => vec![
            json!(0),
            json!(1),
            json!(2),
            json!(50),
            json!(51),
            json!(100),
            json!(101),
            json!(-1),
            json!(10_000),
            json!(10_001),
            json!(2_147_483_648_i64),
            json!("1"),
            json!(1.5),
        ],
        "price" => texts(&[
            "0.5", "1", "-1", "1,5", "1e3", "", "0.1.2", ".5", "5.", "0", "+1", "1e999",
        ]),
        "priceAdjustment" => texts(&[
            "+10%", "-10%", "-101%", "-100%", "+5", "5", "+", "+.5", "-0.5", "10%", "", "+5.",
            "-100.5%", "+1e3",
        ]),
        "whenUnsatisfiable" => texts(&["DoNotSchedule", "ScheduleAnyway", "Never", ""]),
        "nodeAffinityPolicy" | "nodeTaintsPolicy" => texts(&["Honor", "Ignore", "honor", ""]),
        "restartPolicy" => texts(&["Always", "Never", "OnFailure", "always", ""]),
        "protocol" => texts(&["TCP", "UDP", "SCTP", "tcp", "HTTP", ""]),
        "hostPort" | "containerPort" => vec![
            json!(0),
            json!(1),
            json!(8080),
            json!(65_535),
            json!(65_536),
            json!(-1),
            json!("80"),
        ],
        "tolerationSeconds" => vec![json!(0), json!(300), json!(-1), json!("300"), Value::Null],
        "group" => texts(&[
            "karpenter.k8s.aws",
            "karpenter.kwok.sh",
            "karpenter.k8s.aws/v1",
            "",
            "a b",
        ]),
        "alias" => texts(&[
            "al2023@latest",
            "al2@latest",
            "bottlerocket@v1.20.0",
            "windows2022@latest",
            "windows2022@v1",
            "al2023",
            "al2023@",
            "ubuntu@latest",
            "al2023@a@b",
            "al2023@v20240807v20240807v20240807",
        ]),
        "amiFamily" => texts(&[
            "AL2",
            "AL2023",
            "Bottlerocket",
            "Windows2022",
            "Windows2025",
            "Custom",
            "Ubuntu",
            "",
        ]),
        "id" => texts(&[
            "subnet-1",
            "sg-1",
            "ami-1",
            "cr-1",
            "pg-1",
            "my subnet-1",
            "subnet-",
            "",
            "SG-1",
            "x",
        ]),
        "volumeSize" => texts(&[
            "20Gi", "1T", "1Ti", "Ti", "20Mi", "64T", "65T", "0Gi", "", "20", "+20Gi", "1.5Gi",
        ]),
        "ownerID" | "owner" => texts(&["self", "111122223333", "1", "", "amazon"]),
        "volumeType" => texts(&["gp3", "io2", "GP3", "st1", ""]),
        "httpTokens" | "httpEndpoint" | "httpProtocolIPv6" | "nestedVirtualization" => {
            texts(&["enabled", "disabled", "required", "optional", ""])
        }
        "interfaceType" => texts(&["interface", "efa-only", "efa", ""]),
        "instanceMatchCriteria" => texts(&["open", "targeted", "any", ""]),
        "deviceIndex" | "networkCardIndex" | "ipPrefixCount" => {
            vec![json!(0), json!(1), json!(-1), json!(2_147_483_648_i64)]
        }
        "name" | "claimName" => texts(&["a", "a.b", "a_b", "A", "", LONG, "-a", "a b", "a/b"]),
        "namespaces" => texts(&["shop", "", "Shop", "a.b", "*"]),
        "image" => texts(&["pause", "", " pause"]),
        _ => Vec::new(),
    }
}
