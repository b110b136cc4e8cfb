//! What can be bought: what a cloud says, and the catalogue that rounds plan on.
//!
//! The loop makes the catalogue in the state's own table of names, and a round takes both at once
//! ([`RoundInput`](crate::decide::round_input::RoundInput)). So a NodeClass may come and go while the daemon
//! runs. The state keeps the names that only the catalogue uses; where a sweep has given one of them
//! another symbol, the catalogue is made anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use longshore_core::model::{Catalogue, Symbol, Symbols};

use super::state::{Class, ClassView, ClusterState};
use super::watch::Change;
use longshore_api::kinds::ObjectKind;
use longshore_api::strip_managed_fields::full_name;

/// What a cloud offers. Everything is answered from memory: the loop asks.
pub trait Offers: Send + Sync {
    /// Tells one catalogue from the next. Asked each time before something is planned.
    fn version(&self) -> u64;

    /// The catalogue as it is now. `names` has those of the catalogue that the daemon began with.
    fn catalogue(&self, names: &mut Symbols) -> Catalogue;

    /// The kind of its node classes.
    fn class_kind(&self) -> ObjectKind {
        ObjectKind::KwokNodeClass
    }

    /// Whether [`Offers::changed`] is to be called for objects of a kind: NodePools or node classes.
    fn follows(&self, kind: ObjectKind) -> bool {
        _ = kind;
        false
    }

    /// Its node classes as they were seen last, for metrics. Empty if they have none of their own.
    fn class_views(&self) -> Vec<ClassView> {
        Vec::new()
    }

    /// An object of such a kind as it stands now, as JSON, or that the object of a name is gone.
    fn changed(&self, kind: ObjectKind, name: &str, json: Option<&str>) {
        _ = (kind, name, json);
    }
}

/// Offers that never change.
struct Fixed(Catalogue);

impl Offers for Fixed {
    fn version(&self) -> u64 {
        0
    }

    fn catalogue(&self, _: &mut Symbols) -> Catalogue {
        self.0.clone()
    }
}

/// Offers that never change, with the names that the daemon begins with.
pub fn fixed(catalogue: Catalogue) -> Arc<dyn Offers> {
    Arc::new(Fixed(catalogue))
}

/// The catalogue of now, in the state's names.
#[derive(Default)]
pub struct CurrentOffers {
    version: Option<u64>,
    catalogue: Catalogue,
    /// Names in it that the table did not begin with.
    names: Vec<(String, Symbol)>,
    /// Objects that [`Offers::changed`] was called for, until they are gone.
    announced: BTreeSet<(ObjectKind, String)>,
}

impl CurrentOffers {
    /// Has the catalogue follow what the cloud offers. Says whether it is another one.
    pub fn follow(&mut self, source: &dyn Offers, state: &mut ClusterState) -> bool {
        let version = source.version();
        let known = state.names();
        let is_same = self.version == Some(version)
            && (self.names.iter()).all(|(text, symbol)| known.get(text) == Some(*symbol));
        if is_same {
            return false;
        }
        let before = self.catalogue.number();
        let (catalogue, lasting) = state.make_with_names(|names| source.catalogue(names));
        let mut beyond = BTreeSet::new();
        catalogue.symbols(&mut |symbol: Symbol| {
            if symbol.0 as usize >= lasting {
                beyond.insert(symbol);
            }
        });
        let text = |symbol: Symbol| (state.names().text(symbol).to_owned(), symbol);
        self.names = beyond.into_iter().map(text).collect();
        state.keep_offered(self.names.iter().map(|(text, _)| text.clone()).collect());
        self.version = Some(version);
        self.catalogue = catalogue;
        self.catalogue.number() != before
    }

    /// Tells the cloud what has become of an object, once the state has taken the change in.
    pub fn tell(
        &mut self,
        source: &dyn Offers,
        kind: ObjectKind,
        change: &Change,
        state: &ClusterState,
    ) {
        if let Change::Upsert(json) = change
            && let Some(name) = full_name(json)
        {
            source.changed(kind, &name, Some(json));
            self.announced.insert((kind, name));
        }
        // Where a list is complete, the state knows what is gone.
        let is_gone = |(kind, name): &(ObjectKind, String)| match kind {
            ObjectKind::NodePool => !state.pools.contains_key(name),
            kind => state.class(kind.at().kind, name) == Class::Missing,
        };
        for (kind, name) in self.announced.extract_if(.., is_gone) {
            source.changed(kind, &name, None);
        }
    }

    /// The catalogue, in the names of the state.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use longshore_core::model::{InstanceType, Op, Requirement};

    use super::*;

    /// Offers with a label of the class that was seen last.
    #[derive(Default)]
    struct OfClass(Mutex<(u64, String)>);

    impl Offers for OfClass {
        fn version(&self) -> u64 {
            self.0.lock().unwrap().0
        }

