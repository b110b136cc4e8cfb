//! Loads a policy from a file: identified, checked against the contract, compiled, described and
//! configured. Refusals say what was found, what was expected and what to do.

pub(crate) mod about;
mod contract;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker};

use crate::cache::{self, Cache, Kept};
use crate::call::Instance;
use crate::call::answer::{About, CallError};
use crate::compiler::{CompileChild, CompileError, Compiler};
use crate::engine::{HostConfig, engine};
use crate::guest_text::{cut, printable};
use crate::imports::state::StoreData;
use crate::imports::{Offered, VERSION, linker};
use crate::loaded::{Loaded, LoadedPolicy};
use crate::score_request::ScoreRequest;
use crate::settings;

/// The largest component that is read: one in Python has 18 MiB.
pub const MAX_COMPONENT_BYTES: u64 = 64 << 20;
use crate::signals::DeclaredSignals;
use crate::terms::Terms;
use contract::{compatible, find_exports, implemented, is_superseded, ours};

/// The longest of what a policy says about itself and its settings, in bytes.
const MAX_SUMMARY_BYTES: usize = 500;
const MAX_PROBLEM_BYTES: usize = 2000;

/// Marks of a component that is being compiled, and of one whose compiling did not end once.
const BEGUN: &str = "begun";
const BEGUN_TWICE: &str = "begun twice";
/// Most remarks that are kept until they are taken.
const MAX_REMARKS: usize = 100;

/// Why a policy was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The component is not one that this host runs.
    #[error("cannot load {}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Which rule the component breaks.
        #[source]
        refusal: Refusal,
    },
    /// The engine itself cannot be set up.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The component is fine, its settings are not.
    #[error("{}: settings: {problem}", path.display())]
    Settings {
        /// Path of the component.
        path: PathBuf,
        /// What is wrong, where, and a hint.
        problem: String,
    },
}

/// Why a file is not a policy that this host runs.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The file does not begin as WebAssembly does.
    #[error(
        "not WebAssembly: it begins with \"{begins}\"; expected a component that `wasm-tools \
        component new` or an SDK made"
    )]
    NotWasm {
        /// The first eight bytes of the file, escaped.
        begins: String,
    },
    /// The file has no bytes.
    #[error("it is empty: build the component again")]
    Empty,
    /// The file is packed with gzip.
    #[error("it is packed with gzip: give it as `gzip --decompress` unpacks it")]
    Packed,
    /// A core module: it has to be wrapped as a component.
    #[error(
        "a core WebAssembly module, not a component; give it the contract's types and wrap it: \
        `wasm-tools component embed wit/policy@0.1.0 -w scorer-policy {name} -o typed.wasm`, then `wasm-tools component \
        new typed.wasm -o policy.wasm`; wasm-tools comes with `cargo install wasm-tools` or from \
        github.com/bytecodealliance/wasm-tools/releases"
    )]
    CoreModule {
        /// The file's name.
        name: String,
    },
    /// It needs what is switched off.
    #[error("it uses a part of WebAssembly that policies cannot have: {detail}; {hint}")]
    Feature {
        /// The validator's words.
        detail: String,
        /// How to build it without.
        hint: &'static str,
    },
    /// Bytes that are not valid WebAssembly.
    #[error("damaged or cut short ({size} bytes): {detail}; build or fetch it again")]
    Damaged {
        /// Bytes that the file has.
        size: usize,
        /// The validator's words.
        detail: String,
    },
    /// Compiling it killed the compiler.
    #[error("{why}; it is not compiled again before it changes")]
    KillsCompiler {
        /// What happened to the compiler.
        why: String,
    },
    /// It was not compiled, for a reason that may go by.
    #[error("{why}; it is tried again in a while")]
    NotCompiled {
        /// Why.
        why: String,
    },
    /// It was built against 0.1.0 before that was settled.
    #[error(
        "it was built for longshore:policy@0.1.0 as it was before that was settled: `describe` names \
        `implements`; build it again with wit/ or the SDK of this version: prices are in USD, and \
        `generation`, `gpu-counts`, `interruption-rates` and `placement-scores` are now \
        `offerings.edition`, `resources` and `joined`"
    )]
    Superseded,
    /// It wants what the host does not offer.
    #[error("it imports what a policy cannot have: {}", problems.join("; "))]
    Imports {
        /// One sentence for each import, with a hint.
        problems: Vec<String>,
    },
    /// It lacks what a policy must have.
    #[error("{problem}")]
    Exports {
        /// What is missing, and a hint.
        problem: String,
    },
    /// It cannot be started or does not identify itself.
    #[error("it does not start")]
    Start(#[source] CallError),
    /// What it says about itself is wrong.
    #[error("what it says about itself: {problem}")]
    About {
        /// Which part, and what was expected.
        problem: String,
    },
}

