//! Checkpoint barriers as state machines without IO.
//!
//! A stream engine cuts a consistent snapshot by sending a *barrier* down every channel (Carbone et
//! al., "State Management in Apache Flink", PVLDB 10(12), 2017). This crate decides what a task does
//! when barriers arrive, and what the job does when tasks answer; your engine does it. There is no
//! clock, thread, file or socket in here: the crate is `no_std`, so the compiler checks that.
//!
//! | machine | stands in | decides |
//! |---|---|---|
//! | [`Aligner`] | each task | when to hold back channels, forward the barrier, snapshot: exactly-once |
//! | [`Tracker`] | each task instead | the same without ever holding back a channel: at-least-once |
//! | [`Coordinator`] | the job, once | when to trigger, when a checkpoint is complete, who hears of it |
//!
//! All have the same shape:
//!
//! | call | meaning |
//! |---|---|
//! | `handle(now, event)` | something happened at `now` |
//! | `poll()` | the next thing to do, in order; call until `None` after each `handle` |
//! | `deadline()` | when to call `handle(now, Event::Woke)` at the latest |
//!
//! # A task
//!
//! ```
//! use cutwater_barrier::align::{Aligner, Channel, Effect, Event, Reading};
//! use cutwater_barrier::{Barrier, CheckpointId, Time};
//!
//! let mut aligner = Aligner::new(2);
//! let barrier = Barrier::checkpoint(CheckpointId::new(7), Time::ZERO);
//!
//! aligner.handle(Time::from_millis(3), Event::Barrier { channel: Channel(0), barrier })?;
//! assert_eq!(aligner.poll(), None);
//! assert_eq!(aligner.reading(Channel(0)), Reading::Blocked, "its next records belong to checkpoint 8");
//!
//! aligner.handle(Time::from_millis(5), Event::Barrier { channel: Channel(1), barrier })?;
//! assert_eq!(aligner.poll(), Some(Effect::Forward(barrier)));
//! assert_eq!(aligner.poll(), Some(Effect::Snapshot(barrier)));
//! let Some(Effect::Acknowledge { alignment, .. }) = aligner.poll() else { panic!() };
//! assert_eq!(alignment.duration(), core::time::Duration::from_millis(2));
//! assert_eq!(aligner.poll(), Some(Effect::Resume));
//! assert_eq!(aligner.poll(), None);
//! # Ok::<(), cutwater_barrier::align::AlignError>(())
//! ```
//!
//! The job's side is shown at [`coordinate`].
#![no_std]
#![warn(clippy::cast_possible_truncation, clippy::unwrap_used)] // here, not in [workspace.lints]: tests may
extern crate alloc;

pub mod align;
mod barrier;
pub mod coordinate;
mod id;
pub mod stats;
#[cfg(feature = "testkit")]
pub mod testkit;
mod time;
mod wire;

pub use align::{Aligner, Tracker};
pub use barrier::{Barrier, Kind, Mode, Then};
pub use coordinate::Coordinator;
pub use id::{CheckpointId, Generation};
pub use time::Time;
pub use wire::WireError;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