        fn catalogue(&self, names: &mut Symbols) -> Catalogue {
            let class = names.intern(&self.0.lock().unwrap().1);
            let of_class = Requirement::is(names.intern("example.com/class"), class);
            let kind = InstanceType {
                requirements: vec![of_class],
                ..InstanceType::named(names.intern("a"))
            };
            Catalogue::new(vec![(kind, Vec::new())], names)
        }

        fn changed(&self, _: ObjectKind, name: &str, json: Option<&str>) {
            let mut inner = self.0.lock().unwrap();
            inner.0 += 1;
            inner.1 = json.map_or(String::new(), |_| name.to_owned());
        }
    }

    fn label(current: &CurrentOffers, state: &ClusterState) -> String {
        let kind = &current.catalogue().types()[0];
        let of_class = state.names().get("example.com/class").unwrap();
        let own = kind.requirements.iter().find(|one| one.key == of_class);
        match &own.unwrap().op {
            Op::In(values) => state.names().text(values[0]).to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_class_that_comes_later_is_named_in_the_states_table_and_survives_its_sweeps() {
        let (source, mut state) = (OfClass::default(), ClusterState::new(Symbols::default()));
        let mut current = CurrentOffers::default();
        source.changed(ObjectKind::Ec2NodeClass, "first-class", Some("{}"));
        assert!(current.follow(&source, &mut state));
        assert!(!current.follow(&source, &mut state), "nothing has changed");
        source.changed(ObjectKind::Ec2NodeClass, "second-class", Some("{}"));
        assert!(current.follow(&source, &mut state));
        for number in 0..500 {
            let labels: Vec<String> = (0..200)
                .map(|at| format!(r#""label-{number}-{at}":"{at}""#))
                .collect();
            let labels = labels.join(",");
            let pod = format!(
                r#"{{"metadata":{{"name":"p","namespace":"d","labels":{{{labels}}}}},"spec":{{"containers":[]}}}}"#
            );
            let change = crate::observe::watch::Change::Upsert(pod.into());
            state.fold(ObjectKind::Pod, &change);
        }
        assert_eq!(state.names().get("first-class"), None, "swept");
        current.follow(&source, &mut state);
        assert_eq!(label(&current, &state), "second-class");
    }

    #[test]
    fn offers_that_never_change_are_looked_at_once() {
        let mut names = Symbols::default();
        let source = OfClass::default();
        let catalogue = source.catalogue(&mut names);
        let (source, mut state) = (fixed(catalogue), ClusterState::new(names));
        let mut current = CurrentOffers::default();
        current.follow(&*source, &mut state);
        assert_eq!(current.catalogue().types().len(), 1);
        assert!(!current.follow(&*source, &mut state));
        assert!(!source.follows(ObjectKind::NodePool));
    }

    /// Offers that write down what they are told.
    #[derive(Default)]
    struct Listener(Mutex<Vec<String>>);

    impl Offers for Listener {
        fn version(&self) -> u64 {
            0
        }

        fn catalogue(&self, _: &mut Symbols) -> Catalogue {
            Catalogue::default()
        }

        fn changed(&self, kind: ObjectKind, name: &str, json: Option<&str>) {
            let what = json.map_or("is gone", |_| "is there");
            self.0
                .lock()
                .unwrap()
                .push(format!("{kind:?} {name} {what}"));
        }
    }

    #[test]
    fn the_cloud_hears_of_each_object_and_once_that_it_is_gone() {
        let object = |name: &str| {
            let class = r#"{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"c"}"#;
            format!(
                r#"{{"metadata":{{"name":"{name}","uid":"{name}"}},"spec":{{"template":{{"spec":{{
                "requirements":[],"nodeClassRef":{class}}}}}}}}}"#
            )
        };
        let there = |name: &str| Change::Upsert(object(name).into());
        let (source, mut state) = (Listener::default(), ClusterState::new(Symbols::default()));
        let mut current = CurrentOffers::default();
        for (kind, change) in [
            (ObjectKind::NodePool, there("web")),
            (ObjectKind::NodePool, there("db")),
            (ObjectKind::KwokNodeClass, there("c")),
            (ObjectKind::NodePool, Change::Remove(object("web").into())),
            // A list without the others.
            (ObjectKind::NodePool, Change::Begin),
            (ObjectKind::NodePool, Change::End),
            (ObjectKind::KwokNodeClass, Change::Begin),
            (ObjectKind::KwokNodeClass, Change::End),
        ] {
            state.fold(kind, &change);
            current.tell(&source, kind, &change, &state);
        }
        assert_eq!(
            *source.0.lock().unwrap(),
            [
                "NodePool web is there",
                "NodePool db is there",
                "KwokNodeClass c is there",
                "NodePool web is gone",
                "NodePool db is gone",
                "KwokNodeClass c is gone",
            ]
        );
    }
}