/// An import or export of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name with package and version.
    pub name: String,
    /// Its functions, in the component's order.
    pub functions: Vec<String>,
}

/// What a file is, wants and offers.
#[derive(Debug)]
pub struct Description {
    /// The file.
    pub path: PathBuf,
    /// SHA-256 of its bytes, in hex.
    pub digest: String,
    /// Its size in bytes.
    pub size: usize,
    /// What it imports: all that it can ever see.
    pub imports: Vec<Interface>,
    /// Interfaces of Longshore's contract that it exports.
    pub exports: Vec<Interface>,
    /// What it says about itself.
    pub about: Option<About>,
    /// Why it would be refused, if so. What could be found out before is there nevertheless.
    pub refusal: Option<Refusal>,
}

/// Runs policies. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    linker: Linker<StoreData>,
    offered: Offered,
    config: HostConfig,
    remarks: Mutex<Vec<String>>,
}

impl LoadError {
    /// Whether the same files may be loaded later: it was for want of time or memory here.
    pub fn may_go_by(&self) -> bool {
        let LoadError::Refused { refusal, .. } = self else {
            return false;
        };
        matches!(
            refusal,
            Refusal::NotCompiled { .. } | Refusal::Start(CallError::Time { .. })
        )
    }
}

/// The host cannot be set up on this machine.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up the WebAssembly engine: {0}")]
pub struct HostError(String);

impl Host {
    /// A host with its own engine.
    pub fn new(config: HostConfig) -> Result<Self, HostError> {
        let setup = || {
            let engine = engine(&config)?;
            let (linker, offered) = linker(&engine)?;
            Ok((engine, linker, offered))
        };
        let (engine, linker, offered) =
            setup().map_err(|error: wasmtime::Error| HostError(format!("{error:#}")))?;
        Ok(Host {
            shared: Arc::new(Shared {
                engine,
                linker,
                offered,
                config,
                remarks: Mutex::default(),
            }),
        })
    }

    /// Loads a component and gives it its settings, TOML; none is an empty table. It may be asked all
    /// that it exports: for tools and tests.
    pub fn load(
        &self,
        path: &Path,
        settings_toml: Option<&str>,
    ) -> Result<LoadedPolicy, LoadError> {
        self.load_on(&Terms::everything(), path, settings_toml)
    }

    /// As [`Host::load`], on an operator's terms.
    pub fn load_on(
        &self,
        terms: &Terms,
        path: &Path,
        settings_toml: Option<&str>,
    ) -> Result<LoadedPolicy, LoadError> {
        let bytes = read(path)?;
        self.load_bytes(terms, path, &bytes, settings_toml)
    }

    /// As [`Host::load_on`], from bytes; `path` is what errors call it.
    pub fn load_bytes(
        &self,
        terms: &Terms,
        path: &Path,
        bytes: &[u8],
        settings_toml: Option<&str>,
    ) -> Result<LoadedPolicy, LoadError> {
        let refused = |refusal| LoadError::Refused {
            path: path.to_owned(),
            refusal,
        };
        let bad = |problem| LoadError::Settings {
            path: path.to_owned(),
            problem,
        };
        let digest = hex(&Sha256::digest(bytes));
        let component = self.compile(path, bytes, &digest).map_err(refused)?;
        let mut loaded = self.start(&component, digest, terms).map_err(refused)?;

        let settings = settings::from_toml(settings_toml)
            .map_err(|error| bad(error.to_string().trim_end().to_owned()))?;
        let problems = settings::check(&loaded.about.settings_schema, &settings);
        if !problems.is_empty() {
            return Err(bad(cut(problems.join("; "), MAX_PROBLEM_BYTES)));
        }
        loaded.settings = settings.to_string().into();
        Instance::new(&loaded)
            .and_then(|mut instance| instance.configure(loaded.settings.clone()))
            .map_err(|error| match error {
                CallError::Refused { message, .. } => bad(message),
                error => refused(Refusal::Start(error)),
            })?;
        Ok(LoadedPolicy(Arc::new(loaded)))
    }

