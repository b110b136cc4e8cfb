//! Bootstrap policies: what nodes boot with. wit/bootstrap@0.1.0/bootstrap.wit has the contract.

use serde::de::DeserializeOwned;

use crate::About;

/// Says what nodes boot with.
pub trait Bootstrap: Sized + 'static {
    /// Name, version and summary of the policy.
    const ABOUT: About;
    /// What an operator sets. Refuse unknown keys (`#[serde(deny_unknown_fields)]`).
    type Settings: DeserializeOwned;

    /// A policy with these settings, or what is wrong with them and what would be right.
    fn new(settings: Self::Settings) -> Result<Self, String>;

    /// What the kubelet keeps back, a row for each of [`machines`]; the built-in by default.
    fn overheads(&mut self) -> Result<Overhead, String> {
        Ok(Overhead::built_in())
    }

    /// User data of nodes of a kind on some rows of [`machines`].
    fn user_data(&mut self, kind: &Kind, machines: &[u32]) -> Result<Rendered, String>;
}

/// Nodes to come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// Their NodePool; empty if it is not known.
    pub node_pool: String,
    /// Labels that a node gives itself.
    pub labels: Vec<(String, String)>,
    /// Labels that it gets from elsewhere: to read.
    pub known_labels: Vec<(String, String)>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Taints that something removes when the node has started.
    pub startup_taints: Vec<Taint>,
}

/// A taint that a node registers with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The effect.
    pub effect: String,
    /// When it was added; empty if that was not said.
    pub time_added: String,
}

/// What the kubelet keeps back, in cores and bytes, a row for each machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overhead {
    /// Most pods.
    pub max_pods: Vec<u32>,
    /// The amounts, in the order of [`AMOUNTS`].
    pub amounts: [Vec<f64>; 8],
}

/// Names of the amounts of an [`Overhead`].
pub const AMOUNTS: [&str; 8] = [
    "kube-reserved-cpu",
    "kube-reserved-memory",
    "kube-reserved-storage",
    "system-reserved-cpu",
    "system-reserved-memory",
    "system-reserved-storage",
    "eviction-memory",
    "eviction-storage",
];

/// Texts and, for each machine that was asked about, which of them it boots with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The texts.
    pub texts: Vec<Vec<u8>>,
    /// Index into `texts`.
    pub of: Vec<u32>,
}

impl Overhead {
    /// What the host would say. What is not known is 0.
    pub fn built_in() -> Self {
        let column = |name: &str| -> Vec<f64> {
            let known = built_in::overhead(name);
            known.into_iter().map(|amount| amount.max(0.0)).collect()
        };
        let pods = column("max-pods").into_iter();
        Overhead {
            max_pods: pods.map(|pods| pods as u32).collect(),
            amounts: AMOUNTS.map(column),
        }
    }
}

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
impl Overhead {
    /// As the contract has it.
    pub fn columns(self) -> Vec<(String, Vec<f64>)> {
        let pods = self.max_pods.into_iter().map(f64::from).collect();
        let amounts = AMOUNTS.map(str::to_owned).into_iter().zip(self.amounts);
        let pods = [("max-pods".to_owned(), pods)];
        pods.into_iter().chain(amounts).collect()
    }
}

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
impl Kind {
    /// The nodes that user data is asked for.
    pub fn pull() -> Self {
        let taints = |taints: Vec<host::kind::Taint>| {
            let taint = |taint: host::kind::Taint| Taint {
                key: taint.key,
                value: taint.value,
                effect: taint.effect,
                time_added: taint.time_added,
            };
            taints.into_iter().map(taint).collect()
        };
        Kind {
            node_pool: host::kind::node_pool(),
            labels: host::kind::labels(),
            known_labels: host::kind::known_labels(),
            taints: taints(host::kind::taints()),
            startup_taints: taints(host::kind::startup_taints()),
        }
    }
}

impl Rendered {
    /// Adds the text of the next machine; a text that is there already is not stored again.
    pub fn push(&mut self, text: Vec<u8>) {
        let there = self.texts.iter().position(|have| *have == text);
        let at = there.unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        });
        self.of.push(at as u32);
    }
}

/// A policy from settings as the host hands them over.
#[doc(hidden)]
pub fn configured<B: Bootstrap>(settings: &str) -> Result<B, String> {
    B::new(serde_json::from_str(settings).map_err(|error| error.to_string())?)
}

#[cfg(target_arch = "wasm32")]
use crate::bindings::bootstrap::longshore::bootstrap as host;
#[cfg(not(target_arch = "wasm32"))]
use crate::testing::boot as host;

/// The cluster. A text that is empty is not known.
pub mod cluster {
    use super::host::cluster as host;

    /// Its name.
    pub fn name() -> String {
        host::name()
    }

    /// The API server's URL.
    pub fn endpoint() -> String {
        host::endpoint()
    }

    /// The CA certificate, PEM in base64.
    pub fn certificate_authority() -> String {
        host::certificate_authority()
    }

    /// The API server's version.
    pub fn version() -> String {
        host::version()
    }

