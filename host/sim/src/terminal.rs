//! A scenario to watch: the daemon on the simulated cluster in accelerated real time, in a terminal
//! or as lines.
//!
//! The virtual clock follows the wall clock: each frame runs its slice of virtual time in order,
//! and then waits for its end. So the numbers shown are those that `run` would count, except for
//! what the viewer does: edits the policy file, kills the daemon, causes a capacity outage.
//!
//! [`view`] is what is shown, [`screen`] draws it, [`mod@file`] is the policy file that can be edited.

pub mod file;
pub mod screen;
pub mod view;

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use longshore_live::error::Failure;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::scenario::acts::text;
use crate::scenario::play::{Play, ScenarioOutcome};
use crate::scenario::policy::PolicySlot;
use crate::scenario::{Policy, Scenario, ScenarioEvent};
use file::PolicyFile;
use longshore_simcluster::world::paused;
use view::{Severity, View};

/// How it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TerminalOptions {
    /// Ends after so long, on the wall.
    pub seconds: Option<f64>,
    /// Virtual seconds in one on the wall; as many as it takes to show everything, unless said.
    pub speed: Option<f64>,
    /// Lines instead of a screen.
    pub plain: bool,
}

/// How long it is shown, where nothing says so.
const DEFAULT_SECONDS: f64 = 60.0;
/// Between two pictures.
const FRAME_INTERVAL: Duration = Duration::from_millis(50);
/// Between two looks at the policy file, as of the daemon.
const FILE_POLL: Duration = Duration::from_millis(500);
/// Between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Most things going wrong that are printed between two lines.
const MAX_TROUBLES_PER_LINE: usize = 6;

/// Shows a scenario until its end, the end of the time that was asked for, or until the viewer has
/// seen enough.
///
/// # Errors
/// A policy that is refused, a manifest that the API server refuses, a terminal that cannot be
/// drawn on.
pub fn show(
    mut scenario: Scenario,
    policy: &Policy,
    options: TerminalOptions,
) -> Result<ScenarioOutcome, Failure> {
    let seconds = options.seconds.unwrap_or(DEFAULT_SECONDS).max(1.0);
    let speed = options
        .speed
        .unwrap_or(scenario.duration.as_secs_f64() / seconds)
        .clamp(0.01, 1e6);
    // Shown is what fits; the summary is of that.
    scenario.cut(Duration::from_secs_f64((seconds * speed).clamp(1.0, 1e9)));
    let file = PolicyFile::of(policy)?;
    let slot = PolicySlot::new(&file.policy()?, None)?;
    let plain = options.plain || !std::io::stdout().is_terminal();
    let shown = paused(async {
        let name = scenario.name.clone();
        let end = scenario.duration;
        let play = Play::begin(scenario, slot)?;
        let view = View::new(name, speed, end, file.path());
        let mut live = Live {
            play,
            view,
            speed,
            end,
            looked: Instant::now(),
            ends: None,
        };
        if plain {
            live.lines().await?
        } else {
            live.pictures().await?
        }
        Ok(live.play.end(policy.label()))
    });
    shown.map_err(|error| cannot("no runtime", &error))?
}

fn cannot(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::Usage {
        message: format!("{what}: {error}"),
        hint: "with --plain it needs no terminal".into(),
    }
}

struct Live {
    play: Play,
    view: View,
    speed: f64,
    end: Duration,
    looked: Instant,
    /// When the viewer has seen enough.
    ends: Option<Duration>,
}

impl Live {
    /// Plays until the virtual time that belongs to a time on the wall.
    async fn advance(&mut self, wall: Duration) {
        let now = Duration::from_secs_f64(wall.as_secs_f64() * self.speed).min(self.end);
        self.play.until(now).await;
        if self.looked.elapsed() >= FILE_POLL {
            self.looked = Instant::now();
            self.play.slot.look();
        }
        self.view.look(&self.play);
    }

