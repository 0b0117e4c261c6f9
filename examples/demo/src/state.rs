//! Where the job keeps its state, which may be somewhere else in every run.

use std::{ffi::OsString, path::Path};

use cutwater_runtime::{BoxError, Settings, Snapshots};
use cutwater_state::Backend;

/// A state backend.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kept {
    #[default]
    Memory,
    #[cfg(feature = "rocksdb")]
    Rocksdb,
}

impl Kept {
    /// The backend, with what it needs of a disk beside `checkpoints`.
    #[cfg_attr(
        not(feature = "rocksdb"),
        expect(
            unused_variables,
            clippy::unnecessary_wraps,
            reason = "memory needs no disk"
        )
    )]
    fn open(self, checkpoints: &Path) -> Result<Backend, BoxError> {
        match self {
            Self::Memory => Ok(Backend::memory()),
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => {
                use cutwater_state::rocksdb::{RocksDb, RocksOptions};
                let folder = checkpoints.with_file_name("state");
                let rocksdb = RocksDb::new(folder, RocksOptions::default())?;
                Ok(Backend::rows(rocksdb))
            }
        }
    }
}

/// What the user says about it.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Where the job keeps its state
    #[arg(long, value_enum, default_value_t)]
    backend: Kept,
    /// Take full checkpoints, which any backend can go on from
    #[arg(long)]
    full: bool,
}

impl State {
    /// The part of a command line that this is read from.
    pub(crate) fn arguments(self) -> Vec<OsString> {
        let backend = clap::ValueEnum::to_possible_value(&self.backend);
        let backend = backend.expect("every backend can be named on a command line");
        let mut arguments = vec!["--backend".into(), backend.get_name().into()];
        if self.full {
            arguments.push("--full".into());
        }
        arguments
    }

    /// The same in run `number`, counted from zero.
    pub(crate) fn of_run(self, number: usize, switch: bool) -> Self {
        let is_odd = number % 2 == 1;
        match switch {
            true if is_odd => Self {
                backend: Kept::Memory,
                full: true,
            },
            true => Self { full: true, ..self },
            false => self,
        }
    }

    pub(crate) fn set(self, settings: &mut Settings, checkpoints: &Path) -> Result<(), BoxError> {
        settings.backend = self.backend.open(checkpoints)?;
        if self.full {
            settings.snapshots = Snapshots::Full;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::State;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        state: State,
    }

    fn read(arguments: &[&str]) -> State {
        Line::parse_from([&["run"], arguments].concat()).state
    }

    #[test]
    fn a_command_line_says_the_same() {
        for arguments in [&[][..], &["--backend", "memory", "--full"]] {
            let state = read(arguments);
            let written = [vec!["run".into()], state.arguments()].concat();
            assert_eq!(Line::parse_from(written).state, state);
        }
    }

    #[test]
    fn runs_that_switch_take_checkpoints_that_any_backend_can_go_on_from() {
        let state = read(&[]);
        assert_eq!(state.of_run(1, false), state);
        for number in 0..2 {
            assert!(state.of_run(number, true).full);
        }
    }
}
