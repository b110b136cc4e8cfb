use super::*;

#[test]
fn every_metric_is_well_formed() {
    let metrics = Metrics::new();
    metrics.claim_created("default", false);
    let text = metrics.text();
    assert!(text.contains(r#"karpenter_nodeclaims_created_total{min_values_relaxed="false",nodepool="default",reason="provisioned"} 1"#), "{text}");
    assert!(text.contains("karpenter_build_info"));
}

#[test]
fn a_signal_that_is_gone_has_no_age() {
    let metrics = Metrics::new();
    metrics.signal_age.set([("a", 5), ("b", 6)].into_iter());
    metrics.signal_age.set([("b", 7)].into_iter());
    let text = metrics.text();
    let ages = text.lines().filter(|line| line.contains("age_seconds{"));
    assert_eq!(
        ages.collect::<Vec<_>>(),
        [r#"longshore_signal_age_seconds{signal="b"} 7"#]
    );
}

#[test]
fn a_nodepool_that_is_gone_has_no_metrics() {
    let metrics = Metrics::new();
    let amounts =
        |pairs: &[(&str, f64)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
    metrics.pool(
        "web",
        &amounts(&[("cpu", 100.0)]),
        &amounts(&[("cpu", 4.5), ("nodes", 2.0)]),
    );
    assert!(
        metrics
            .text()
            .contains(r#"karpenter_nodepools_usage{nodepool="web",resource_type="cpu"} 4.5"#)
    );
    metrics.pool("web", &amounts(&[]), &amounts(&[("nodes", 2.0)]));
    let text = metrics.text();
    assert!(
        !text.contains("nodepools_limit{")
            && text.matches("karpenter_nodepools_usage{").count() == 1,
        "{text}"
    );
    metrics.pool("web", &amounts(&[]), &amounts(&[]));
    assert!(!metrics.text().contains("karpenter_nodepools_usage{"));
}
