//! `longshore run`: puts the parts together and keeps them going until told to stop.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use longshore_kwok::provider::Kwok;
use tokio::sync::mpsc::channel;

use super::clock::Clock;
use super::context::{Context, Health, lock};
use super::control::{self, How};
use super::events::Events;
use super::journal::{self, Journal};
use super::kinds::Kind;
use super::leader::{self, Candidate, Leadership};
use super::metrics::Metrics;
use super::policies::{Manager, Setup};
use super::serve::{self, Board};
use super::settings::{self, Settings};
use super::watch;
use crate::args::{Log, RunArgs};
use crate::failure::Failure;
use crate::{Answer, input};

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(args: &RunArgs) -> Result<Answer, Failure> {
    let settings = settings::read(|name| std::env::var(name).ok())?;
    logging(&settings, args.log);
    for note in &settings.notes {
        tracing::warn!("{note}");
    }
    let defaults = longshore_core::model::Settings::default();
    let meant = longshore_core::model::Settings {
        preferences: settings.preferences.unwrap_or(defaults.preferences),
        min_values: settings.min_values.unwrap_or(defaults.min_values),
        reserved_capacity: settings.reserved_capacity,
        ..defaults
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .map_err(|source| usage("the runtime does not start", &source.to_string()))?;
    let ended = runtime.block_on(live(args, &settings, &meant));
    // What is still under way is not waited for: everything can be interrupted anywhere.
    runtime.shutdown_background();
    ended?;
    Ok(Answer::ok(String::new()))
}

/// Passes on what the policies have to say, once a second, for ever.
fn tell(ctx: &Context, manager: &Manager, journal: &Journal, board: &serve::SharedBoard) {
    let runtime = tokio::runtime::Handle::current();
    loop {
        for notice in manager.notices() {
            let kind = format!("{:?}", notice.kind);
            ctx.metrics.policies.with_label_values(&[&kind, &notice.name]).inc();
            let words = format!("{}: {} {}", notice.name, notice.message, notice.hint);
            let warning = notice.kind.is_warning();
            if warning {
                tracing::warn!(kind, policy = notice.name, message = notice.message, hint = notice.hint, "policy");
            } else {
                tracing::info!(kind, policy = notice.name, message = notice.message, "policy");
            }
            if ctx.leadership.holds() {
                runtime.block_on(ctx.events.own(warning, &kind, words.trim()));
            }
        }
        ctx.metrics.journal(journal.condition());
        lock(board).policies = serde_json::to_value(manager.status()).unwrap_or_default();
        std::thread::sleep(Duration::from_secs(1));
    }
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

async fn live(args: &RunArgs, settings: &Settings, meant: &longshore_core::model::Settings) -> Result<(), Failure> {
    let (world, problems) =
        input::catalogue_only(args.instance_types.as_deref().or(settings.instance_types.as_deref()))?;
    input::complain(&problems);
    let config = config(args.kubeconfig.as_deref()).await?;
    let client = client(config.clone())?;
    let mut once = config;
    once.default_retry = false;
    let plain = self::client(once)?;
    let provider = Kwok::new(client.clone(), world.catalogue.clone(), world.names.clone());
    let leadership = Leadership::new(!settings.elects);
    let clock = Clock::system();
    let ctx = Arc::new(Context {
        client: client.clone(),
        plain: plain.clone(),
        provider: Arc::new(provider),
        events: Events::new(plain.clone(), clock),
        metrics: Metrics::new(),
        health: Health::default(),
        leadership: leadership.clone(),
        clock,
        nominates: AtomicBool::new(true),
    });
    let board = Arc::new(Mutex::new(Board::default()));
    let (asks, asked) = channel(16);
    let served = serve::serve(ctx.clone(), board.clone(), asks, settings.metrics, settings.probes).await;
    served.map_err(|why| usage(&why, "set METRICS_PORT and HEALTH_PROBE_PORT"))?;
    let journal = match journal::wanted(args.journal.as_deref(), args.config.as_deref())? {
        Some((folder, sizes)) => Journal::open(&folder, sizes)?,
        None => Journal::off(),
    };
    let setup = Setup { config: args.config.clone(), journal: journal.clone(), ..Setup::default() };
    let manager = Manager::start(setup)?;
    tokio::task::spawn_blocking({
        let (ctx, manager, journal, board) = (ctx.clone(), manager.clone(), journal.clone(), board.clone());
        move || tell(&ctx, &manager, &journal, &board)
    });
    let how = How {
        catalogue: world.catalogue,
        settings: meant.clone(),
        manager,
        journal: journal.clone(),
        idle: settings.idle,
        longest: settings.longest,
        inline: false,
    };
    let (out, observations) = channel(4096);
    for kind in Kind::ALL {
        tokio::spawn(watch::watch(client.clone(), kind, out.clone()));
    }
    drop(out);
    let candidate = Arc::new(Candidate {
        client: plain,
        clock,
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
        () = control::run(ctx, how, world.names, board, observations, asked) => {}
        () = told_to_stop() => tracing::info!("stopping"),
    }
    leadership.stop();
    if settings.elects {
        let _ = tokio::time::timeout(Duration::from_secs(3), leader::release(&candidate)).await;
    }
    let _ = tokio::task::spawn_blocking(move || journal.close()).await;
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
