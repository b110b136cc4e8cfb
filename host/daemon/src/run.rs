//! `longshore run`: assembles the daemon and runs it until it is stopped.

#[cfg(test)]
mod deploy_tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use longshore_kwok::provider::Kwok;
use longshore_policy::{CompileChild, Compiler};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

use crate::answer::Answer;
use crate::args::{Log, Provider, RunArgs};
use crate::input;
use crate::policies::{bundle_folder, cache_folder};
use crate::settings::aws::AwsSettings;
use crate::settings::{self, Settings};
use crate::spread::default_spread;
use longshore_journal::{Journal, Sizes};
#[cfg(feature = "aws")]
use longshore_live::aws;
use longshore_live::config::Config;
#[cfg(feature = "aws")]
use longshore_live::environment::RepairMode;
use longshore_live::environment::{
    CatalogueOverlays, Cloud, Daemon, Environment, Lease, Repairs, fixed,
};
use longshore_live::error::Failure;
use longshore_live::policies::{self, Fetching, PolicyReloader, Setup};
use longshore_live::process::clock::Clock;
use longshore_live::process::connection::{self, Clients, connect};
use longshore_live::process::leader::Leadership;
use longshore_live::process::log::LogQueue;
use longshore_live::process::stop;
use longshore_live::serve::{http, notices};

/// Where a pod finds the name of its namespace.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The namespace of what the daemon has of its own: as typed, else by a variable or the service
/// account.
pub(crate) fn namespace(typed: Option<&str>) -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    typed
        .map(str::to_owned)
        .or_else(|| variable("LEADER_ELECTION_NAMESPACE"))
        .or_else(|| variable("SYSTEM_NAMESPACE"))
        .or_else(|| std::fs::read_to_string(NAMESPACE).ok())
        .unwrap_or_else(|| "kube-system".to_owned())
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(args: &RunArgs) -> Result<Answer, Failure> {
    let set = |name: &str| {
        let ours = args
            .status_address
            .as_deref()
            .filter(|_| name == settings::STATUS);
        let set = ours
            .or_else(|| args.karpenter.get(name))
            .map(str::to_owned)
            .or_else(|| std::env::var(name).ok());
        // In a pod, the namespace that it is in.
        set.or_else(|| {
            if name == "SYSTEM_NAMESPACE" {
                std::fs::read_to_string(NAMESPACE).ok()
            } else {
                None
            }
        })
    };
    let on_ec2 = args.provider == Provider::Aws;
    let mut settings = settings::read(set, on_ec2)?;
    let ec2 = match on_ec2 {
        true => Some(settings::aws::read(set)?),
        false => None,
    };
    settings
        .notes
        .extend(ec2.iter().flat_map(|ec2| ec2.notes.clone()));
    settings.notes.extend(settings::unknown_variables(
        std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()),
    ));
    let log = logging(&settings, args.log)
        .map_err(|source| usage("the log cannot be written", &source.to_string()))?;
    for note in &settings.notes {
        tracing::warn!("{}", note.what);
    }
    let defaults = longshore_core::model::Settings::default();
    let meant = longshore_core::model::Settings {
        preferences: settings.preferences.unwrap_or(defaults.preferences),
        min_values: settings.min_values.unwrap_or(defaults.min_values),
        reserved_capacity: settings.reserved_capacity,
        ..defaults
    };
    longshore_live::process::heap::share_heap();
    // One thread for all that waits: what a watch says comes to the loop without another thread
    // being woken. With two workers beside the loop's own, a wave of a thousand pods took 1.0 CPU
    // seconds in place of 0.7, and to list a hundred thousand 5.1 in place of 2.4. What computes
    // for long has threads of its own.
    let refused = |source: std::io::Error| usage("the runtime does not start", &source.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .map_err(refused)?;
    let computing = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(COMPUTING_THREADS)
        .build()
        .map_err(refused)?;
    let stops = stop::on_signal().map_err(refused)?;
    let parts = Process {
        log: log.clone(),
        stops,
        computing: computing.handle().clone(),
    };
    let ended = runtime.block_on(live(args, &settings, ec2, &meant, parts));
    // What is still under way is not waited for: everything can be interrupted anywhere.
    runtime.shutdown_background();
    computing.shutdown_background();
    if let Err(failure) = &ended {
        tracing::error!("{}", failure.report());
    }
    log.flush(LOG_FLUSH_TIMEOUT);
    ended?;
    Ok(Answer::ok(String::new()))
}

