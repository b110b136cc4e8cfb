//! Launch templates of a launch, and what its nodes boot with.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_cloud::{CloudError, Launch};
use longshore_ec2::bootstrap::drift::{self, Drift};
use longshore_ec2::catalogue::{ClassCatalogue, Region};
use longshore_ec2::launch::{self as template, BootTexts};
use longshore_ec2::nodeclass::EC2NodeClass;
use longshore_ec2::userdata::Taint;

use crate::error::ApiError;
use crate::launch::{Choice, invalid};
use crate::provider::{Ec2, ProviderState};
use crate::records::InstanceFacts;
use crate::wire;

impl Ec2 {
    pub(super) fn templates(
        &self,
        state: &ProviderState,
        catalogue: &ClassCatalogue,
        class: &EC2NodeClass,
        launch: &Launch,
        choice: &Choice,
    ) -> Result<Vec<template::Template>, CloudError> {
        let region = &state.region;
        let rendered = self.rendered(state, catalogue, class, launch, choice.capacity_type);
        let rendered = rendered.map_err(CloudError::Invalid)?;
        let rendered = rendered.as_deref();
        let asked = self.template_launch(region, catalogue, class, launch, choice, rendered);
        template::templates(&asked).map_err(|fault| invalid(launch, &fault))
    }

    fn template_launch<'a>(
        &'a self,
        region: &'a Region,
        catalogue: &'a ClassCatalogue,
        class: &'a EC2NodeClass,
        launch: &Launch,
        choice: &Choice,
        rendered: Option<&'a BootTexts>,
    ) -> template::Launch<'a> {
        let mut choices: BTreeMap<usize, Vec<Box<str>>> = BTreeMap::new();
        for chosen in &choice.offerings {
            let held = choices.entry(chosen.at).or_default();
            held.extend(chosen.reservation.as_ref().map(|held| held.id.clone()));
        }
        template::Launch {
            region,
            catalogue,
            node_class: class,
            cluster: &self.inner.settings.cluster,
            labels: launch.labels.clone(),
            taints: taints(launch),
            capacity_type: choice.capacity_type,
            tenancy: choice.tenancy,
            efa: choice.efa,
            partition: choice.partition,
            reserved_capacity: self.inner.settings.reserved_capacity,
            choices: choices
                .into_iter()
                .map(|(at, reservations)| template::Choice { at, reservations })
                .collect(),
            texts: rendered.map(BootTexts::texts),
        }
    }

    /// What a bootstrap policy has nodes of a claim boot with.
    fn rendered(
        &self,
        state: &ProviderState,
        catalogue: &ClassCatalogue,
        class: &EC2NodeClass,
        launch: &Launch,
        capacity_type: template::CapacityType,
    ) -> Result<Option<Arc<BootTexts>>, String> {
        let Some(bootstrap) = state.bootstrap.as_ref() else {
            return Ok(None);
        };
        let mut labels = launch.labels.clone();
        let capacity_type = capacity_type.as_str().to_owned();
        labels.insert(
            longshore_api::labels::CAPACITY_TYPE.to_owned(),
            capacity_type,
        );
        let joins = self.joins();
        let boot = template::boot(class, joins.cluster, labels, taints(launch));
        bootstrap.render(
            &state.region,
            catalogue,
            class,
            &joins,
            &boot,
            &launch.annotations,
        )
    }

    /// Whether a claim would boot with other user data today, if its class asks for that.
    pub(in crate::provider) fn bootstrap_drifted(
        &self,
        state: &ProviderState,
        catalogue: &ClassCatalogue,
        class: &EC2NodeClass,
        launch: &Launch,
        facts: &InstanceFacts,
    ) -> bool {
        // Before the policy is asked: mostly the answer does not matter.
        if !class
            .metadata
            .annotations
            .as_ref()
            .is_some_and(drift::is_asked)
        {
            return false;
        }
        let region = &state.region;
        let Some(at) = region.find(&facts.instance_type) else {
            return false;
        };
        let rendered = self.rendered(state, catalogue, class, launch, capacity_type(facts));
        // What it would boot with today is not known.
        let Ok(rendered) = rendered else {
            return false;
        };
        let rendered = rendered.as_deref();
        let choice = Choice {
            capacity_type: capacity_type(facts),
            tenancy: template::Tenancy::Default,
            efa: false,
            partition: None,
            offerings: Vec::new(),
        };
        let today = self.template_launch(region, catalogue, class, launch, &choice, rendered);
        let drift = template::bootstrap_drift(&today, at, &launch.annotations);
        drift == Drift::Drifted
    }

    /// Whether a template is known to exist. It is used now: it is kept a while longer.
    pub(super) fn is_made(&self, template: &template::Template) -> bool {
        let now = self.now();
        self.state().templates.uses(&template.request.name, now)
    }

    /// Makes the templates that are not known to exist.
    pub(super) async fn make_templates(
        &self,
        templates: &[template::Template],
    ) -> Result<(), ApiError> {
        let _one_at_a_time = self.inner.making_templates.lock().await;
        for one in templates {
            if !self.is_made(one) {
                wire::templates::create(&self.inner.clients, &one.request, false).await?;
                let now = self.now();
                self.state().templates.add(&one.request.name, now);
            }
        }
        Ok(())
    }
}

/// Taints of a claim's node, startup taints last.
fn taints(launch: &Launch) -> Vec<Taint> {
    let all = launch.taints.iter().chain(&launch.startup_taints);
    all.map(longshore_ec2::userdata::taint).collect()
}

fn capacity_type(facts: &InstanceFacts) -> template::CapacityType {
    match crate::instances::capacity_type(facts) {
        "spot" => template::CapacityType::Spot,
        "reserved" => template::CapacityType::Reserved,
        _ => template::CapacityType::OnDemand,
    }
}
