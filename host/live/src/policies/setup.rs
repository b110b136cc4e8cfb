//! What policies are read from, and what they may use.

use std::path::PathBuf;
use std::time::Duration;

use longshore_policy::{Compiler, Limits};

use super::bundles::Fetching;
use super::last_good::Opened;
use crate::config::Config;
use longshore_journal::Journal;

/// Where everything comes from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// `longshore.toml`; none for [`Setup::inline`].
    pub config: Option<PathBuf>,
    /// What `config` has, if it was opened before.
    pub opened: Option<Opened>,
    /// What is in force where no file is named: by default it plans by price.
    pub inline: Config,
    /// A folder for compiled components, private to this user.
    pub cache: Option<PathBuf>,
    /// How policies are fetched from registries.
    pub fetching: Fetching,
    /// A folder for copies of good configurations, private to this user.
    pub copies: Option<PathBuf>,
    /// Where components are compiled.
    pub compiler: Compiler,
    /// What a policy may use.
    pub limits: Limits,
    /// Whether something asks what nodes boot with.
    pub boots: bool,
    /// Whether nodes come from EC2, so that signals may as well.
    pub on_ec2: bool,
    /// How long an address of a signal may take to answer.
    pub signal_timeout: Duration,
    /// Records which components rounds may ask.
    pub journal: Journal,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            config: None,
            opened: None,
            inline: Config::default(),
            cache: None,
            fetching: Fetching::default(),
            copies: None,
            compiler: Compiler::Here,
            limits: Limits::default(),
            boots: false,
            on_ec2: false,
            signal_timeout: Duration::from_secs(10),
            journal: Journal::off(),
        }
    }
}