/// Threads for what blocks a moment: names that DNS is asked for, and memory that is given back.
const BLOCKING_THREADS: usize = 4;
/// Threads for what computes: one for a round, one for a look for disruption, one for an
/// explanation. So none of them waits for another, or for DNS.
const COMPUTING_THREADS: usize = 3;
/// How long the API server is waited for before watches ask it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the end of the log is waited for.
const LOG_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// What belongs to the process.
struct Process {
    log: LogQueue,
    /// Comes when it is to stop.
    stops: oneshot::Receiver<()>,
    /// The runtime whose threads compute.
    computing: Handle,
}

fn usage(message: &str, hint: &str) -> Failure {
    Failure::Usage {
        message: message.to_owned(),
        hint: hint.to_owned(),
    }
}

/// The log on standard error. Its reader may be slow or gone.
fn logging(settings: &Settings, log: Log) -> std::io::Result<LogQueue> {
    let filter = EnvFilter::try_new(directives(&settings.log_level))
        .unwrap_or_else(|_| EnvFilter::new("info"));
    let lost: fn(u64) -> String = match log {
        Log::Json => |lines| {
            let message = lost(lines);
            let fields = serde_json::json!({"message": message, "lines": lines});
            format!(
                "{}\n",
                serde_json::json!({"level": "WARN", "fields": fields})
            )
        },
        Log::Text => |lines| format!("WARN {}\n", lost(lines)),
    };
    let queue = LogQueue::start(std::io::stderr(), lost)?;
    let made = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(queue.clone());
    let _ = match log {
        Log::Json => made.json().try_init(),
        Log::Text => made.with_ansi(false).try_init(),
    };
    // The usual hook writes to standard error itself, and waits for its reader.
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let backtrace = std::backtrace::Backtrace::capture();
        let backtrace = (backtrace.status() == std::backtrace::BacktraceStatus::Captured)
            .then(|| backtrace.to_string());
        tracing::error!(thread = thread.name(), backtrace, "{panic}");
    }));
    Ok(queue)
}

fn lost(lines: u64) -> String {
    format!("{lines} lines of this log were dropped: its reader was slow or gone")
}

/// Log filter. Callers log failed requests once, so HTTP libraries log warnings only. That the API
/// server's certificate is not verified is said once, not at every connection.
fn directives(level: &str) -> String {
    format!("{level},kube=warn,kube_client::client::tls=error,hyper=warn,h2=warn,tower=warn")
}

/// The KWOK provider: Nodes without machines, from a file of instance types.
fn kwok(args: &RunArgs, settings: &Settings, client: &Client) -> Result<Cloud, Failure> {
    let file = args.instance_types.as_deref();
    let file = file.or(settings.instance_types.as_deref());
    let (world, problems) = input::catalogue_only(file)?;
    for problem in &problems.list {
        tracing::warn!("{problem}");
    }
    let (catalogue, names) = (world.catalogue, world.names);
    Ok(Cloud {
        provider: Arc::new(Kwok::new(client.clone(), catalogue.clone(), names.clone())),
        types: catalogue.types().len(),
        offers: fixed(catalogue),
        names,
        resources: &[],
        tasks: None,
    })
}

/// The EC2 provider: waits until EC2 answers.
#[cfg(feature = "aws")]
async fn ec2(
    args: &RunArgs,
    settings: &Settings,
    ec2: AwsSettings,
    (client, clock): (&Client, &Clock),
    policies: PolicyReloader,
) -> Result<Cloud, Failure> {
    if args.instance_types.is_some() || settings.instance_types.is_some() {
        return Err(usage(
            "--instance-types means nothing with --provider aws",
            "EC2 says which instance types there are; leave it out",
        ));
    }
    let AwsSettings {
        eks_control_plane,
        interruption_queue,
        ..
    } = ec2.clone();
    let how = ec2_settings(settings, ec2);
    if how.reboot_for_repair && settings.repairs != RepairMode::WithinBudgets {
        tracing::warn!(
            "AWS feature gate RebootForRepair has no effect without feature gate NodeRepair, or with \
             --legacy-node-repair"
        );
    }
    let asked = aws::Start {
        how,
        eks_says_version: eks_control_plane,
        queue: interruption_queue,
    };
    aws::start(asked, client, clock, policies).await
}

