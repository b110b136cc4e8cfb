//! One cluster: a folder with everything that belongs to it, and the processes that work on that
//! folder.
//!
//! | file | |
//! |---|---|
//! | `cluster.json` | name, ports, programs, the process that it belongs to |
//! | `admin.kubeconfig`, `longshore.kubeconfig` | for everything; for the service account that `deploy/` ships |
//! | `other.kubeconfig`, `audit.log` | for everything, as a user whose requests are recorded; requests of controllers |
//! | `NAME.pid`, `NAME.log` | of each program |
//! | `etcd/`, `certs/`, `tokens.csv`, `kwok.yaml`, `audit.yaml` | what the programs keep and read |

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::audit::Request;
use super::binaries::{Binaries, cache};
use super::flags::{self, Ports};
use super::process::{self, Process, Usage};
use super::program::Program;
use super::{ADMIN, LONGSHORE, OTHER, audit, build, install, ports};

/// How long a program may take to get ready: much, for machines that do other things as well.
const START_TIMEOUT: Duration = Duration::from_secs(180);
/// How often everything is started again because another process took a port.
const START_ATTEMPTS: usize = 5;

/// A cluster, running or not.
#[derive(Clone, Debug)]
pub struct Cluster {
    folder: PathBuf,
}

/// A program of a cluster as it is now.
#[derive(Clone, Debug)]
pub struct ProgramState {
    pub program: Program,
    /// Of the program that was started.
    pub version: String,
    /// Where it listens.
    pub port: u16,
    /// Its process and what that uses, if it runs.
    pub running: Option<(Process, Usage)>,
}

