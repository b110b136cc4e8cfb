//! `longshore emulate aws`: serves the emulated AWS endpoint.

mod kubelets;

use std::io::Write as _;
use std::path::Path;

use longshore_emulator::{Account, World, WorldError, serve};

use crate::answer::Answer;
use crate::args::{EmulateArgs, EmulateAwsArgs, EmulatedCloud};
use crate::input::{shown, unpacked};
use longshore_live::error::Failure;
use longshore_live::process::connection;

/// Serves until the process is ended.
pub fn run(args: &EmulateArgs) -> Result<Answer, Failure> {
    let EmulatedCloud::Aws(args) = &args.cloud;
    let account = match &args.world {
        Some(file) => read(file)?,
        None => Account::default_region(),
    };
    let queue = account.queue.clone();
    let world = World::new(account, args.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| no_server(args, &source))?;
    runtime.block_on(async {
        let client = match args.kubeconfig.as_deref() {
            None => None,
            Some(file) => Some(client(file).await?),
        };
        let server = serve::serve(args.port, world).await;
        let server = server.map_err(|source| no_server(args, &source))?;
        let address = server
            .address()
            .map_err(|source| no_server(args, &source))?;
        ready(&format!(
            "AWS_ENDPOINT_URL=http://{address}\nINTERRUPTION_QUEUE={queue}\n"
        ))?;
        if let Some(client) = client {
            tokio::spawn(kubelets::run(server.shell(), client));
        }
        server.run().await;
        Ok(Answer::ok(String::new()))
    })
}

async fn client(kubeconfig: &Path) -> Result<kube::Client, Failure> {
    let config = connection::config(Some(kubeconfig)).await?;
    kube::Client::try_from(config).map_err(|source| Failure::Usage {
        message: format!("no client for the API server: {source}"),
        hint: "check the kubeconfig".to_owned(),
    })
}

/// Says where it listens at once: this command does not end by itself.
fn ready(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(Failure::Print)
}

fn read(file: &Path) -> Result<Account, Failure> {
    let name = shown(file);
    match Account::read(&name, &unpacked(file)?, None) {
        Ok((account, problems)) => {
            for problem in &problems.list {
                eprintln!("longshore: {problem}");
            }
            Ok(account)
        }
        Err(WorldError::Region(problems)) => Err(Failure::Unusable {
            source_name: name,
            problems,
        }),
        Err(error @ WorldError::Account { .. }) => Err(Failure::Input {
            file: file.to_owned(),
            reason: error.to_string(),
            hint: "host/emulator/README.md lists what `account` may have".to_owned(),
        }),
    }
}

fn no_server(args: &EmulateAwsArgs, source: &std::io::Error) -> Failure {
    Failure::Usage {
        message: format!("cannot listen on 127.0.0.1:{}: {source}", args.port),
        hint: "choose another port with --port; 0 takes one that is free".into(),
    }
}
