//! What is refused after validation, when the kubelet makes its server and its lists: TLS, sysctls,
//! amounts that are kept back, thresholds of eviction.

use longshore_api::manifests::quoted;
use longshore_api::quantity::Quantity;
use longshore_userdata::duration;
use serde_json::Value;

use super::kubelet::{Kubelet, owned};

impl Kubelet<'_> {
    pub(super) fn start(&mut self) {
        self.hidden_metrics();
        self.tls();
        self.sysctls();
        self.amounts();
        self.thresholds();
        if let Some(time) = duration::parse(self.text("syncFrequency")) {
            let what = format!("is {}", duration::write(time));
            self.unless(time >= 0, "syncFrequency", what, "write 1m, or remove it");
        }
        let address = self.text("address").to_owned();
        let right = address.is_empty() || is_address(&address);
        let what = format!("{} is not an address", quoted(&address));
        self.unless(right, "address", what, "write 0.0.0.0, or remove it");
    }

    /// Metrics of the version before can be shown, of no other. Since 1.36; of versions before, the
    /// text is the same.
    fn hidden_metrics(&mut self) {
        let field = "showHiddenMetricsForVersion";
        let version = self.text(field).to_owned();
        let before = format!("1.{}", self.minor - 1);
        let what = format!("is {}", quoted(&version));
        let hint = format!("write {}, or remove it", quoted(&before));
        self.unless(version.is_empty() || version == before, field, what, &hint);
    }

    fn tls(&mut self) {
        for (at, suite) in self.texts("tlsCipherSuites").into_iter().enumerate() {
            let field = format!("tlsCipherSuites[{at}]");
            let what = format!("{} is not a cipher suite of the kubelet", quoted(&suite));
            let known = SUITES.contains(&suite.as_str());
            let hint = "write it like TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
            self.unless(known, &field, what, hint);
        }
        if self.minor < 36 {
            return;
        }
        let curves = self.all.get("tlsCurvePreferences");
        let curves = curves.and_then(Value::as_array).cloned();
        let curves = curves.unwrap_or_default();
        for (at, curve) in curves.iter().enumerate() {
            let field = format!("tlsCurvePreferences[{at}]");
            let known = curve.as_i64().is_some_and(|id| CURVES.contains(&id));
            let what = format!("{curve} is not a curve of the kubelet");
            let hint = "write one of 23 (P-256), 24, 25, 29 (X25519), 4588 (X25519MLKEM768)";
            self.unless(known, &field, what, hint);
            let twice = curves[..at].contains(curve);
            let what = format!("{curve} is there twice");
            self.unless(!twice, &field, what, "give it once");
        }
    }

    fn sysctls(&mut self) {
        for (at, name) in self.texts("allowedUnsafeSysctls").into_iter().enumerate() {
            let field = format!("allowedUnsafeSysctls[{at}]");
            let shown = quoted(&name);
            if !is_sysctl_pattern(&name) {
                let what = format!("{shown} is not the name of a sysctl");
                let hint = "write it like net.core.somaxconn or kernel.msg*";
                self.refuse(&field, what, hint);
            } else if !is_namespaced(&name, self.minor) {
                let what = format!("{shown} is not known to be of one pod alone");
                let hint = "such are net.*, fs.mqueue.*, kernel.sem, kernel.shm* and kernel.msg*";
                self.refuse(&field, what, hint);
            }
        }
    }

    /// What is kept back. Of `spec.kubelet`, a text that is no amount is an expression, whose value
    /// another check knows.
    fn amounts(&mut self) {
        for map in ["systemReserved", "kubeReserved"] {
            for (name, text) in self.map(map).map(owned).collect::<Vec<_>>() {
                let field = format!("{map}[{name}]");
                let known = ["cpu", "memory", "ephemeral-storage", "pid"].contains(&name.as_str());
                let hint = "write cpu, memory, ephemeral-storage or pid";
                self.unless(known, &field, "is not a resource to reserve", hint);
                let what = format!("{} is below zero", quoted(&text));
                let hint = "write it like 100m or 1Gi";
                self.unless(!is_negative(&text), &field, what, hint);
            }
        }
    }

    fn thresholds(&mut self) {
        for map in ["evictionHard", "evictionSoft", "evictionMinimumReclaim"] {
            let reclaim = map == "evictionMinimumReclaim";
            for (signal, text) in self.map(map).map(owned).collect::<Vec<_>>() {
                if !self.signal(map, &signal) {
                    continue;
                }
                let field = format!("{map}[{signal}]");
                let right = match text.strip_suffix('%').map(str::parse::<f64>) {
                    Some(Ok(share)) if reclaim => share > 0.0,
                    Some(Ok(share)) => (0.0..=100.0).contains(&share),
                    Some(Err(_)) => false,
                    None => Quantity::parse(&text).is_ok_and(|of| {
                        !of.is_negative() && (reclaim || of != Quantity::default())
                    }),
                };
                let zero = Quantity::parse(&text).is_ok_and(|of| of == Quantity::default());
                let what = match zero {
                    true => "is zero".to_owned(),
                    false => format!("{} is neither a percentage nor an amount", quoted(&text)),
                };
                let hint = match reclaim {
                    true => "write it like 100Mi or 5%",
                    false => "write it like 100Mi or 10%; 0% turns a threshold off",
                };
                self.unless(right, &field, what, hint);
            }
        }
        let (soft, grace) = ("evictionSoft", "evictionSoftGracePeriod");
        for (signal, text) in self.map(grace).map(owned).collect::<Vec<_>>() {
            let known = self.signal(grace, &signal);
            let right = duration::parse(&text).is_some_and(|time| time >= 0);
            let what = format!("{} is not a duration from 0 on", quoted(&text));
            let hint = "write it like 90s or 1m30s";
            self.unless(!known || right, &format!("{grace}[{signal}]"), what, hint);
        }
        let has_grace = |signal: &str| self.map(grace).any(|(name, _)| name == signal);
        let lacking = self.map(soft).filter(|(name, _)| !has_grace(name));
        for (signal, _) in lacking.map(owned).collect::<Vec<_>>() {
            let what = format!("has no entry in {grace}");
            self.refuse(&format!("{soft}[{signal}]"), what, "give it one");
        }
    }

    /// Whether the kubelet knows a signal; refused if not.
    fn signal(&mut self, map: &str, signal: &str) -> bool {
        let known = SIGNALS.contains(&signal);
        let hint = "write memory.available, nodefs.available or another signal";
        let field = format!("{map}[{signal}]");
        self.unless(known, &field, "is not an eviction signal", hint);
        known
    }

    fn texts(&self, field: &str) -> Vec<String> {
        let all = self.all.get(field).and_then(Value::as_array);
        let texts = all.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    }
}

