//! Where policies may come from: `oci` and `oci-layout` of a `[[policy]]`, `[registries]` with how
//! each registry is asked, and `[[trust]]` with whose signature is demanded.

use std::collections::BTreeMap;
use std::path::Path;

use longshore_bundle::{
    LayoutReference, OciReference, Reference, ReferenceError, RegistrySettings, TrustSettings,
};

use super::reader::Table;

/// Reads `oci` or `oci-layout` of a `[[policy]]`.
pub(super) fn reference(table: &mut Table) -> Option<Reference> {
    let oci = read(table, "oci", OciReference::try_from).map(Reference::Oci);
    let layout = read(table, "oci-layout", LayoutReference::try_from).map(Reference::Layout);
    oci.or(layout)
}

fn read<T>(
    table: &mut Table,
    key: &str,
    read: impl Fn(String) -> Result<T, ReferenceError>,
) -> Option<T> {
    let text = table.text(key)?;
    match read(text.to_owned()) {
        Ok(reference) => Some(reference),
        Err(why) => {
            let at = text.char_indices().nth(why.column - 1);
            let at = at.map_or(text.len(), |(at, _)| at);
            let message = format!("`{key}`: {}", why.reason);
            table.fault_within(key, at, message, why.hint.into());
            None
        }
    }
}

/// Reads `[registries."HOST"]`, by host.
pub(super) fn registries(root: &mut Table, folder: &Path) -> BTreeMap<String, RegistrySettings> {
    let mut registries = BTreeMap::new();
    let Some(mut all) = root.table("registries") else {
        return registries;
    };
    for host in all.keys() {
        let Some(mut table) = all.table(&host) else {
            continue;
        };
        let settings = RegistrySettings {
            auth_file: table.text("auth-file").map(|file| folder.join(file)),
            ca_file: table.text("ca-file").map(|file| folder.join(file)),
            mirror: table.text("mirror").map(str::to_owned),
            plain_http: table.truth("plain-http").unwrap_or_default(),
            insecure: table.truth("insecure").unwrap_or_default(),
        };
        if let Err(why) = settings.check(&host) {
            table.fault_at(why.key.unwrap_or_default(), why.reason, why.hint.into());
        }
        table.finish();
        registries.insert(host, settings);
    }
    registries
}

