//! Every schedule with two switches, and every third one with three: most races need no more, at
//! the right steps.

use crate::{process::Process, world::World};

/// So many steps of one process at most: a bound to find a stuck one.
const STEPS_MAX: usize = 2000;

/// Runs `switches`: the process, and for how many steps; then everybody to the end, in order. Says
/// whether every switch came before the end of its process.
fn run(processes: &mut [Process], switches: &[(usize, usize)]) -> bool {
    let mut all = true;
    for (who, steps) in switches {
        for _ in 0..*steps {
            all &= processes[*who].is_running();
            processes[*who].step();
        }
    }
    for process in processes {
        process.finish();
    }
    all
}

/// Calls `check` with the schedules of three runs of steps, each of another process than the last,
/// as long as it says that the last one was not yet at its end. Says how many.
fn schedules(processes: usize, mut check: impl FnMut(&[(usize, usize)]) -> bool) -> usize {
    let mut count = 0;
    for first in 0..processes {
        for second in (0..processes).filter(|second| *second != first) {
            for third in (0..processes).filter(|third| *third != second) {
                for steps in 1..STEPS_MAX {
                    let mut within = false;
                    for then in 1..STEPS_MAX {
                        let mut inner = false;
                        for last in (1..STEPS_MAX).step_by(3) {
                            count += 1;
                            if !check(&[(first, steps), (second, then), (third, last)]) {
                                break;
                            }
                            inner = true;
                        }
                        if !inner {
                            break;
                        }
                        within = true;
                    }
                    if !within {
                        break;
                    }
                }
            }
        }
    }
    count
}

#[test]
fn two_coordinators_interleaved_at_every_call() {
    let count = schedules(2, |switches| {
        let world = World::new();
        let mut processes = [world.coordinator(1, 1), world.coordinator(2, 1)];
        let all = run(&mut processes, switches);
        world.check(&format!("{switches:?}"));
        all
    });
    assert!(count > 300, "{count} schedules");
}

#[test]
fn three_coordinators_that_only_take_over_interleaved_at_every_call() {
    let count = schedules(3, |switches| {
        let world = World::new();
        let mut processes = [
            world.coordinator(1, 0),
            world.coordinator(2, 0),
            world.coordinator(3, 0),
        ];
        let all = run(&mut processes, switches);
        world.check(&format!("{switches:?}"));
        all
    });
    assert!(count > 300, "{count} schedules");
}

/// A crash at every call, also of the successor, and also while it deletes.
#[test]
fn a_coordinator_that_crashes_at_any_call_leaves_nothing_wrong() {
    for first in 0..STEPS_MAX {
        let world = World::new();
        let mut process = world.coordinator(1, 5);
        for _ in 0..first {
            process.step();
        }
        let ended = !process.is_running();
        process.crash();
        let successor_ends = |second: usize| {
            let world = World::copy_of(&world);
            let mut successor = world.coordinator(2, 4);
            for _ in 0..second {
                successor.step();
            }
            let ended = !successor.is_running();
            successor.crash();
            world.check(&format!("crash after {first} steps, then after {second}"));
            ended
        };
        // Not at every call of his for each of the first one's, but at all of them over those.
        let mut second = 0;
        while !successor_ends(second) {
            second += 3 + first % 5;
            assert!(second < STEPS_MAX);
        }
        if ended {
            return;
        }
    }
    panic!("a coordinator does not come to its end");
}