    /// A component that is not configured yet: for [cases](crate::Case), which have settings of their
    /// own.
    pub fn identify(&self, path: &Path, bytes: &[u8]) -> Result<LoadedPolicy, LoadError> {
        let refused = |refusal| LoadError::Refused {
            path: path.to_owned(),
            refusal,
        };
        let digest = hex(&Sha256::digest(bytes));
        let component = self.compile(path, bytes, &digest).map_err(refused)?;
        let loaded = self.start(&component, digest, &Terms::everything());
        Ok(LoadedPolicy(Arc::new(loaded.map_err(refused)?)))
    }

    /// What a file is, wants and exports, and why it would be refused. Settings are ignored.
    pub fn inspect(&self, path: &Path) -> Result<Description, LoadError> {
        Ok(self.inspect_bytes(path, &read(path)?))
    }

    /// As [`Host::inspect`], from bytes; `path` is what the description calls them.
    pub fn inspect_bytes(&self, path: &Path, bytes: &[u8]) -> Description {
        let digest = hex(&Sha256::digest(bytes));
        let mut description = Description {
            path: path.to_owned(),
            digest: digest.clone(),
            size: bytes.len(),
            imports: Vec::new(),
            exports: Vec::new(),
            about: None,
            refusal: None,
        };
        match self.compile(path, bytes, &digest) {
            Ok(component) => {
                let of = component.component_type();
                let engine = &self.shared.engine;
                description.imports = of
                    .imports(engine)
                    .map(|(name, item)| interface(engine, name, &item.ty))
                    .collect();
                description.exports = of
                    .exports(engine)
                    .map(|(name, item)| interface(engine, name, &item.ty))
                    .collect();
                match self.start(&component, digest, &Terms::everything()) {
                    Ok(loaded) => description.about = Some(loaded.about),
                    Err(refusal) => description.refusal = Some(refusal),
                }
            }
            Err(refusal) => description.refusal = Some(refusal),
        }
        description
    }

    fn compile(&self, path: &Path, bytes: &[u8], digest: &str) -> Result<Component, Refusal> {
        recognise(path, bytes)?;
        let config = &self.shared.config;
        let engine = &self.shared.engine;
        let folder = config.cache.as_deref();
        let cache = folder.map(|folder| Cache { folder, engine });
        match cache.as_ref().map(|cache| cache.get(digest)) {
            Some(Kept::Code(component)) => return Ok(*component),
            Some(Kept::PassedOver(why)) => {
                self.remark(format!("compiled code is passed over: {why}"))
            }
            Some(Kept::Nothing) | None => {}
        }
        if let Some(tell) = config.on_compile {
            tell(path);
        }
        let damaged = |detail: String| {
            let detail = printable(&detail);
            match feature_hint(&detail) {
                Some(hint) => Refusal::Feature { detail, hint },
                None => Refusal::Damaged {
                    size: bytes.len(),
                    detail,
                },
            }
        };
        let code = match &config.compiler {
            Compiler::Here => engine
                .precompile_component(bytes)
                .map_err(|error| damaged(format!("{:#}", error.root_cause())))?,
            Compiler::Child(child) => {
                self.compile_in(child, bytes, digest)
                    .map_err(|error| match error {
                        CompileError::Damaged(detail) => damaged(detail),
                        CompileError::Died(why) => Refusal::KillsCompiler { why },
                        CompileError::Failed(why) => Refusal::NotCompiled { why },
                    })?
            }
        };
        if let Some(Err(why)) = cache.map(|cache| cache.put(digest, &code)) {
            self.remark(format!("compiled code is not kept: {why}"));
        }
        // SAFETY: the code was made by this engine, or by one alike in a child of ours.
        unsafe { Component::deserialize(engine, &code) }
            .map_err(|error| damaged(format!("{error:#}")))
    }