impl Cluster {
    /// The cluster of a name, in the cache.
    pub fn named(name: &str) -> Result<Self> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            bail!("a cluster's name has letters, digits and - _ . only: {name:?}");
        }
        Ok(Self {
            folder: clusters()?.join(name),
        })
    }

    /// The cluster in a folder.
    pub fn at(folder: &Path) -> Result<Self> {
        Ok(Self {
            folder: std::path::absolute(folder)?,
        })
    }

    /// All clusters in the cache.
    pub fn all() -> Result<Vec<Self>> {
        let Ok(entries) = fs::read_dir(clusters()?) else {
            return Ok(Vec::new());
        };
        let mut found: Vec<Self> = entries
            .flatten()
            .map(|entry| Self {
                folder: entry.path(),
            })
            .collect();
        found.retain(Self::exists);
        found.sort_by(|one, other| one.folder.cmp(&other.folder));
        Ok(found)
    }

    /// Whether it was brought up and not taken down.
    pub fn exists(&self) -> bool {
        self.folder.join("cluster.json").is_file()
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The last part of its folder.
    pub fn name(&self) -> String {
        self.folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    /// For everything.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.folder.join(ADMIN)
    }

    /// For what `deploy/rbac.yaml` allows.
    pub fn longshore_kubeconfig(&self) -> PathBuf {
        self.folder.join(LONGSHORE)
    }

    /// For everything, as a user of its own, so that its requests are counted.
    pub fn other_kubeconfig(&self) -> PathBuf {
        self.folder.join(OTHER)
    }

    /// For what `deploy/rbac.yaml` allows, with a token of its own, which distinguishes the
    /// requests of replicas.
    pub fn replica_kubeconfig(&self, replica: &str) -> Result<PathBuf> {
        let file = format!("longshore-{replica}.kubeconfig");
        self.write_longshore_kubeconfig(&file, &install::token(self)?)?;
        Ok(self.folder.join(file))
    }

    /// Requests of controllers so far: of Longshore's account, and of the user of
    /// [`Self::other_kubeconfig`].
    pub fn requests(&self) -> Result<Vec<Request>> {
        let mut requests = self.recorded()?;
        requests.retain(|request| [audit::OURS, audit::OTHER].contains(&request.user.as_str()));
        Ok(requests)
    }

    /// The requests of `requests`, and all bindings.
    pub fn recorded(&self) -> Result<Vec<Request>> {
        audit::requests(&self.folder)
    }

    /// kubectl as the administrator.
    pub fn kubectl(&self) -> Result<Command> {
        let Some(record) = Record::read(&self.folder)? else {
            bail!(
                "there is no cluster in {}: cargo xtask cluster up",
                self.folder.display()
            );
        };
        let mut command = Command::new(record.path(Program::Kubectl));
        command.env("KUBECONFIG", self.admin_kubeconfig());
        Ok(command)
    }

    /// Brings it up, or what of it does not run; programs that are missing are built. A cluster
    /// with an owner is taken down by [`remove_orphans`] once that has ended.
    pub fn up(&self, owner: Option<&Process>, say: &dyn Fn(&str)) -> Result<()> {
        let binaries = Binaries::find()?;
        build::build(&binaries, say)?;
        self.make_folder()?;
        let lock = fs::File::create(self.folder.join("lock"))?;
        lock.lock()?;
        let start = Instant::now();
        for attempt in 1.. {
            let Err(error) = self.start_all(&binaries, owner, say) else {
                break;
            };
            if attempt == START_ATTEMPTS || error.downcast_ref::<PortTaken>().is_none() {
                return Err(error);
            }
            say(&format!("{error:#}; again with other ports"));
            self.stop_all()?;
            fs::remove_file(self.folder.join("cluster.json"))?;
        }
        say(&format!(
            "all programs are ready after {:.1} s",
            start.elapsed().as_secs_f64()
        ));
        install::install(self, say)?;
        say(&format!("up after {:.1} s", start.elapsed().as_secs_f64()));
        Ok(())
    }

    /// Ends its programs and removes its folder. Nothing is left of it.
    pub fn down(&self) -> Result<()> {
        if !self.exists() {
            return Ok(());
        }
        self.stop_all()?;
        match fs::remove_dir_all(&self.folder) {
            // Somebody else took it down at the same time.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            done => done.with_context(|| format!("cannot remove {}", self.folder.display())),
        }
    }

    /// Ends one program, without asking it. [`Self::up`] starts it again.
    pub fn kill(&self, program: Program) -> Result<()> {
        Process::find(&self.folder, program.name()).map_or(Ok(()), |process| process.kill())
    }

    /// Starts one program that does not run, and waits until it is ready.
    pub fn start_again(&self, program: Program) -> Result<()> {
        let binaries = Binaries::find()?;
        let record = Record::read(&self.folder)?.context("no cluster")?;
        let name = program.name();
        let process = match Process::find(&self.folder, name) {
            Some(process) => process,
            None => {
                let command = flags::command(program, &binaries, &self.folder, &record.ports);
                Process::start(command, &self.folder, name)?
            }
        };
        self.wait(&[(program, process)], &binaries, &record.ports)
    }

    /// Its programs as they are now; nothing if there is no cluster.
    pub fn status(&self) -> Result<Vec<ProgramState>> {
        let Some(record) = Record::read(&self.folder)? else {
            return Ok(Vec::new());
        };
        let state = |program: Program| {
            let process = Process::find(&self.folder, program.name());
            ProgramState {
                program,
                version: record.version(program),
                port: record.ports.get(program),
                running: process.and_then(|process| process.usage().map(|usage| (process, usage))),
            }
        };
        Ok(Program::RUNNING.into_iter().map(state).collect())
    }

    /// The process that it belongs to, if it belongs to one.
    pub fn owner(&self) -> Option<Process> {
        let record = Record::read(&self.folder).ok()??;
        Process::from_text(record.json["owner"].as_str()?)
    }

    fn make_folder(&self) -> Result<()> {
        let shown = self.folder.display();
        if !self.exists()
            && fs::read_dir(&self.folder).is_ok_and(|mut entries| entries.any(is_foreign))
        {
            bail!(
                "{shown} is not empty and holds no cluster; it would be removed with the cluster: choose another"
            );
        }
        fs::create_dir_all(&self.folder).with_context(|| format!("cannot make {shown}"))?;
        // Keys and tokens are for us alone.
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700))?;
        Ok(())
    }

    /// Starts what does not run, in order, and waits for each to be ready.
    fn start_all(
        &self,
        binaries: &Binaries,
        owner: Option<&Process>,
        say: &dyn Fn(&str),
    ) -> Result<()> {
        let record = match Record::read(&self.folder)? {
            Some(record) => record,
            None => self.prepare(binaries, owner)?,
        };
        let mut running = Vec::new();
        for program in Program::RUNNING {
            if program == Program::ControllerManager {
                // It and those behind it end where they find no API server.
                self.wait(&running, binaries, &record.ports)?;
            }
            let name = program.name();
            let process = match Process::find(&self.folder, name) {
                Some(process) => process,
                None => {
                    let command = flags::command(program, binaries, &self.folder, &record.ports);
                    let process = Process::start(command, &self.folder, name)?;
                    let version = &binaries.get(program).version;
                    say(&format!(
                        "{name} {version} on 127.0.0.1:{}",
                        record.ports.get(program)
                    ));
                    process
                }
            };
            running.push((program, process));
        }
        self.wait(&running, binaries, &record.ports)
    }

    /// Writes what the programs read.
    fn prepare(&self, binaries: &Binaries, owner: Option<&Process>) -> Result<Record> {
        let [peer, of @ ..] = ports::free::<6>()?;
        let ports = Ports { peer, of };
        let (token, other) = (random()?, random()?);
        let line = |token: &str, user: &str| format!("{token},{user},{user},\"system:masters\"\n");
        self.write(
            "tokens.csv",
            &(line(&token, "admin") + &line(&other, audit::OTHER)),
        )?;
        self.write("kwok.yaml", &flags::kwok(&ports))?;
        self.write(audit::POLICY, &audit::policy())?;
        let record = Record::new(binaries, ports, owner);
        self.write("cluster.json", &format!("{:#}\n", record.json))?;
        self.write_kubeconfig(ADMIN, "admin", &token, &record.ports)?;
        self.write_kubeconfig(OTHER, audit::OTHER, &other, &record.ports)?;
        Ok(record)
    }

    /// A kubeconfig of a user with a token.
    fn write_kubeconfig(&self, file: &str, user: &str, token: &str, ports: &Ports) -> Result<()> {
        let name = format!("longshore-{}", self.name());
        let server = format!("https://127.0.0.1:{}", ports.get(Program::ApiServer));
        let authority = self.folder.join("certs/apiserver.crt");
        // JSON is YAML.
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority": authority}}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        });
        self.write(file, &format!("{config:#}\n"))
    }

    /// As [`Self::write_kubeconfig`], for the service account.
    pub(super) fn write_longshore_kubeconfig(&self, file: &str, token: &str) -> Result<()> {
        let record = Record::read(&self.folder)?.context("no cluster")?;
        self.write_kubeconfig(file, "longshore", token, &record.ports)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        let open = || {
            fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&path)
        };
        let written = open().and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    fn stop_all(&self) -> Result<()> {
        Program::RUNNING
            .into_iter()
            .rev()
            .try_for_each(|program| self.kill(program))
    }

    /// Waits until programs are ready.
    fn wait(
        &self,
        running: &[(Program, Process)],
        binaries: &Binaries,
        ports: &Ports,
    ) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        for (program, _) in running {
            let name = program.name();
            loop {
                if let Some((dead, _)) = running.iter().find(|(_, process)| !process.runs()) {
                    return Err(self.startup_failure(*dead));
                }
                if ready(
                    *program,
                    binaries,
                    &self.admin_kubeconfig(),
                    ports.get(*program),
                ) {
                    break;
                }
                if Instant::now() > deadline {
                    let last = process::last_lines(&self.folder, name, 10);
                    bail!(
                        "{name} is not ready after {} s; it says:\n{last}",
                        START_TIMEOUT.as_secs()
                    );
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        Ok(())
    }

    fn startup_failure(&self, program: Program) -> anyhow::Error {
        let name = program.name();
        let last = process::last_lines(&self.folder, name, 15);
        if last.contains("address already in use") {
            return PortTaken(name).into();
        }
        let log = process::log(&self.folder, name);
        anyhow::anyhow!(
            "{name} ended at its start; the end of {}:\n{last}",
            log.display()
        )
    }
}

/// Removes clusters in the cache that their owner left running.
pub fn remove_orphans() -> Result<()> {
    let orphans = Cluster::all()?
        .into_iter()
        .filter(|cluster| cluster.owner().is_some_and(|owner| !owner.runs()));
    orphans.into_iter().try_for_each(|cluster| cluster.down())
}

/// Somebody else took a port between our look and our use.
#[derive(Debug)]
struct PortTaken(&'static str);

impl std::fmt::Display for PortTaken {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "the port of {} was taken meanwhile", self.0)
    }
}