    fn over(&self) -> bool {
        self.play.harness.world.clock.elapsed() >= self.end || self.ends.is_some()
    }

    async fn pictures(&mut self) -> Result<(), Failure> {
        let mut terminal = ratatui::try_init()
            .map_err(|error| cannot("the terminal cannot be drawn on", &error))?;
        let began = Instant::now();
        let mut frame = 0;
        let shown = loop {
            self.advance(began.elapsed()).await;
            if let Err(error) = terminal.draw(|frame| screen::draw(frame, &self.view)) {
                break Err(cannot("the terminal cannot be drawn on", &error));
            }
            if self.over() {
                break Ok(());
            }
            frame += 1;
            // Slow machines drop pictures, not time.
            let next = FRAME_INTERVAL * frame;
            let wait = next.saturating_sub(began.elapsed());
            if wait.is_zero() {
                frame = (began.elapsed().as_millis() / FRAME_INTERVAL.as_millis()) as u32;
            }
            if let Err(error) = self.keys(wait) {
                break Err(cannot("the terminal cannot be read", &error));
            }
        };
        ratatui::restore();
        shown
    }

    /// Reads what is typed until a frame is over.
    fn keys(&mut self, wait: Duration) -> std::io::Result<()> {
        let until = Instant::now() + wait;
        while event::poll(until.saturating_duration_since(Instant::now()))? {
            let Event::Key(key) = event::read()? else {
                continue;
            };
            if key.kind != KeyEventKind::Press {
                continue;
            }
            let act = match key.code {
                KeyCode::Char('q') | KeyCode::Esc => None,
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => None,
                KeyCode::Char('k') => Some(ScenarioEvent::KillDaemon),
                KeyCode::Char('s') => Some(ScenarioEvent::Interrupt {
                    offerings: "*/*/spot".into(),
                    share: 0.5,
                }),
                KeyCode::Char('b') => Some(ScenarioEvent::Break {
                    offerings: "*/*/*".into(),
                    nodes: 1,
                }),
                _ => continue,
            };
            match act {
                Some(act) => self.play.happen(&act),
                None => self.ends = Some(self.play.harness.world.clock.elapsed()),
            }
        }
        Ok(())
    }

    async fn lines(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        let mut lines = 0;
        self.print(&format!(
            "{}: {} in {:.0} s",
            self.view.name,
            text(self.end),
            self.end.as_secs_f64() / self.speed
        ))?;
        self.print(&format!("policy file: {}", self.view.policy_file.display()))?;
        loop {
            self.advance(began.elapsed()).await;
            let events = std::mem::take(&mut self.view.events);
            let mut bad = 0;
            for event in events.iter().filter(|event| event.tone != Severity::Quiet) {
                bad += usize::from(event.tone == Severity::Bad);
                if event.tone != Severity::Bad || bad <= MAX_TROUBLES_PER_LINE {
                    let line = format!("{}    {}", self.view.moment(event.at), event.words);
                    self.print(&line)?;
                }
            }
            if bad > MAX_TROUBLES_PER_LINE {
                self.print(&format!(
                    "             and {} more of the kind",
                    bad - MAX_TROUBLES_PER_LINE
                ))?;
            }
            self.print(&self.view.line())?;
            if self.over() {
                return Ok(());
            }
            lines += 1;
            // Between two lines the clock goes on as it does between two pictures.
            while began.elapsed() < LINE_INTERVAL * lines && !self.over() {
                std::thread::sleep(
                    FRAME_INTERVAL.min((LINE_INTERVAL * lines).saturating_sub(began.elapsed())),
                );
                self.advance(began.elapsed()).await;
            }
        }
    }

    fn print(&mut self, line: &str) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        match writeln!(out, "{line}").and_then(|()| out.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                self.ends = Some(Duration::ZERO);
                Ok(())
            }
            other => other.map_err(Failure::Print),
        }
    }
}