/// What the provider is to know. What the cluster says is added when it starts.
#[cfg(feature = "aws")]
fn ec2_settings(settings: &Settings, set: AwsSettings) -> longshore_aws::provider::Settings {
    use longshore_aws::nodeclass::Part;
    use longshore_ec2::catalogue::machine;
    use longshore_ec2::userdata::Cluster;

    let seconds = |every: Duration| i64::try_from(every.as_secs()).unwrap_or(i64::MAX);
    longshore_aws::provider::Settings {
        cluster: Cluster {
            name: set.cluster_name,
            endpoint: set.cluster_endpoint,
            ca_bundle: set.cluster_ca_bundle,
            ..Cluster::default()
        },
        kubernetes: String::new(),
        machines: machine::Settings {
            vm_memory_overhead: set.vm_memory_overhead,
            reserved_enis: set.reserved_enis,
            expressions: set.expressions,
            // Known once the cluster has been asked.
            kubernetes: None,
        },
        reserved_capacity: settings.reserved_capacity,
        min_values: settings.min_values.unwrap_or_default(),
        without_dry_runs: set.without_dry_runs,
        isolated: set.isolated,
        reboot_for_repair: set.reboot_for_repair,
        zonal_shift: set.zonal_shift,
        paces: [
            (Part::Images, seconds(set.images_every)),
            (Part::Subnets, seconds(set.subnets_every)),
            (Part::Groups, seconds(set.groups_every)),
        ]
        .into(),
    }
}

#[cfg(not(feature = "aws"))]
async fn ec2(
    _: &RunArgs,
    _: &Settings,
    _: AwsSettings,
    _: (&Client, &Clock),
    _: PolicyReloader,
) -> Result<Cloud, Failure> {
    Err(usage(
        "this binary was built without EC2",
        "the image has it; `cargo build --release -p longshore --features aws` makes one that does",
    ))
}

async fn live(
    args: &RunArgs,
    settings: &Settings,
    on_ec2: Option<AwsSettings>,
    meant: &longshore_core::model::Settings,
    process: Process,
) -> Result<(), Failure> {
    let Process {
        log,
        stops,
        computing,
    } = process;
    let mut meant = meant.clone();
    let leadership = Leadership::new(!settings.elects);
    let clock = Clock::system();
    let config = connection::config(args.kubeconfig.as_deref()).await?;
    if config.accept_invalid_certs {
        tracing::warn!(
            "the API server's certificate is not verified: insecure-skip-tls-verify in the kubeconfig"
        );
    }
    let Clients {
        patient: client,
        plain,
    } = connect(config, &leadership, &clock).map_err(|why| {
        usage(
            &format!("no client for the API server: {why}"),
            "check the kubeconfig",
        )
    })?;
    // The first request makes the connection: each watch would make one of its own otherwise.
    _ = tokio::time::timeout(CONNECT_TIMEOUT, client.apiserver_version()).await;
    // First of all: policies may take long to compile, and the cloud to answer.
    let probes = http::probes(settings.probes).await;
    let probes = probes.map_err(|[why, hint]| usage(&why, &hint))?;
    // In the folder that is there without a word of the configuration, which may be broken.
    let copies = cache_folder(None);
    let opened = args.config.as_deref();
    let opened = opened.map(|file| policies::open(file, copies.as_deref()));
    let opened = opened.transpose()?;
    let configured = opened.as_ref().map(|opened| &opened.config);
    let journal = match journal_wanted(args.journal.as_deref(), configured) {
        Some((folder, sizes)) => Journal::open(&folder, sizes)?,
        None => Journal::off(),
    };
    let setup = Setup {
        config: args.config.clone(),
        cache: cache_folder(configured.and_then(|config| config.cache.as_deref())),
        fetching: Fetching {
            cache: bundle_folder(configured.and_then(|config| config.cache.as_deref())),
            ..Fetching::default()
        },
        copies,
        opened,
        compiler: Compiler::Child(CompileChild::itself(&["compile-policy"])),
        journal: journal.clone(),
        boots: on_ec2.is_some(),
        on_ec2: on_ec2.is_some(),
        ..Setup::default()
    };
    let reloader = PolicyReloader::start(setup)?;
    let mut cloud = match on_ec2 {
        None => kwok(args, settings, &client)?,
        Some(set) => ec2(args, settings, set, (&client, &clock), reloader.clone()).await?,
    };
    if let Some(config) = &settings.scheduler {
        meant.default_spread = default_spread(config, &mut cloud.names)?;
        tracing::info!(source = %config, constraints = meant.default_spread.len(), "default \
            topology spread constraints");
    }
    let repairs = Repairs::new(settings.repairs, &*cloud.provider).map_err(|why| {
        usage(
            &format!("feature gate NodeRepair: {why}"),
            "this is a defect of the cloud provider; run without the gate",
        )
    })?;
    let lease = Lease {
        namespace: settings.namespace.clone(),
        name: settings.lease.clone(),
        holder: holder(),
    };
    let daemon = Daemon::new(Environment {
        leadership: leadership.clone(),
        client,
        plain,
        provider: cloud.provider,
        clock,
        catalogue: cloud.offers,
        overlays: (settings.node_overlay).then(|| CatalogueOverlays::new(cloud.resources)),
        names: cloud.names,
        settings: meant,
        reloader: reloader.clone(),
        journal: journal.clone(),
        window: (settings.idle, settings.longest),
        lease: settings.elects.then_some(lease),
        repairs,
        disrupts: true,
        spot_to_spot: settings.spot_to_spot,
        terminate_first: settings.terminate_first,
        static_capacity: settings.static_capacity,
        inline: false,
        computing: Some(computing),
        look_takes: Duration::ZERO,
    });
    let questions = daemon.questions();
    daemon.limit_garbage(settings.garbage_limit);
    daemon.report_objects(settings.observes);
    let at = http::At {
        metrics: settings.metrics,
        status: settings.status.clone(),
    };
    let served = http::serve(questions.clone(), at, probes).await;
    served.map_err(|[why, hint]| usage(&why, &hint))?;
    // They end with this function.
    let _tasks = cloud.tasks.map(|tasks| daemon.begin(tasks));
    let tells = {
        let (runtime, journal) = (Handle::current(), journal.clone());
        move || notices::pass_on(&runtime, &questions, &reloader, &journal, &log)
    };
    std::thread::Builder::new()
        .name("notices".to_owned())
        .spawn(tells)
        .map_err(|error| usage("a thread does not start", &error.to_string()))?;
    tracing::info!(
        types = cloud.types,
        metrics = settings.metrics,
        status = settings.status,
        "running"
    );
    let looks = tokio::spawn(daemon.follow_definitions());
    let running = daemon.run();
    tokio::pin!(running);
    let ended = tokio::select! {
        ended = &mut running => ended,
        _ = stops => {
            tracing::info!("stopping; waiting for work in progress");
            leadership.retire();
            running.await
        }
    };
    looks.abort();
    let _ = tokio::task::spawn_blocking(move || journal.close()).await;
    Ok(ended?)
}

