//! The `cutwater` command: what is in a checkpoint directory, and whether it is intact.
//!
//! It reads, and neither takes over nor writes: a job may be running on the directory.
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

mod inspect;
mod list;
mod text;
mod times;
mod verify;

use std::{
    error::Error as _,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use cutwater_storage::{CheckpointStore, LocalBlobs, Options, Result};

/// List, inspect and verify the checkpoints of a Cutwater job
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The checkpoints that can be restored from
    List {
        /// The job's checkpoint directory
        directory: PathBuf,
        /// Print one JSON array instead of a table
        #[arg(long)]
        json: bool,
    },
    /// What one checkpoint consists of: sizes and times of every operator and subtask
    Inspect {
        /// The job's checkpoint directory
        directory: PathBuf,
        /// Which checkpoint; the newest if left out
        id: Option<u64>,
        /// List every file as well
        #[arg(long)]
        files: bool,
        /// Print one JSON object instead of tables
        #[arg(long)]
        json: bool,
    },
    /// Compare every byte of every checkpoint with its checksum
    Verify {
        /// The job's checkpoint directory
        directory: PathBuf,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match futures::executor::block_on(run(arguments.command, &mut io::stdout().lock())) {
        Ok(code) => code,
        Err(Failure::Storage(error)) => {
            let mut message = format!("error: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                message.push_str(&format!("\n  because: {cause}"));
                source = cause.source();
            }
            let _unheard = writeln!(io::stderr(), "{message}");
            ExitCode::FAILURE
        }
        // Whoever read the output has seen enough, e.g. `head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Output(error)) => {
            let _unheard = writeln!(io::stderr(), "error: could not write the output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why the command ended early.
#[derive(Debug)]
enum Failure {
    Storage(cutwater_storage::Error),
    Output(io::Error),
}

impl From<cutwater_storage::Error> for Failure {
    fn from(error: cutwater_storage::Error) -> Self {
        Self::Storage(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

async fn run(command: Command, out: &mut impl Write) -> Result<ExitCode, Failure> {
    match command {
        Command::List { directory, json } => {
            list::run(&open(directory).await?, json, out).await?;
        }
        Command::Inspect {
            directory,
            id,
            files,
            json,
        } => {
            inspect::run(&open(directory).await?, id, files, json, out).await?;
        }
        Command::Verify { directory } => {
            return verify::run(&mut open(directory).await?, out).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn open(directory: PathBuf) -> Result<CheckpointStore> {
    CheckpointStore::open(LocalBlobs::open_existing(directory)?, Options::default()).await
}