    /// Compiles in a child, unless the component has killed one before.
    fn compile_in(
        &self,
        child: &CompileChild,
        bytes: &[u8],
        digest: &str,
    ) -> Result<Vec<u8>, CompileError> {
        let config = &self.shared.config;
        let folder = config.cache.as_deref();
        let mark = folder.and_then(|folder| cache::mark(folder, digest));
        let begun = match mark.as_deref() {
            // Twice: the first time it may have been told to stop.
            Some(BEGUN_TWICE) => {
                let why = "the daemon ended twice while it was compiled".to_owned();
                return Err(CompileError::Died(why));
            }
            Some(BEGUN) => BEGUN_TWICE,
            Some(why) => return Err(CompileError::Died(why.to_owned())),
            None => BEGUN,
        };
        if let Some(folder) = folder {
            cache::set_mark(folder, digest, begun);
        }
        let code = child.compile(bytes, config.canonical_nans);
        match (folder, &code) {
            (Some(folder), Err(CompileError::Died(why))) => cache::set_mark(folder, digest, why),
            (Some(folder), _) => cache::clear_mark(folder, digest),
            (None, _) => {}
        }
        code
    }

    /// What happened that is no error, since last asked.
    pub fn take_remarks(&self) -> Vec<String> {
        let mut remarks = self.shared.remarks.lock();
        remarks
            .as_mut()
            .map(|all| std::mem::take(&mut **all))
            .unwrap_or_default()
    }

    fn remark(&self, what: String) {
        if let Ok(mut remarks) = self.shared.remarks.lock()
            && remarks.len() < MAX_REMARKS
            && !remarks.contains(&what)
        {
            remarks.push(what);
        }
    }

    /// Checks imports and exports, instantiates once and asks for the identity.
    fn start(
        &self,
        component: &Component,
        digest: String,
        terms: &Terms,
    ) -> Result<Loaded, Refusal> {
        if is_superseded(component, &self.shared.engine) {
            return Err(Refusal::Superseded);
        }
        self.check_imports(component)?;
        let mut exports = find_exports(component, &self.shared.engine)?;
        exports.restrict(&terms.grants);
        let problem = |error: wasmtime::Error| Refusal::Imports {
            problems: vec![format!("{error:#}")],
        };
        let pre = self
            .shared
            .linker
            .instantiate_pre(component)
            .map_err(problem)?;
        let mut loaded = Loaded {
            pre,
            exports,
            limits: self.shared.config.limits,
            about: About::default(),
            terms: terms.clone(),
            visible: Arc::default(),
            digest,
            settings: "{}".into(),
            nothing: ScoreRequest::nothing(),
        };
        let raw = Instance::new(&loaded)
            .and_then(|mut instance| instance.describe())
            .map_err(Refusal::Start)?;
        loaded.about = raw.of(implemented(component, &self.shared.engine));
        about::check(&loaded.about)?;
        let about = &mut loaded.about;
        about.summary = cut(std::mem::take(&mut about.summary), MAX_SUMMARY_BYTES);
        for (key, value) in &mut about.annotations {
            (*key, *value) = (printable(key), printable(value));
        }
        let uses = about::signal_uses(about, terms);
        loaded.visible = Arc::new(DeclaredSignals::of(&uses, terms.signals.as_ref()));
        Ok(loaded)
    }

