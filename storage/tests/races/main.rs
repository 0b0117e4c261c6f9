//! Coordinators that race, crash, sleep and meet a failing store: nothing is decided twice, and
//! nothing that was decided is lost.
//!
//! Each coordinator is a future; each of its calls to the store is one step. A schedule says whose
//! step is next. What holds after every schedule is in `world.rs`.

mod coordinator;
mod exhaustive;
mod process;
mod seeded;
mod sleepers;
mod world;
