//! Processes that sleep while the log goes on and is trimmed, and wake up where they were.

use std::sync::Arc;

use crate::{
    process::Process,
    world::{Event, World},
};

/// Enough checkpoints that the numbers a sleeper knows are trimmed.
const WHILE_ASLEEP: u64 = 12;

/// Puts a process to sleep after so many steps; `false` if it ended before.
fn sleep_after(process: &mut Process, steps: usize) -> bool {
    for _ in 0..steps {
        process.step();
    }
    process.is_running()
}

fn generations(world: &Arc<World>) -> usize {
    let took_over = |event: &Event| matches!(event, Event::TookOver { .. });
    world.events().into_iter().filter(took_over).count()
}

/// DESIGN, "The checkpoint log": an append counts only if the entry before it is there after it.
#[test]
fn a_leader_that_slept_through_the_trimming_of_its_tail_decides_nothing() {
    let mut slept = 0;
    for steps in 0.. {
        let world = World::new();
        let mut sleeper = world.coordinator(1, 3);
        if !sleep_after(&mut sleeper, steps) {
            break;
        }
        world.coordinator(2, WHILE_ASLEEP).finish();
        let by_the_successor = world.sunk();
        sleeper.finish();
        let took_over_late =
            generations(&world) > 1 && matches!(world.events().last(), Some(Event::Sunk { .. }));
        if !took_over_late && generations(&world) == 2 && world.sunk() == by_the_successor {
            slept += 1;
        }
        world.check(&format!("asleep after {steps} steps"));
    }
    assert!(slept > 20, "only {slept} slept as leader");
}

/// The second sleeper must not take the first one's stray entry for the one that it knows.
#[test]
fn two_sleepers_do_not_confirm_each_other() {
    for first in (0..80).step_by(4) {
        for second in (0..60).step_by(3) {
            let world = World::new();
            let mut sleeper = world.coordinator(1, 4);
            sleep_after(&mut sleeper, first);
            let mut contender = world.coordinator(2, 4);
            sleep_after(&mut contender, second);
            world.coordinator(3, WHILE_ASLEEP).finish();
            // Once awake, they take turns.
            while sleeper.is_running() || contender.is_running() {
                sleeper.step();
                contender.step();
            }
            world.check(&format!("asleep after {first} and {second} steps"));
        }
    }
}