    fn check_imports(&self, component: &Component) -> Result<(), Refusal> {
        let engine = &self.shared.engine;
        let of = component.component_type();
        let problems: Vec<String> = of
            .imports(engine)
            .flat_map(|(name, item)| self.import_problems(&interface(engine, name, &item.ty)))
            .collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Refusal::Imports { problems })
        }
    }

    /// What is wrong with one import: nothing, or one sentence for the interface or for each
    /// function.
    fn import_problems(&self, import: &Interface) -> Vec<String> {
        let name = &import.name;
        let Some((package, interface, version)) = ours(name) else {
            let hint = if name.starts_with("wasi:") {
                "a policy has no clock, files, network or randomness: build for \
                wasm32-unknown-unknown, or stub WASI"
            } else {
                "only longshore:policy, longshore:consolidation and longshore:bootstrap are offered"
            };
            return vec![format!("`{name}` ({hint})")];
        };
        let offered = &self.shared.offered;
        let exact = format!("{package}/{interface}@{version}");
        let known = offered
            .get(&exact)
            .or_else(|| offered.get(&format!("{package}/{interface}@{VERSION}")));
        let is_offered = offered.contains_key(&exact) || compatible(version);
        if !is_offered {
            return vec![format!(
                "`{name}` (this host offers version {VERSION}; build against that)"
            )];
        }
        let Some(functions) = known else {
            let prefix = format!("{package}/");
            let known = offered.keys().filter_map(|name| name.strip_prefix(&prefix));
            let known = known.filter_map(|name| Some(name.split_once('@')?.0));
            return vec![format!(
                "`{name}` (no such interface; there are {})",
                known.collect::<Vec<_>>().join(", ")
            )];
        };
        let unknown = import
            .functions
            .iter()
            .filter(|f| !functions.contains(&f.as_str()));
        unknown
            .map(|f| {
                format!(
                    "`{name}`.`{f}` (no such function; it may need a newer host than {VERSION})"
                )
            })
            .collect()
    }
}

/// What a file is, wants and exports, by a host of its own. See [`Host::inspect`].
pub fn inspect(path: &Path) -> Result<Description, LoadError> {
    Host::new(HostConfig::default())?.inspect(path)
}

fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    longshore_files::read(path, MAX_COMPONENT_BYTES).map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Tells a component from everything else by its first eight bytes.
fn recognise(path: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    match bytes {
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Err(Refusal::CoreModule {
            name: path.file_name().map_or_else(
                || "module.wasm".into(),
                |name| name.to_string_lossy().into_owned(),
            ),
        }),
        [0, b'a', b's', b'm', ..] => Err(Refusal::Damaged {
            size: bytes.len(),
            detail: "its header is of no known version".to_owned(),
        }),
        [] => Err(Refusal::Empty),
        [0x1f, 0x8b, ..] => Err(Refusal::Packed),
        _ => Err(Refusal::NotWasm {
            begins: bytes
                .iter()
                .take(8)
                .flat_map(|b| b.escape_ascii())
                .map(char::from)
                .collect(),
        }),
    }
}

fn interface(engine: &Engine, name: &str, item: &ComponentItem) -> Interface {
    let functions = match item {
        ComponentItem::ComponentInstance(instance) => instance
            .exports(engine)
            .filter(|(_, item)| !matches!(item.ty, ComponentItem::Type(_)))
            .map(|(name, _)| name.to_owned())
            .collect(),
        _ => Vec::new(),
    };
    Interface {
        name: name.to_owned(),
        functions,
    }
}

/// How to build without what the validator names, if it is something that is switched off.
fn feature_hint(detail: &str) -> Option<&'static str> {
    let off = [
        "not enabled",
        "must be enabled",
        "requires the",
        "is disabled",
        "without the",
    ];
    if !off.iter().any(|words| detail.contains(words)) {
        return None;
    }
    let hints = [
        (
            "async",
            "componentize-qjs needs `--sync`, and no function may be async",
        ),
        ("SIMD", "compile without `simd128`"),
        ("memory64", "build for wasm32"),
        ("64-bit", "build for wasm32"),
        ("tail call", "compile without tail calls"),
        ("thread", "compile without threads and atomics"),
        ("exception", "compile without WebAssembly exceptions"),
    ];
    let known = hints.iter().find(|(word, _)| detail.contains(word));
    Some(known.map_or("compile for plain WebAssembly", |(_, hint)| *hint))
}
