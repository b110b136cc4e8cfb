//! A component held against the contract: whose interfaces it imports and exports, in which version.

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::{ComponentItem, Type};

use super::Refusal;
use crate::imports::{BOOTSTRAP, CONSOLIDATION, PACKAGE, VERSION};
use crate::loaded::Exports;
use crate::terms::Ability;

/// The package of ours that a name belongs to, its interface and version.
pub(super) fn ours(name: &str) -> Option<(&'static str, &str, &str)> {
    let of = |package: &'static str| {
        let rest = name.strip_prefix(package)?.strip_prefix('/')?;
        let (interface, version) = rest.split_once('@').unwrap_or((rest, ""));
        Some((package, interface, version))
    };
    [PACKAGE, CONSOLIDATION, BOOTSTRAP].into_iter().find_map(of)
}

/// The package that an interface which can be asked is of.
fn package_of(ability: &str) -> &'static str {
    match ability {
        "consolidation" => CONSOLIDATION,
        "bootstrap" => BOOTSTRAP,
        _ => PACKAGE,
    }
}

/// Whether it was built against the package before it was settled: what `describe` answers tells.
pub(super) fn is_superseded(component: &Component, engine: &Engine) -> bool {
    let of = component.component_type();
    let plugin = of.exports(engine).find_map(|(name, item)| {
        let (package, interface, _) = ours(name)?;
        match item.ty {
            ComponentItem::ComponentInstance(plugin)
                if (package, interface) == (PACKAGE, "plugin") =>
            {
                Some(plugin)
            }
            _ => None,
        }
    });
    let Some(plugin) = plugin else {
        return false;
    };
    let described = plugin
        .exports(engine)
        .find_map(|(name, item)| match item.ty {
            ComponentItem::ComponentFunc(describe) if name == "describe" => {
                describe.results().next()
            }
            _ => None,
        });
    match described {
        Some(Type::Record(record)) => record.fields().any(|field| field.name == "implements"),
        _ => false,
    }
}

/// Whether a version is on our track: the same minor version below 1.0.
pub(super) fn compatible(version: &str) -> bool {
    let track = |version: &str| version.rsplit_once('.').map(|(track, _)| track.to_owned());
    !version.contains('-') && track(version) == track(VERSION)
}

pub(super) fn find_exports(component: &Component, engine: &Engine) -> Result<Exports, Refusal> {
    let function = |interface: &str, function: &str| {
        let package = package_of(interface);
        let name = format!("{package}/{interface}@{VERSION}");
        let instance = component.get_export_index(None, name.as_str())?;
        component.get_export_index(Some(&instance), function)
    };
    let missing = |what: &str| {
        let found: Vec<String> = component
            .component_type()
            .exports(engine)
            .map(|(name, _)| format!("`{name}`"))
            .collect();
        let found = if found.is_empty() {
            "nothing".to_owned()
        } else {
            found.join(", ")
        };
        Refusal::Exports {
            problem: format!("it exports {found}; expected {what} of {PACKAGE}@{VERSION}"),
        }
    };
    let exports = Exports {
        describe: function("plugin", "describe").ok_or_else(|| missing("`plugin`"))?,
        configure: function("plugin", "configure").ok_or_else(|| missing("`plugin`"))?,
        score: function("scorer", "score"),
        pools: function("commitments", "pools"),
        weigh: function("consolidation", "weigh"),
        decide: function("consolidation", "decide"),
        overheads: function("bootstrap", "overheads"),
        user_data: function("bootstrap", "user-data"),
    };
    if implemented(component, engine).is_empty() {
        return Err(missing(&format!(
            "one of {} beside `plugin`",
            Ability::ALL.map(|(name, _)| format!("`{name}`")).join(", ")
        )));
    }
    if exports.pools.is_some() && exports.score.is_none() {
        return Err(missing("`scorer` beside `commitments`"));
    }
    let judges = (exports.weigh.is_some(), exports.decide.is_some());
    let said = implemented(component, engine);
    if said.iter().any(|of| of == "consolidation") && judges != (true, true) {
        return Err(missing("`consolidation` with `weigh` and `decide`"));
    }
    Ok(exports)
}

pub(super) fn implemented(component: &Component, engine: &Engine) -> Vec<String> {
    let of = component.component_type();
    let ours = of.exports(engine).filter_map(|(name, _)| {
        let (package, name, version) = ours(name)?;
        let asked = Ability::ALL.iter().any(|(ability, _)| *ability == name);
        let own = asked && package_of(name) == package;
        (compatible(version) && own).then(|| name.to_owned())
    });
    let mut ours: Vec<String> = ours.collect();
    ours.sort();
    ours
}
