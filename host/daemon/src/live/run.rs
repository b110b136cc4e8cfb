//! `longshore run`: puts the parts together and keeps them going until told to stop.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use longshore_core::planner;
use longshore_kwok::provider::Kwok;
use tokio::sync::mpsc::channel;

use super::context::{Context, Health};
use super::control::{self, How};
use super::events::Events;
use super::kinds::Kind;
use super::leader::{self, Candidate, Leadership};
use super::metrics::Metrics;
use super::serve::{self, Board};
use super::settings::{self, Settings};
use super::watch;
use crate::args::{Log, RunArgs};
use crate::failure::Failure;
use crate::options::Options;
use crate::policies;
use crate::{Answer, input, options};

/// Runs until SIGTERM or SIGINT.
pub fn run(args: &RunArgs) -> Result<Answer, Failure> {
    let settings = settings::read(|name| std::env::var(name).ok())?;
    logging(&settings, args.log);
    for note in &settings.notes {
        tracing::warn!("{note}");
    }
    let mut meant = options::of_run(args)?;
    if let Some(preferences) = settings.preferences {
        meant.settings.preferences = preferences;
    }
    if let Some(min_values) = settings.min_values {
        meant.settings.min_values = min_values;
    }
    meant.settings.reserved_capacity = settings.reserved_capacity;
    if meant.instance_types.is_none() {
        meant.instance_types.clone_from(&settings.instance_types);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .map_err(|source| usage("the runtime does not start", &source.to_string()))?;
    runtime.block_on(live(args, &settings, &meant))?;
    Ok(Answer::ok(String::new()))
}

fn usage(message: &str, hint: &str) -> Failure {
    Failure::Usage { message: message.to_owned(), hint: hint.to_owned() }
}

fn logging(settings: &Settings, log: Log) {
    let filter = tracing_subscriber::EnvFilter::try_new(format!("{},kube=warn,hyper=warn", settings.log_level));
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let made = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _ = match log {
        Log::Json => made.json().try_init(),
        Log::Text => made.with_ansi(false).try_init(),
    };
}

async fn live(args: &RunArgs, settings: &Settings, meant: &Options) -> Result<(), Failure> {
    let (world, problems) = input::catalogue_only(meant.instance_types.as_deref())?;
    input::complain(&problems);
    let config = config(args.kubeconfig.as_deref()).await?;
    let client = client(config.clone())?;
    let mut once = config;
    once.default_retry = false;
    let plain = self::client(once)?;
    let provider = Kwok::new(client.clone(), world.catalogue.clone(), world.names.clone());
    let leadership = Leadership::new(!settings.elects);
    let ctx = Arc::new(Context {
        client: client.clone(),
        plain: plain.clone(),
        provider: Arc::new(provider),
        events: Events::new(plain.clone()),
        metrics: Metrics::new(),
        health: Health::default(),
        leadership: leadership.clone(),
        expected: Mutex::default(),
        nominates: AtomicBool::new(true),
    });
    let board = Arc::new(Mutex::new(Board::default()));
    let served = serve::serve(ctx.clone(), board.clone(), settings.metrics, settings.probes).await;
    served.map_err(|why| usage(&why, "set METRICS_PORT and HEALTH_PROBE_PORT"))?;
    let scorers = Arc::new(policies::load(meant)?);
    let begin = scorers.clone();
    let how = How {
        catalogue: world.catalogue,
        settings: meant.settings.clone(),
        options: planner::Options { effort: meant.effort, seed: meant.seed },
        policies: scorers,
        begin: Box::new(move |now| {
            begin.begin(now);
            begin.notes()
        }),
        idle: settings.idle,
        longest: settings.longest,
    };
    let (out, observations) = channel(4096);
    for kind in Kind::ALL {
        tokio::spawn(watch::watch(client.clone(), kind, out.clone()));
    }
    drop(out);
    let candidate = Arc::new(Candidate {
        client: plain,
        namespace: settings.namespace.clone(),
        name: settings.lease.clone(),
        holder: format!(
            "{}_{:x}",
            std::env::var("HOSTNAME").unwrap_or_else(|_| "longshore".into()),
            std::process::id()
        ),
    });
    if settings.elects {
        let (candidate, leadership) = (candidate.clone(), leadership.clone());
        tokio::spawn(async move { leader::campaign(&candidate, &leadership).await });
    }
    tracing::info!(types = how.catalogue.types().len(), metrics = %settings.metrics, "running");
    tokio::select! {
        () = control::run(ctx, how, world.names, board, observations) => {}
        () = told_to_stop() => tracing::info!("stopping"),
    }
    leadership.stop();
    if settings.elects {
        let _ = tokio::time::timeout(Duration::from_secs(3), leader::release(&candidate)).await;
    }
    Ok(())
}

async fn config(file: Option<&Path>) -> Result<Config, Failure> {
    let hint = "give --kubeconfig or set KUBECONFIG; in a cluster, a ServiceAccount";
    let found = match file {
        Some(file) => {
            let read = Kubeconfig::read_from(file).map_err(|e| usage(&e.to_string(), hint))?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(|e| e.to_string())
        }
        None => Config::infer().await.map_err(|e| e.to_string()),
    };
    found.map_err(|why| usage(&format!("no way to the API server: {why}"), hint))
}

fn client(config: Config) -> Result<Client, Failure> {
    Client::try_from(config).map_err(|e| usage(&format!("no client for the API server: {e}"), "check the kubeconfig"))
}

async fn told_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        },
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}
