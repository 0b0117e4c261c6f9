//! What goes wrong in one run, and until when.

use crate::random::Random;

/// How likely things go wrong, in percent where nothing else is said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// A message between coordinator and task.
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    /// A task cannot take its part of a checkpoint.
    pub(crate) declined: u64,
    /// Calls to the store that fail, of a thousand; half of them after they took effect.
    pub(crate) store_of_1000: u64,
    /// How many of a thousand steps find the store full.
    pub(crate) full_of_1000: u64,
    /// How many process crashes are power cuts: all processes are gone, and what was not made durable.
    pub(crate) power_cuts: u64,
    /// Calls to the external system whose reply says less than what happened.
    pub(crate) external: u64,
    /// Tasks that are much slower than the others.
    pub(crate) slow: u64,
    /// How many crashes there may be in all.
    pub(crate) crashes_max: u64,
    /// How many of them leave a process behind that does not know that it is replaced.
    pub(crate) zombies: u64,
    /// How many crashes hit a task alone.
    pub(crate) tasks: u64,
    /// Requests for checkpoints, savepoints and stops, of a thousand steps.
    pub(crate) requests_of_1000: u64,
    /// After so many steps, nothing goes wrong any more.
    pub(crate) until: u64,
}

impl Faults {
    pub(crate) fn draw(random: &mut Random) -> Self {
        Self {
            lost: random.pick(&[0, 3, 15]),
            doubled: random.pick(&[0, 3, 15]),
            declined: random.pick(&[0, 2, 10]),
            store_of_1000: random.pick(&[0, 5, 30]),
            full_of_1000: random.pick(&[0, 0, 5]),
            power_cuts: random.pick(&[0, 40]),
            external: random.pick(&[0, 10, 40]),
            slow: random.pick(&[0, 20, 50]),
            crashes_max: random.below(5),
            zombies: random.pick(&[0, 50]),
            tasks: random.pick(&[0, 50]),
            requests_of_1000: random.pick(&[0, 2, 6]),
            until: 300 + random.below(2_000),
        }
    }

    /// Nothing goes wrong.
    pub(crate) const NONE: Self = Self {
        lost: 0,
        doubled: 0,
        declined: 0,
        store_of_1000: 0,
        full_of_1000: 0,
        power_cuts: 0,
        external: 0,
        slow: 0,
        crashes_max: 0,
        zombies: 0,
        tasks: 0,
        requests_of_1000: 0,
        until: 0,
    };
}