/// Signals that the kubelet knows. Karpenter takes six of them in a NodeClass.
const SIGNALS: [&str; 9] = [
    "allocatableMemory.available",
    "containerfs.available",
    "containerfs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
];

/// Cipher suites that Go has, with two old names that the kubelet adds.
const SUITES: [&str; 27] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// Curves by their numbers in TLS that Go 1.26 has a name for.
const CURVES: [i64; 7] = [23, 24, 25, 29, 4587, 4588, 4589];

/// Sysctls of a pod's own namespace, by name.
const NAMESPACED: [&str; 10] = [
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shm",
    "kernel.shm_rmid_forced",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
];

/// Whether a sysctl, or all that a pattern stands for, is of a pod's own namespace. Before 1.29 any
/// ending was taken of `kernel.shm` and `kernel.msg`.
fn is_namespaced(name: &str, minor: u16) -> bool {
    let name = dotted(name);
    let name = name.split('*').next().unwrap_or_default();
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    let once = minor < 29 && begins(&["kernel.shm", "kernel.msg"]);
    once || NAMESPACED.contains(&name) || begins(&["net.", "fs.mqueue."])
}

/// A name with points between its parts, as the kubelet compares it: if a slash comes first, both
/// change places.
fn dotted(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name[at..].starts_with('/') => name
            .chars()
            .map(|c| match c {
                '/' => '.',
                '.' => '/',
                other => other,
            })
            .collect(),
        _ => name.to_owned(),
    }
}

/// Parts of small letters, digits, `-` and `_` with points or slashes between them; the last may end in
/// `*`.
fn is_sysctl_pattern(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let inner = |c: char| edge(c) || c == '-' || c == '_';
    let whole =
        |part: &str| part.starts_with(edge) && part.ends_with(edge) && part.chars().all(inner);
    let parts: Vec<&str> = name.split(['.', '/']).collect();
    let Some((last, before)) = parts.split_last() else {
        return false;
    };
    let right = match last.strip_suffix('*') {
        Some("") => true,
        Some(start) => start.starts_with(edge) && start.chars().all(inner),
        None => whole(last),
    };
    name.len() <= 253 && right && before.iter().all(|part| whole(part))
}

/// Whether a text is an address as Kubernetes reads it: IPv4 with or without leading zeros, or IPv6.
fn is_address(text: &str) -> bool {
    let number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let bare = part.trim_start_matches('0');
        digits && (bare.is_empty() || bare.parse::<u8>().is_ok())
    };
    let parts: Vec<&str> = text.split('.').collect();
    (parts.len() == 4 && parts.iter().all(|part| number(part)))
        || text.parse::<std::net::Ipv6Addr>().is_ok()
}

fn is_negative(text: &str) -> bool {
    Quantity::parse(text).is_ok_and(|of| of.is_negative())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctls_of_a_pod_are_told_from_those_of_the_node() {
        for own in [
            "net.core.somaxconn",
            "net/ipv4/tcp_syncookies",
            "net.*",
            "kernel.msg*",
            "kernel.shm*",
            "kernel.sem",
            "fs.mqueue.msg_max",
        ] {
            assert!(is_sysctl_pattern(own) && is_namespaced(own, 36), "{own}");
        }
        for other in ["vm.swappiness", "kernel.sh*", "*", "net", "kernel.panic"] {
            assert!(
                is_sysctl_pattern(other) && !is_namespaced(other, 36),
                "{other}"
            );
        }
        for bad in [
            "",
            "Net.core",
            "net..core",
            "net.*.x",
            "net.core.",
            "net .a",
        ] {
            assert!(!is_sysctl_pattern(bad), "{bad}");
        }
    }
}