/// The holder identity of this process in the Lease. It is unique, because pods on the host network
/// share a host name and count processes from 1.
fn holder() -> String {
    let pod = ["POD_NAME", "HOSTNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|n| !n.is_empty()));
    let unique = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_else(|_| {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        format!("{:x}-{:x}", since.as_nanos(), std::process::id())
    });
    format!(
        "{}_{}",
        pod.as_deref().unwrap_or("longshore"),
        unique.trim()
    )
}

/// Where the journal goes and how large it may become; nothing where none is wanted. A flag wins
/// over the file.
fn journal_wanted(flag: Option<&Path>, config: Option<&Config>) -> Option<(PathBuf, Sizes)> {
    let entry = config.and_then(|config| config.journal.clone());
    let entry = entry.unwrap_or_default();
    let sizes = Sizes {
        all: entry
            .max_size
            .unwrap_or(longshore_journal::DEFAULT_MAX_BYTES),
        segment: entry
            .segment_size
            .unwrap_or(longshore_journal::DEFAULT_SEGMENT_BYTES),
    };
    let sizes = Sizes {
        segment: sizes.segment.min(sizes.all / 4),
        ..sizes
    };
    flag.map(Path::to_owned)
        .or(entry.dir)
        .map(|folder| (folder, sizes))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Mutex;

    use super::*;
    use longshore_live::process::lock::lock;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            lock(&self.0).write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: &str) -> String {
        let written = Written::default();
        let out = written.clone();
        let made = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(directives(level)));
        let made = made
            .with_writer(move || out.clone())
            .with_ansi(false)
            .without_time()
            .finish();
        tracing::subscriber::with_default(made, || {
            tracing::warn!(target: "kube_client::config", "no proxy");
            tracing::warn!(target: "kube_client::client::tls", "Server cert bypassed");
            tracing::info!(target: "kube_runtime", "too much");
            tracing::debug!(target: "h2::codec::framed_read", "received a frame");
            tracing::warn!(target: "longshore_live", "watch failed; retrying");
        });
        String::from_utf8(lock(&written.0).clone()).unwrap()
    }

    #[test]
    fn the_lease_is_asked_for_by_a_name_that_no_other_process_has() {
        let (one, other) = (holder(), holder());
        assert_ne!(one, other);
        let (pod, unique) = one.rsplit_once('_').unwrap();
        assert!(!pod.is_empty() && unique.len() >= 16, "{one}");
    }

    #[test]
    fn the_client_says_no_more_than_warnings() {
        let expected = "WARN kube_client::config: no proxy\n WARN longshore_live: watch \
            failed; retrying";
        assert_eq!(logged("info").trim(), expected);
        assert_eq!(logged("debug").trim(), expected);
    }
}
