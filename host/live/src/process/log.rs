//! The daemon's log. No thread waits for its reader.
//!
//! Lines are queued and written by a thread of their own. Where the reader of the log is slow, stuck
//! or gone, lines are dropped and counted; how many is said once lines can be written again. A panic
//! is a line like any other.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use super::lock::lock;

/// Bytes of lines that wait: some ten thousand lines.
const MAX_QUEUED_BYTES: usize = 4 << 20;

/// Takes lines. Clones write one log.
#[derive(Clone)]
pub struct LogQueue(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    most: usize,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// Lines are being written.
    writing: bool,
    /// Lines that were dropped.
    dropped: u64,
    /// Dropped lines that the log has reported.
    reported: u64,
}

impl LogQueue {
    /// A log that goes to `out`. `lost` makes the line that tells how many were dropped.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn start(
        out: impl Write + Send + 'static,
        lost: fn(u64) -> String,
    ) -> io::Result<LogQueue> {
        LogQueue::with(MAX_QUEUED_BYTES, out, lost)
    }

    fn with(
        most: usize,
        mut out: impl Write + Send + 'static,
        lost: fn(u64) -> String,
    ) -> io::Result<LogQueue> {
        let log = LogQueue(Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            most,
        }));
        let shared = log.0.clone();
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || {
                loop {
                    shared.write(&mut out, lost);
                }
            })?;
        Ok(log)
    }

    /// How many lines were dropped so far.
    pub fn dropped(&self) -> u64 {
        lock(&self.0.queue).dropped
    }

    /// Waits until everything is written, but no longer than this.
    pub fn flush(&self, limit: Duration) {
        let queue = lock(&self.0.queue);
        let waits = |queue: &mut Queue| queue.writing || !queue.lines.is_empty();
        drop(self.0.changed.wait_timeout_while(queue, limit, waits));
    }
}

impl Shared {
    /// Writes what waits, once something does.
    fn write(&self, out: &mut impl Write, lost: fn(u64) -> String) {
        let (lines, unreported) = {
            let queue = lock(&self.queue);
            let mut queue = self
                .changed
                .wait_while(queue, |queue| queue.lines.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            queue.writing = true;
            queue.bytes = 0;
            (
                std::mem::take(&mut queue.lines),
                queue.dropped - queue.reported,
            )
        };
        let written = lines.iter().map(|line| out.write_all(line).is_ok());
        let failed = written.filter(|written| !written).count() as u64;
        let tells = unreported > 0 && failed == 0;
        let reported = tells && out.write_all(lost(unreported).as_bytes()).is_ok();
        // It may be a file with a buffer.
        let _ = out.flush();
        let mut queue = lock(&self.queue);
        queue.writing = false;
        queue.dropped += failed;
        queue.reported += if reported { unreported } else { 0 };
        drop(queue);
        self.changed.notify_all();
    }
}

impl Write for LogQueue {
    /// Takes a line, or drops it. Never blocks and never fails.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut queue = lock(&self.0.queue);
        if queue.bytes + line.len() > self.0.most {
            queue.dropped += 1;
        } else {
            queue.bytes += line.len();
            queue.lines.push_back(line.into());
            drop(queue);
            self.0.changed.notify_all();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = LogQueue;

    fn make_writer(&'a self) -> LogQueue {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Writes once it may, and passes on what it was given.
    struct Reader {
        may: Receiver<io::Result<()>>,
        read: Sender<String>,
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.may.recv().unwrap_or(Ok(()))?;
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.read.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn queue(most: usize) -> (LogQueue, Sender<io::Result<()>>, Receiver<String>) {
        let (lets, may) = channel();
        let (read, lines) = channel();
        let lost = |lines: u64| format!("{lines} lost\n");
        let log = LogQueue::with(most, Reader { may, read }, lost).unwrap();
        (log, lets, lines)
    }

    #[test]
    fn a_reader_that_is_stuck_costs_lines_and_no_time_and_is_told_how_many() {
        let (mut log, lets, lines) = queue(30);
        // The first is taken by the thread, which then is stuck.
        log.write_all(b"first\n").unwrap();
        while !lock(&log.0.queue).writing {
            std::thread::yield_now();
        }
        for number in 0..1000 {
            log.write_all(format!("line {number:03}\n").as_bytes())
                .unwrap();
        }
        assert_eq!(log.dropped(), 997);
        log.flush(Duration::from_millis(10));
        drop(lets);
        log.flush(Duration::from_secs(60));
        let read: Vec<String> = lines.try_iter().collect();
        assert_eq!(
            read.concat(),
            "first\nline 000\nline 001\nline 002\n997 lost\n"
        );
    }

    #[test]
    fn a_reader_that_is_gone_costs_lines_and_no_panic() {
        let (mut log, lets, lines) = queue(1000);
        for _ in 0..2 {
            lets.send(Err(io::ErrorKind::BrokenPipe.into())).unwrap();
        }
        log.write_all(b"one\n").unwrap();
        log.flush(Duration::from_secs(60));
        log.write_all(b"two\n").unwrap();
        log.flush(Duration::from_secs(60));
        drop(lets);
        log.write_all(b"three\n").unwrap();
        log.flush(Duration::from_secs(60));
        assert_eq!(log.dropped(), 2);
        assert_eq!(lines.try_iter().collect::<String>(), "three\n2 lost\n");
    }
}