impl std::error::Error for PortTaken {}

/// `cluster.json`.
struct Record {
    json: Value,
    ports: Ports,
}

impl Record {
    fn new(binaries: &Binaries, ports: Ports, owner: Option<&Process>) -> Self {
        let programs = binaries.iter().map(|binary| {
            let port = ports.get(binary.program);
            let record = json!({"version": binary.version, "path": binary.path, "port": port});
            (binary.program.name().to_owned(), record)
        });
        let programs: Value = Value::Object(programs.collect());
        let json =
            json!({"owner": owner.map(Process::to_text), "peer": ports.peer, "programs": programs});
        Self { json, ports }
    }

    fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join("cluster.json");
        let Ok(text) = fs::read(&path) else {
            return Ok(None);
        };
        let json: Value = serde_json::from_slice(&text)
            .with_context(|| format!("{} is broken", path.display()))?;
        let port = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
        let of = |program: Program| port(&json["programs"][program.name()]["port"]);
        let ports = || {
            Some(Ports {
                peer: port(&json["peer"])?,
                of: sequence(Program::RUNNING.map(of))?,
            })
        };
        let ports = ports().with_context(|| format!("{} names no ports", path.display()))?;
        Ok(Some(Self { json, ports }))
    }

    fn path(&self, program: Program) -> &str {
        self.json["programs"][program.name()]["path"]
            .as_str()
            .unwrap_or(program.name())
    }

    fn version(&self, program: Program) -> String {
        self.json["programs"][program.name()]["version"]
            .as_str()
            .unwrap_or("?")
            .to_owned()
    }
}

