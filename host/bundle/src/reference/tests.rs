use super::{LayoutReference, OciReference};

fn digest() -> String {
    format!("sha256:{}", "0a".repeat(32))
}

fn oci(name: &str) -> Result<OciReference, String> {
    let text = name.replace("DIGEST", &digest());
    OciReference::try_from(text).map_err(|error| {
        assert!(!error.hint.is_empty());
        format!("{}: {}", error.column, error.reason)
    })
}

#[test]
fn a_reference_has_host_repository_tag_and_digest() {
    let is = oci("Reg.Example:5000/policies/carbon:1.4@DIGEST").unwrap();
    assert_eq!(is.host, "reg.example:5000");
    assert_eq!(is.repository, "policies/carbon");
    assert_eq!(is.tag.as_deref(), Some("1.4"));
    let shown = format!("reg.example:5000/policies/carbon:1.4@{}", digest());
    assert_eq!(is.to_string(), shown);
}

#[test]
fn the_tag_may_be_absent() {
    assert_eq!(oci("ghcr.io/a/b@DIGEST").unwrap().tag, None);
}

#[test]
fn the_usual_port_is_no_way_around_a_key() {
    assert_eq!(
        oci("reg.example:443/a@DIGEST").unwrap().name(),
        "reg.example/a"
    );
}

#[test]
fn an_address_is_a_host() {
    assert_eq!(oci("[::1]:5000/a@DIGEST").unwrap().host, "[::1]:5000");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let said = |text| oci(text).unwrap_err();
    assert_eq!(said("reg.example/a:1"), "16: it has no digest");
    assert_eq!(
        said("https://reg.example/a@DIGEST"),
        "1: it begins with `https://`"
    );
    assert_eq!(
        said("policies/carbon@DIGEST"),
        "1: `policies` is not a host"
    );
    assert_eq!(said("carbon@DIGEST"), "1: it names no registry");
    assert_eq!(said("reg.example/A@DIGEST"), "13: `A` is not a repository");
    assert_eq!(
        said("reg.example/a//b@DIGEST"),
        "13: `a//b` is not a repository"
    );
    assert_eq!(
        said("reg.example/a/../b@DIGEST"),
        "13: `a/../b` is not a repository"
    );
    assert_eq!(said("reg.example/a:-@DIGEST"), "15: `-` is not a tag");
    assert_eq!(
        said("reg.example/a@sha256:0A"),
        "15: a SHA-256 has 64 digits, this has 2"
    );
    assert_eq!(
        said("reg.example/a@md5:0"),
        "15: `md5:0` does not begin with `sha256:`"
    );
    assert!(said("reg.example:0/a@DIGEST").ends_with("is not a host"));
    assert!(said("user:pw@reg.example/a@DIGEST").starts_with("1: "));
}

#[test]
fn a_layout_has_a_whole_path() {
    let of = |text: &str| LayoutReference::try_from(text.replace("DIGEST", &digest()));
    let is = of("/policies/a@b@DIGEST").unwrap();
    assert_eq!(is.folder.to_str(), Some("/policies/a@b"));
    let error = of("policies@DIGEST").unwrap_err();
    assert_eq!(error.reason, "the path does not begin with `/`");
    assert_eq!(of("/policies").unwrap_err().column, 10);
}
