//! SIGTERM ends a daemon within 10 s, whatever the reader of its log and its API server do.

use std::io::{PipeWriter, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use longshore_xtask::control_plane::free_ports;

/// What a pipe holds; one more byte waits for a reader.
const PIPE: usize = 64 << 10;

/// A daemon; killed when dropped.
struct Daemon {
    child: Child,
    probes: u16,
    kubeconfig: PathBuf,
}

impl Daemon {
    /// One whose log and whose API server are these.
    fn start(name: &str, log: PipeWriter, api: u16) -> Daemon {
        let kubeconfig =
            std::env::temp_dir().join(format!("longshore-stop-{name}-{}.yaml", std::process::id()));
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{api}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        );
        std::fs::write(&kubeconfig, config).unwrap();
        let [metrics, probes, status] = free_ports().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_longshore"))
            .args(["run", "--kubeconfig"])
            .arg(&kubeconfig)
            .args(["--metrics-port", &metrics.to_string()])
            .args(["--health-probe-port", &probes.to_string()])
            .args(["--status-address", &format!("127.0.0.1:{status}")])
            .env("LOG_LEVEL", "debug")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Daemon {
            child,
            probes,
            kubeconfig,
        }
    }

    fn is_healthy(&self) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.probes))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(&answer == b"HTTP/1.1 200")
    }

    /// Waits until it is healthy, and is so once more.
    fn lives(&self) {
        let begun = Instant::now();
        while !self.is_healthy().unwrap_or(false) {
            assert!(begun.elapsed() < Duration::from_secs(60), "not healthy");
            std::thread::sleep(Duration::from_millis(50));
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            assert!(self.is_healthy().unwrap(), "healthy once, and no more");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Tells it to stop; how long it takes.
    fn stop(&mut self) -> Duration {
        let begun = Instant::now();
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(sent.success());
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
        begun.elapsed()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

/// A port that nobody listens on.
fn nobody() -> u16 {
    let [port] = free_ports().unwrap();
    port
}

const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn a_log_without_a_reader_holds_up_neither_probes_nor_the_end() {
    let (reader, mut log) = std::io::pipe().unwrap();
    log.write_all(&[b'.'; PIPE]).unwrap();
    let mut daemon = Daemon::start("stuck", log, nobody());
    daemon.lives();
    let took = daemon.stop();
    assert!(took < LIMIT, "{took:?}");
    drop(reader);
}

#[test]
fn a_log_whose_reader_is_gone_holds_up_neither_probes_nor_the_end() {
    let (reader, log) = std::io::pipe().unwrap();
    drop(reader);
    let mut daemon = Daemon::start("gone", log, nobody());
    daemon.lives();
    let took = daemon.stop();
    assert!(took < LIMIT, "{took:?}");
}

#[test]
fn an_api_server_that_never_answers_does_not_hold_up_the_end() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let (mut reader, log) = std::io::pipe().unwrap();
    let mut daemon = Daemon::start("silent", log, port);
    daemon.lives();
    let took = daemon.stop();
    assert!(took < LIMIT, "{took:?}");
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(text.contains("stopping"), "{text}");
}
