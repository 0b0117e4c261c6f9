//! Schedules drawn from a seed: several coordinators, crashes, lost replies. `SIM_SEED=42` runs one.

use std::env;

use cutwater_storage::testkit::{FaultyBlobs, Stepped};

use crate::{coordinator::coordinate, process::Process, world::World};

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }
}

#[test]
fn any_schedule_of_coordinators_crashes_and_lost_replies() {
    let seeds = match env::var("SIM_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..300).collect::<Vec<u64>>(),
    };
    let (mut sunk, mut terms) = (0, 0);
    for seed in seeds {
        let world = World::new();
        let mut random = Random(seed);
        let faults_of_1000 = [0, 20, 100][random.below(3)];
        let crashes_of_1000 = [0, 5, 30][random.below(3)];
        let start = |process: u64, random: &mut Random| {
            let blobs = FaultyBlobs::new(Stepped(world.blobs.clone()));
            blobs
                .faults()
                .fail_randomly(seed ^ process << 32, faults_of_1000);
            let checkpoints = random.below(8) as u64;
            Process::new(coordinate(blobs, process, checkpoints, world.clone()))
        };
        let mut started = 0;
        let mut processes: Vec<_> = Vec::new();
        for _ in 0..3000 {
            processes.retain(Process::is_running);
            if processes.is_empty() || (processes.len() < 3 && random.below(100) == 0) {
                if started == 8 {
                    break;
                }
                started += 1;
                processes.push(start(started, &mut random));
            }
            let who = random.below(processes.len());
            // Often the same one for a while: a step each would let nobody get anywhere.
            for _ in 0..=random.below(30) {
                processes[who].step();
            }
            if random.below(1000) < crashes_of_1000 {
                processes[who].crash();
            }
        }
        drop(processes);
        world.check(&format!("SIM_SEED={seed}"));
        sunk += world.sunk();
        terms += started;
    }
    eprintln!("{terms} coordinators carried out {sunk} checkpoints");
}
