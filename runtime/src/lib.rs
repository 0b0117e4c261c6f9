//! A thin stream runtime assembled from the Cutwater crates: one machine, a thread for each task.
//!
//! A [`Job`] is written down once and knows no threads. Started, it takes checkpoints, restarts from
//! the latest one when something fails, and continues from it in another process, with another
//! parallelism if asked to. What its sinks commit is exactly-once throughout.
//!
//! ```
//! use cutwater_runtime::{
//!     BoxError, Collect, Job, KeyedContext, KeyedOpen, KeyedProcess, Result, Settings,
//! };
//! use cutwater_source::VecSource;
//! use cutwater_state::{Handle, ValueState};
//! use cutwater_storage::LocalBlobs;
//!
//! struct Balance(Handle<ValueState<String, i64>>);
//!
//! impl Balance {
//!     fn open(open: &mut KeyedOpen<'_, String>) -> Result<Self> {
//!         Ok(Self(open.keyed.value("balance")?))
//!     }
//! }
//!
//! impl KeyedProcess<String> for Balance {
//!     type In = (String, i64);
//!     type Out = (String, i64);
//!
//!     fn process(
//!         &mut self,
//!         (owner, amount): (String, i64),
//!         context: &mut KeyedContext<'_, String>,
//!         out: &mut Vec<(String, i64)>,
//!     ) -> Result<(), BoxError> {
//!         let balance = context.keyed.update(self.0, context.key, |balance| {
//!             let balance = balance.get_or_insert(0);
//!             *balance += amount;
//!             *balance
//!         })?;
//!         out.push((owner, balance));
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), BoxError> {
//! let payments = |owner: &str, amounts: [i64; 2]| amounts.map(|amount| (owner.to_owned(), amount));
//! let balances = Collect::new();
//! let job = Job::new("bank");
//! job.source("payments", VecSource::new(vec![
//!     payments("alice", [850, 50]).to_vec(),
//!     payments("bob", [320, -20]).to_vec(),
//! ]))
//! .key_by(|(owner, _)| owner.clone())
//! .process("balance", Balance::open)
//! .sink("balances", balances.clone());
//!
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let store = LocalBlobs::open(directory)?;
//! job.start(store, Settings::default())?.wait()?;
//!
//! let mut balances = balances.take();
//! balances.sort();
//! assert_eq!(balances, [
//!     ("alice".to_owned(), 850),
//!     ("alice".to_owned(), 900),
//!     ("bob".to_owned(), 300),
//!     ("bob".to_owned(), 320),
//! ]);
//! # Ok(()) }
//! ```
//!
//! | to | see |
//! |---|---|
//! | write a job | [`Job`], [`Stream`], [`KeyedStream`] |
//! | write an operator | [`KeyedProcess`], [`Process`], [`KeyedCoProcess`], [`KeyedBroadcastProcess`] |
//! | test one | [`harness`] |
//! | choose intervals, restarts, what to restore | [`Settings`] |
//! | stop, watch, wait | [`JobHandle`], [`Observer`] |
//!
//! What happens to a record: a source's reader gives it in a batch; chained operators take the batch
//! by plain calls; an exchange computes its key and hash once and puts it into a channel; the keyed
//! operator prefetches the batch's states and processes record by record; a sink holds it back until
//! its checkpoint is complete.
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may

mod alarm;
mod alignment;
mod attempt;
mod channel;
mod checkpoint;
mod clock;
mod collect;
mod committers;
mod coordinator;
mod debloat;
mod error;
mod exchange;
mod execution;
mod fold;
mod function;
mod graph;
mod handle;
pub mod harness;
mod in_flight;
mod iterate;
mod keeper;
mod keyed;
mod loops;
pub mod metrics;
mod observe;
mod outlets;
mod pace;
mod part;
mod plain;
mod probe;
mod requests;
mod restore;
mod running;
mod settings;
mod sink;
mod source;
mod sources;
mod stage;
mod stateless;
mod stream;
mod supervisor;
mod task;
mod topology;
mod upload;

pub use collect::{Collect, CollectCommitter, CollectWriter};
pub use error::{BoxError, Error, ErrorKind, Result};
pub use function::{
    BroadcastProcess, Context, KeyedBroadcastProcess, KeyedCoProcess, KeyedContext, KeyedOpen,
    KeyedProcess, Open, Process, Subtask,
};
pub use handle::JobHandle;
pub use observe::{CheckpointSummary, Moment, Observer, Outcome, State, Status};
pub use settings::{Guarantee, Restart, Restore, Settings, Snapshots};
pub use stream::{Job, KeyedStream, Record, Stream};

/// The example on the repository's first page runs as a test of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct FirstPage;
