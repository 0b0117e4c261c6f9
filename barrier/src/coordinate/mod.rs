//! The job's side: when to checkpoint, and when a checkpoint counts.
//!
//! ```text
//!                 all tasks acknowledged      appended durably
//!   Trigger… ──▶ collecting ──▶ Decide ──▶ deciding ──▶ NotifyComplete
//!                    │                         │
//!                    │ declined, timed out     │ append failed
//!                    └─────────────────────────┴──────▶ NotifyAborted, Discard…
//!                    │ a newer one completed
//!                    └────────────────────────────────▶ NotifySubsumed, Discard…
//! ```
//!
//! A checkpoint is one decision: the [`Effect::Decide`] that the driver makes durable, fenced by the
//! generation. Everything before can be thrown away, everything after can be repeated.
//!
//! ```
//! use cutwater_barrier::coordinate::{Attempt, Config, Coordinator, Effect, Event, Plan};
//! use cutwater_barrier::stats::TaskStats;
//! use cutwater_barrier::{CheckpointId, Generation, Time};
//! use core::time::Duration;
//!
//! let mut plan = Plan::new();
//! let source = plan.task([]);
//! let sink = plan.task([source]);
//!
//! let attempt = Attempt::new(Generation::new(1), CheckpointId::new(1));
//! let mut config = Config::every(Duration::from_millis(50));
//! config.initial_delay = Duration::from_millis(20);
//! let mut coordinator = Coordinator::new(config, plan, attempt);
//!
//! for task in [source, sink] {
//!     coordinator.handle(Time::ZERO, Event::Running { task })?;
//! }
//! assert_eq!(coordinator.deadline(), Some(Time::from_millis(20)));
//!
//! coordinator.handle(Time::from_millis(20), Event::Woke)?;
//! let Some(Effect::Trigger { task, barrier }) = coordinator.poll() else { panic!() };
//! assert_eq!(task, source, "the sink gets the barrier from the source");
//!
//! for task in [source, sink] {
//!     coordinator.handle(Time::from_millis(25), Event::Acked {
//!         generation: attempt.generation,
//!         checkpoint: barrier.checkpoint,
//!         task,
//!         part: format!("files of {task}"),
//!         stats: TaskStats::default(),
//!     })?;
//! }
//! let Some(Effect::Decide(decision)) = coordinator.poll() else { panic!() };
//! assert_eq!(decision.reports.len(), 2);
//!
//! // … the driver appends the decision to its log …
//! let checkpoint = decision.barrier.checkpoint;
//! coordinator.handle(Time::from_millis(27), Event::Decided { checkpoint })?;
//! assert!(matches!(coordinator.poll(), Some(Effect::NotifyComplete { .. })));
//! # Ok::<(), cutwater_barrier::coordinate::CoordinateError>(())
//! ```

mod begin;
mod config;
mod coordinator;
mod end;
mod failures;
mod message;
mod pending;
mod plan;
mod reason;
mod requests;
mod schedule;
mod tasks;

pub use config::{Attempt, Config};
pub use coordinator::Coordinator;
pub use message::{Decision, Effect, Event, Report};
pub use plan::{Plan, TaskId};
pub use reason::{Abort, CoordinateError, Decline, JobFailure, NotDurable, Refusal};
pub use requests::{Request, RequestId};