fn sequence(all: [Option<u16>; 5]) -> Option<[u16; 5]> {
    let some: Vec<u16> = all.into_iter().flatten().collect();
    some.try_into().ok()
}

/// Where clusters with a name are.
fn clusters() -> Result<PathBuf> {
    Ok(cache()?.join("clusters"))
}

/// Whether a file is not one that an interrupted start leaves.
fn is_foreign(entry: std::io::Result<fs::DirEntry>) -> bool {
    let ours = ["lock", "tokens.csv", "kwok.yaml", "etcd", "certs"];
    entry.is_ok_and(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        !ours.contains(&&*name) && !name.ends_with(".pid") && !name.ends_with(".log")
    })
}

/// A secret: 128 bits in hexadecimal.
fn random() -> Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("/dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a program says that it is ready.
fn ready(program: Program, binaries: &Binaries, admin: &Path, port: u16) -> bool {
    if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        return false;
    }
    let kubectl = || {
        let mut command = Command::new(&binaries.get(Program::Kubectl).path);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .arg("get");
        command
    };
    let succeeds = |mut command: Command| command.status().is_ok_and(|status| status.success());
    match program {
        Program::Etcd => http_ok(port, "/health"),
        Program::Kwok => http_ok(port, "/readyz"),
        Program::ApiServer => {
            let mut command = kubectl();
            command.env("KUBECONFIG", admin).args(["--raw", "/readyz"]);
            succeeds(command)
        }
        // Their certificates live in their memory alone, and their health is no secret; without a
        // token kubectl would ask for a name.
        Program::ControllerManager | Program::Scheduler => {
            let mut command = kubectl();
            let path = if program == Program::Scheduler {
                "/readyz"
            } else {
                "/healthz"
            };
            command.env("KUBECONFIG", "/dev/null").args([
                "--raw",
                path,
                "--insecure-skip-tls-verify",
                "--token=none",
            ]);
            command.arg(format!("--server=https://127.0.0.1:{port}"));
            succeeds(command)
        }
        Program::Kubectl => true,
    }
}

/// Whether a plain server answers with 200.
fn http_ok(port: u16, path: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(answer.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}