    /// CIDR blocks of Services.
    pub fn service_ranges() -> Vec<String> {
        host::service_ranges()
    }

    /// Addresses of the cluster's DNS.
    pub fn dns_addresses() -> Vec<String> {
        host::dns_addresses()
    }
}

/// The machines of a NodeClass: row i is the same instance type in each column.
pub mod machines {
    use super::host::machines as host;

    /// The NodeClass as JSON.
    pub fn node_class() -> String {
        host::node_class()
    }

    /// How many there are.
    pub fn count() -> u32 {
        host::count()
    }

    /// Names of instance types.
    pub fn instance_type_names() -> Vec<String> {
        host::instance_type_names()
    }

    /// Table: values of a label.
    pub fn label_values(key: &str) -> Vec<String> {
        host::label_values(key)
    }

    /// Index into [`label_values`] of the same key.
    pub fn labels(key: &str) -> Vec<u32> {
        host::labels(key)
    }

    /// Cores, bytes or devices; NaN for not known.
    pub fn capacity(name: &str) -> Vec<f64> {
        host::capacity(name)
    }

    /// Interfaces of the default network card.
    pub fn network_interfaces() -> Vec<u32> {
        host::network_interfaces()
    }

    /// IPv4 addresses of an interface.
    pub fn addresses_per_interface() -> Vec<u32> {
        host::addresses_per_interface()
    }

    /// Bytes of own disks.
    pub fn local_bytes() -> Vec<f64> {
        host::local_bytes()
    }

    /// How many own disks; `u32::MAX` for not known.
    pub fn local_disks() -> Vec<u32> {
        host::local_disks()
    }

    /// Bytes of the volume that is booted from; NaN for not known.
    pub fn root_bytes() -> Vec<f64> {
        host::root_bytes()
    }

    /// Table: names of images.
    pub fn image_names() -> Vec<String> {
        host::image_names()
    }

    /// Index into [`image_names`]; `u32::MAX` for not known.
    pub fn images() -> Vec<u32> {
        host::images()
    }
}

/// What the host would say without a policy.
pub mod built_in {
    use super::host::built_in as host;

    /// A column of the overhead by its name; NaN for not known.
    pub fn overhead(name: &str) -> Vec<f64> {
        host::overhead(name)
    }

    /// User data for the machines that are asked about.
    pub fn texts() -> Vec<Vec<u8>> {
        host::texts()
    }

    /// Index into [`texts`], for each of these machines.
    pub fn text_of() -> Vec<u32> {
        host::text_of()
    }
}

/// Makes a component of a [`Bootstrap`] policy. On other targets than `wasm32` it does nothing.
#[macro_export]
macro_rules! export_bootstrap {
    ($policy:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::bindings::bootstrap::exports::longshore::bootstrap::bootstrap;
            use $crate::bindings::plugin::exports::longshore::policy::plugin;

            struct Exported;

            ::std::thread_local! {
                static POLICY: ::std::cell::RefCell<Option<$policy>> = const { ::std::cell::RefCell::new(None) };
            }

            fn with<T>(ask: impl FnOnce(&mut $policy) -> Result<T, String>) -> Result<T, String> {
                POLICY.with_borrow_mut(|policy| ask(policy.as_mut().ok_or("asked before it was \
                    configured")?))
            }

            impl plugin::Guest for Exported {
                fn describe() -> plugin::Description {
                    let about = <$policy as $crate::Bootstrap>::ABOUT;
                    plugin::Description {
                        name: about.name.to_owned(),
                        version: about.version.to_owned(),
                        summary: about.summary.to_owned(),
                        signals: about.signals.iter().map(|of| plugin::SignalUse {
                            name: of.name.to_owned(),
                            required: of.required,
                            max_age: of.max_age,
                        }).collect(),
                        settings_schema: about.settings_schema.to_owned(),
                        annotations: Vec::new(),
                    }
                }

                fn configure(settings: String) -> Result<(), String> {
                    $crate::policy::speak_on_panic();
                    let policy = $crate::bootstrap::configured(&settings)?;
                    POLICY.set(Some(policy));
                    Ok(())
                }
            }

            impl bootstrap::Guest for Exported {
                fn overheads() -> Result<Vec<(String, Vec<f64>)>, String> {
                    let overhead = with(|policy| $crate::Bootstrap::overheads(policy))?;
                    Ok(overhead.columns())
                }

                fn user_data(machines: Vec<u32>) -> Result<bootstrap::Rendered, String> {
                    let kind = $crate::bootstrap::Kind::pull();
                    let rendered = with(|policy| $crate::Bootstrap::user_data(policy, &kind, &machines))?;
                    Ok(bootstrap::Rendered { texts: rendered.texts, of: rendered.of })
                }
            }

            $crate::bindings::plugin::export_plugin_ability!(Exported with_types_in $crate::bindings::plugin);
            $crate::bindings::bootstrap::export_bootstrap_ability!(Exported with_types_in $crate::bindings::bootstrap);
        };
        // Elsewhere it has no caller; this prevents a warning about dead code.
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn(&str) -> Result<$policy, String> = $crate::bootstrap::configured::<$policy>;
    };
}
