//! Families that join by a script: AL2 by `bootstrap.sh`, Windows by `Start-EKSBootstrap.ps1`.

use std::fmt::Write as _;
use std::net::Ipv6Addr;

use super::arguments::arguments;
use super::boot::Boot;
use super::fault::Fault;
use super::kubelet::Kubelet;
use super::mime::{self, Part};

/// A MIME archive: the user's parts, then a script that joins.
pub(super) fn al2(boot: &Boot) -> Result<String, Fault> {
    let mut parts = match boot.user_data.as_deref().unwrap_or_default() {
        "" => Vec::new(),
        text if mime::is_archive(text) => mime::read(text)?,
        text => vec![Part::plain(text)],
    };
    let join = Part::shell(&join_script(boot));
    parts.push(match last_name(&parts) {
        Some(name) => join.named(&name),
        None => join,
    });
    Ok(mime::write(&parts))
}

/// A file name for the script that joins, if it needs one. cloud-init runs scripts in the order of
/// their names, of which those without one are `part-001` and so on: a script named `setup.sh` would
/// run on a node that takes pods already.
fn last_name(parts: &[Part]) -> Option<String> {
    // Other characters are left out of names.
    let kept = |c: &char| c.is_ascii_alphanumeric() || "-_.()".contains(*c);
    let is_script = |part: &&Part| {
        let kind = part.kind();
        matches!(
            kind.as_deref(),
            None | Some("text/x-shellscript" | "text/plain")
        )
    };
    let named = parts.iter().filter(is_script).filter_map(Part::file_name);
    let names = named.map(|name| name.chars().filter(kept).collect::<String>());
    let last = names.max()?;
    let ours = format!("part-{:03}", parts.len() + 1);
    let first = last.chars().take_while(|c| *c == 'z').count() + 1;
    (last > ours).then(|| format!("{}-join.sh", "z".repeat(first)))
}

fn join_script(boot: &Boot) -> String {
    let (cluster, kubelet) = (&boot.cluster, Kubelet::of(&boot.kubelet));
    let mut out = String::from(
        "#!/bin/bash -xe\n\
         exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n",
    );
    let authority = match cluster.ca_bundle.as_str() {
        "" => String::new(),
        bundle => format!("--b64-cluster-ca '{bundle}'"),
    };
    let _ = write!(
        out,
        "/etc/eks/bootstrap.sh '{}' --apiserver-endpoint '{}' {authority}",
        cluster.name, cluster.endpoint
    );
    let mut lines = Vec::new();
    if let Some(first) = kubelet.cluster_dns.first() {
        if first.parse::<Ipv6Addr>().is_ok() {
            lines.push("--ip-family ipv6".to_owned());
        }
        lines.push(format!("--dns-cluster-ip '{first}'"));
    }
    if kubelet.max_pods.is_some() {
        lines.push("--use-max-pods false".to_owned());
    }
    lines.push(format!(
        "--kubelet-extra-args '{}'",
        arguments(boot, &kubelet)
    ));
    if boot.raid0 {
        lines.push("--local-disks raid0".to_owned());
    }
    for line in lines {
        let _ = write!(out, " \\\n{line}");
    }
    out
}

/// PowerShell: the user's script, then the call that joins.
pub(super) fn windows(boot: &Boot) -> Result<String, Fault> {
    let (cluster, kubelet) = (&boot.cluster, Kubelet::of(&boot.kubelet));
    let mut out = String::from("<powershell>\n");
    if let Some(script) = boot.user_data.as_deref().filter(|text| !text.is_empty()) {
        let _ = writeln!(out, "{script}");
    }
    out.push_str(
        "[string]$EKSBootstrapScriptFile = \
         \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n",
    );
    let _ = write!(
        out,
        "& $EKSBootstrapScriptFile -EKSClusterName '{}' -APIServerEndpoint '{}'",
        cluster.name, cluster.endpoint
    );
    if !cluster.ca_bundle.is_empty() {
        let _ = write!(out, " -Base64ClusterCA '{}'", cluster.ca_bundle);
    }
    let _ = write!(out, " -KubeletExtraArgs '{}'", arguments(boot, &kubelet));
    if let Some(first) = kubelet.cluster_dns.first() {
        let _ = write!(out, " -DNSClusterIP '{first}'");
    }
    out.push_str("\n</powershell>");
    Ok(out)
}