/// Reads every `[[trust]]`.
pub(super) fn trust(root: &mut Table, folder: &Path) -> Vec<TrustSettings> {
    let mut all = Vec::new();
    for mut table in root.tables("trust") {
        let key_file = table
            .required_text("key-file")
            .map(|file| folder.join(file));
        let names = table.texts("for");
        if !table.has("for") {
            table.missing("for", "[\"reg.example/policies/*\"]");
        }
        if names.as_ref().is_some_and(Vec::is_empty) {
            let message = "`for` is empty: the key would be demanded of nothing".into();
            let hint = "name repositories as in `oci`, or the folder of `oci-layout`; `*` stands \
                        for any characters";
            table.fault_at("for", message, hint.into());
        }
        if let (Some(key_file), Some(names)) = (key_file, names) {
            all.push(TrustSettings { key_file, names });
        }
        table.finish();
    }
    all
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect;

    use crate::config::tests::faults;
    use crate::config::{Config, ConfigError, parse};

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn read(text: &str) -> Result<Config, Vec<ConfigError>> {
        let text = text.replace("DIGEST", DIGEST);
        parse(Path::new("/conf/longshore.toml"), &text)
    }

    #[test]
    fn a_policy_may_be_in_a_registry_or_in_a_layout() {
        let config = read(
            "[[policy]]\nname = 'a'\noci = 'Reg.example/policies/carbon:1.4@DIGEST'\n\
             [[policy]]\nname = 'b'\noci-layout = '/policies@DIGEST'\n\
             [registries.'reg.example']\nauth-file = '/pull/.dockerconfigjson'\nca-file = 'ca.pem'\n\
             mirror = 'mirror.local:5000'\n\
             [[trust]]\nkey-file = 'vendor.pub'\nfor = ['reg.example/policies/*']\n",
        )
        .unwrap();
        let [a, b] = &config.policies[..] else {
            panic!("two policies")
        };
        let called = format!("reg.example/policies/carbon:1.4@{DIGEST}");
        assert_eq!(a.source.to_string(), called);
        let name = a.source.reference().unwrap().name();
        assert_eq!(name, "reg.example/policies/carbon");
        assert_eq!(b.source.reference().unwrap().name(), "/policies");
        let registry = &config.registries["reg.example"];
        assert_eq!(registry.ca_file.as_deref(), Some(Path::new("/conf/ca.pem")));
        let trust = &config.trust[0];
        assert_eq!(trust.key_file, Path::new("/conf/vendor.pub"));
        assert!(trust.covers(&name) && !trust.covers("/policies"));
    }

    #[test]
    fn a_policy_is_in_one_place_and_named_by_its_digest() {
        faults(
            &"[[policy]]\nname = 'a'\npath = 'a.wasm'\noci = 'reg.example/a@DIGEST'\n\
             [[policy]]\nname = 'b'\noci = 'reg.example/b:1.4'\n\
             [[policy]]\nname = 'c'\noci = 'https://reg.example/c@DIGEST'\n\
             [[policy]]\nname = 'd'\noci-layout = 'policies@DIGEST'\n\
             [[policy]]\nname = 'e'\noci = 'reg.example/e@sha256:12'\n\
             [[policy]]\nname = 'f'\n"
                .replace("DIGEST", DIGEST),
            expect![[r#"
                conf/longshore.toml:4:7: `oci` stands beside `path`: expected one of them
                    hint: delete one of the two
                conf/longshore.toml:7:25: `oci`: it has no digest
                    hint: append `@sha256:…`: the digest that `oras push` printed, or `oras resolve`
                conf/longshore.toml:10:8: `oci`: it begins with `https://`
                    hint: write it without the scheme: `plain-http` of the registry says which it is
                conf/longshore.toml:13:15: `oci-layout`: the path does not begin with `/`
                    hint: write the folder's whole path, such as `/policies@sha256:…`
                conf/longshore.toml:16:22: `oci`: a SHA-256 has 64 digits, this has 2
                    hint: append `@sha256:…`: the digest that `oras push` printed, or `oras resolve`
                conf/longshore.toml:17:1: `path` is missing in [[policy]]
                    hint: add `path = "…"`, or `cel = "…"` for an expression
            "#]],
        );
    }

    #[test]
    fn registries_and_keys_have_known_keys_with_values_that_can_be_used() {
        faults(
            &"[registries.'https://reg.example']\n\
             [registries.'reg.example']\nauthfile = 'a'\nmirror = 'https://mirror.local'\n\
             plain-http = true\n\
             [registries.'127.0.0.1:5000']\nplain-http = 'yes'\ninsecure = true\n\
             [[trust]]\nkey = 'vendor.pub'\nfor = []\n\
             [[trust]]\nkey-file = 'vendor.pub'\n"
                .replace("DIGEST", DIGEST),
            expect![[r#"
                conf/longshore.toml:1:1: `https://reg.example` is not a registry
                    hint: write host and port as in `oci`, in lower case, without a scheme and without `:443`
                conf/longshore.toml:3:1: unknown key `authfile` in [registries."reg.example"]: expected one of `auth-file`, `ca-file`, `insecure`, `mirror`, `plain-http`
                    hint: did you mean `auth-file`?
                conf/longshore.toml:5:14: `plain-http` to reg.example, which is not this machine
                    hint: use TLS with `ca-file`, or add `insecure = true`
                conf/longshore.toml:7:14: `plain-http` is a string: expected true or false
                    hint: write it without quotes
                conf/longshore.toml:8:12: `insecure` only allows `plain-http`
                    hint: remove it, or add `plain-http`
                conf/longshore.toml:9:1: `key-file` is missing in [[trust]]
                    hint: add `key-file = "…"`
                conf/longshore.toml:10:1: unknown key `key` in [[trust]]: expected one of `for`, `key-file`
                    hint: did you mean `key-file`?
                conf/longshore.toml:11:7: `for` is empty: the key would be demanded of nothing
                    hint: name repositories as in `oci`, or the folder of `oci-layout`; `*` stands for any characters
                conf/longshore.toml:12:1: `for` is missing in [[trust]]
                    hint: add `for = ["reg.example/policies/*"]`
            "#]],
        );
    }
}
