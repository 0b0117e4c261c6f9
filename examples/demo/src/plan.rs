//! What a seed decides: in which window each run is killed, and how far into the input.
//!
//! Invariant: each window has exactly one kill, kills come in the order of the input and leave each
//! run a part of it, and no run has the parallelism of the one before.

use crate::halt::{Halt, Window};

/// Subtasks of each run. All but the last run are killed.
pub(crate) const PARALLELISM: [u16; 5] = [2, 3, 1, 4, 2];

/// One run of the job in a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) parallelism: u16,
    /// `None`: it runs to the end of the input.
    pub(crate) halt: Option<Halt>,
}

/// The runs over `records` records that `seed` decides.
pub(crate) fn runs(seed: u64, records: u64) -> [Planned; PARALLELISM.len()] {
    let mut random = SplitMix64(seed);
    let mut windows = Window::ALL;
    for last in (1..windows.len()).rev() {
        // Fisher–Yates. Below the length of an array, so it fits.
        windows.swap(last, random.below(last as u64 + 1) as usize);
    }
    let share = records / PARALLELISM.len() as u64;
    let mut after = 0;
    std::array::from_fn(|number| {
        let halt = windows.get(number).map(|&window| {
            // In the second half of the run's share: a run that is killed soon shows little.
            let into_share = share / 2 + random.below(share / 2 + 1);
            let halt = Halt {
                window,
                records: after + into_share,
            };
            after += share;
            halt
        });
        Planned {
            parallelism: PARALLELISM[number],
            halt,
        }
    })
}

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014), figure 17 with
/// the constants of `java.util.SplittableRandom`.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is small: the bias of a remainder does not matter here.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

#[cfg(test)]
mod tests {
    use super::{PARALLELISM, SplitMix64, Window, runs};

    #[test]
    fn the_generator_is_the_published_one() {
        let mut random = SplitMix64(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn every_seed_kills_once_in_every_window_and_moves_on() {
        for seed in 0..1000 {
            for records in [0, 7, 27_004] {
                let runs = runs(seed, records);
                let halts: Vec<_> = runs.iter().filter_map(|run| run.halt).collect();
                assert_eq!(halts.len(), PARALLELISM.len() - 1, "seed {seed}");
                for window in Window::ALL {
                    let kills = halts.iter().filter(|halt| halt.window == window);
                    assert_eq!(kills.count(), 1, "seed {seed}, {window}");
                }
                assert!(halts.is_sorted_by_key(|halt| halt.records), "seed {seed}");
                assert!(runs[4].halt.is_none(), "seed {seed}");
            }
        }
    }

    #[test]
    fn another_seed_is_another_plan() {
        assert_eq!(runs(1, 27_004), runs(1, 27_004));
        assert_ne!(runs(1, 27_004), runs(2, 27_004));
    }

    #[test]
    fn each_restart_has_another_parallelism() {
        assert!(PARALLELISM.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
