//! A launch of a class that is tried without launching anything.

use longshore_api::labels::NODEPOOL;
use longshore_cloud::Launch;
use longshore_ec2::launch::{self as template, DRY_RUN_NODEPOOL};
use longshore_ec2::nodeclass::EC2NodeClass;

use super::LAUNCH_ATTEMPTS;
use crate::error::{ApiError, Class};
use crate::launch::choose;
use crate::launch::fleet::{self, Asking, Fleet};
use crate::nodeclass::{Probe, probe_failed};
use crate::provider::Ec2;
use crate::wire;

impl Ec2 {
    /// Tries a launch of a class without launching anything.
    pub(crate) async fn probe(&self, class: &EC2NodeClass) -> Probe {
        let name = class.metadata.name.clone().unwrap_or_default();
        let launch = Launch {
            name: format!("dry-run-of-{name}"),
            uid: format!("dry-run-of-{name}"),
            nodepool: Some(DRY_RUN_NODEPOOL.to_owned()),
            labels: [(NODEPOOL.to_owned(), DRY_RUN_NODEPOOL.to_owned())].into(),
            class_name: name,
            ..Launch::default()
        };
        let prepared = {
            let mut state = self.state();
            // What lately had no capacity can be tried all the same.
            let mut region = state.region.clone();
            region.change_unavailable(|all| *all = Default::default());
            let made = state.catalogue(class, &self.joins());
            let choice = made.and_then(|catalogue| {
                let mut choice =
                    choose(&region, &catalogue, &launch, self.inner.settings.min_values)?;
                choice.offerings.truncate(1);
                let templates = self.templates(&state, &catalogue, class, &launch, &choice)?;
                Ok((choice, templates))
            });
            choice.map(|(choice, templates)| (choice, templates, region))
        };
        let (choice, templates, region) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Probe::Later(error.to_string()),
        };
        let asking = Asking {
            launch: &launch,
            count: 1,
            attempt: 0,
            tags: self.tags(class, &launch),
            context: class.spec.context.clone(),
        };
        let status = class.status.as_ref();
        let subnets = status.map_or(&[][..], |status| &status.subnets);
        let subnet = |zone: usize| {
            let zone = &*region.zones()[zone].name;
            subnets
                .iter()
                .find(|one| one.zone == zone)
                .map(|one| one.id.clone())
        };
        let fleet = fleet::request(&asking, &region, &choice, &templates, subnet);
        let Some(fleet) = fleet else {
            return Probe::Later("no instance type has an image and a subnet".to_owned());
        };
        for _ in 0..LAUNCH_ATTEMPTS {
            let subnets = subnets.iter().map(|one| &*one.id);
            match self.probe_calls(&fleet, &templates, subnets).await {
                Ok(()) => return Probe::Passed,
                // Another process has deleted it.
                Err(error) if error.class == Class::TemplateGone => {
                    self.state().forget_templates(&fleet);
                }
                Err(error) => return probe_failed(&error),
            }
        }
        Probe::Later(format!(
            "{LAUNCH_ATTEMPTS} attempts found launch templates gone"
        ))
    }

    async fn probe_calls<'a>(
        &self,
        fleet: &Fleet,
        templates: &[template::Template],
        subnets: impl Iterator<Item = &'a str>,
    ) -> Result<(), ApiError> {
        self.make_templates(templates).await?;
        let clients = &self.inner.clients;
        wire::fleet::dry_run(clients, fleet).await?;
        let Some(config) = fleet.configs.first() else {
            return Ok(());
        };
        let kind = config
            .overrides
            .first()
            .map_or("", |one| &*one.instance_type);
        // One subnet that can be launched into will do; else the first says why not.
        let mut first = None;
        for subnet in subnets {
            let tried = wire::fleet::run_dry(clients, &config.template, kind, subnet, &fleet.tags);
            match tried.await {
                Ok(()) => return Ok(()),
                Err(error) => first = first.or(Some(error)),
            }
        }
        first.map_or(Ok(()), Err)
    }
}
