//! The start of the provider: what it asks for before anything else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_ec2::catalogue::Region;
use longshore_ec2::kubelet::minor;

use super::batches::{BATCH, ENDINGS, batcher, describe, terminate};
use super::{Clock, Ec2, Inner, ProviderState, Settings, leaked, warn_of_version};
use crate::clients::Clients;
use crate::discovery::{self, Finder};
use crate::error::ApiError;
use crate::store::NodeClasses;
use crate::wire;

/// How long a start waits for zonal shifts.
const ZONAL_SHIFT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A call failed that nothing works without.
    #[error("{}", .0.with_hint())]
    Api(#[from] ApiError),
    /// Zonal shifts are to be obeyed, and cannot be asked for.
    #[error(
        "zonal shifts of the cluster cannot be read: {0}; enable zonal shift for the cluster, or \
         turn ENABLE_ZONAL_SHIFT off"
    )]
    ZonalShift(String),
    /// EC2 described no instance type that could be used.
    #[error("EC2 describes no usable instance type in {0}")]
    NoTypes(String),
}

impl StartError {
    /// Whether AWS is slow or down, so that another attempt may succeed.
    pub fn passes(&self) -> bool {
        matches!(self, StartError::Api(error) if error.class.passes())
    }
}

impl Ec2 {
    /// Asks for the cluster, instance types and prices, and finds launch templates again.
    ///
    /// # Errors
    /// The cluster or the types are not known. Prices and templates come later if they do not come
    /// now.
    pub async fn start(
        clients: Arc<Clients>,
        classes: Arc<dyn NodeClasses>,
        mut settings: Settings,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let arn = complete_cluster(&clients, &mut settings).await?;
        warn_of_version(settings.machines.kubernetes);
        let types = wire::types::descriptions(&clients).await?;
        let offered = wire::types::offerings(&clients).await?;
        let (mut region, problems) =
            discovery::region(clients.region(), &types, &offered, &BTreeMap::new());
        for problem in &problems.list {
            tracing::warn!(%problem, "instance type skipped");
        }
        if region.types().is_empty() {
            return Err(StartError::NoTypes(clients.region().to_owned()));
        }
        region.settings = settings.machines;
        let provider = Self::over(region, clients, classes, settings, arn, clock);
        if provider.inner.settings.zonal_shift {
            provider.begin_shifts().await?;
        }
        if let Err(error) = provider.refresh_prices().await {
            tracing::warn!(
                error = error.with_hint(),
                "reading spot prices failed; on-demand prices count until then"
            );
        }
        if let Err(error) = provider.find_templates().await {
            tracing::warn!(error = error.with_hint(), "finding launch templates failed");
        }
        Ok(provider)
    }

    /// Asks for zonal shifts for a moment. While ARC is slow or down, none are known to hold.
    async fn begin_shifts(&self) -> Result<(), StartError> {
        let why = match tokio::time::timeout(ZONAL_SHIFT_TIMEOUT, self.refresh_shifts()).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(why)) if !why.class.passes() => {
                return Err(StartError::ZonalShift(why.with_hint()));
            }
            Ok(Err(why)) => why.with_hint(),
            Err(_) => format!("no answer within {} s", ZONAL_SHIFT_TIMEOUT.as_secs()),
        };
        tracing::warn!(why, "zonal shifts are not known yet; asked for again");
        Ok(())
    }

    /// A provider that knows a region, and nothing else yet.
    pub(super) fn over(
        region: Region,
        clients: Arc<Clients>,
        classes: Arc<dyn NodeClasses>,
        settings: Settings,
        arn: String,
        clock: Clock,
    ) -> Self {
        let inner = Inner {
            finder: Finder::new(clients.clone()),
            state: Mutex::new(ProviderState::new(region)),
            claims: Mutex::default(),
            making_templates: tokio::sync::Mutex::default(),
            describes: batcher(&clients, "describe_instances", BATCH, describe),
            endings: batcher(&clients, "describe_instances", ENDINGS, describe),
            terminates: batcher(&clients, "terminate_instances", BATCH, terminate),
            clients,
            classes,
            kubernetes: Mutex::new(leaked(&settings.kubernetes)),
            settings,
            account: discovery::account_of(&arn).to_owned(),
            arn,
            clock,
        };
        Ec2 {
            inner: Arc::new(inner),
        }
    }
}

/// Asks EKS for what the settings leave out. Gives the cluster's ARN, empty if it is not known.
async fn complete_cluster(
    clients: &Clients,
    settings: &mut Settings,
) -> Result<String, StartError> {
    let cluster = &mut settings.cluster;
    let whole = [&cluster.endpoint, &cluster.cidr, &settings.kubernetes];
    let whole = whole.iter().all(|text| !text.is_empty());
    let facts = match wire::cluster::describe(clients, &cluster.name).await {
        Ok(facts) => facts,
        // A cluster of one's own making is none of EKS's.
        Err(error) if whole => {
            tracing::info!(error = %error, "EKS does not describe the cluster");
            settings.machines.kubernetes = minor(&settings.kubernetes);
            return Ok(String::new());
        }
        Err(error) => return Err(error.into()),
    };
    let fill = |text: &mut String, own: String| {
        if text.is_empty() {
            *text = own;
        }
    };
    fill(&mut cluster.endpoint, facts.endpoint);
    fill(&mut cluster.ca_bundle, facts.ca_bundle);
    fill(&mut cluster.cidr, facts.cidr);
    fill(&mut settings.kubernetes, facts.version);
    settings.machines.kubernetes = minor(&settings.kubernetes);
    Ok(facts.arn)
}
