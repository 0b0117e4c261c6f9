//! From each state to all that can follow it, each once.

use std::{
    collections::{BTreeSet, VecDeque},
    hash::{Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    rc::Rc,
};

use crate::{
    job::Job,
    world::{Step, World},
};

/// How a state was reached, for the message of a failure.
struct Path {
    step: Step,
    before: Option<Rc<Self>>,
}

#[expect(clippy::print_stdout, reason = "tells what was explored")]
pub(crate) fn explore(name: &str, job: &Job) {
    let start = World::new(job);
    let mut seen = BTreeSet::from([fingerprint(&start)]);
    let mut open = VecDeque::from([(start, None)]);
    let (mut ends, mut edges) = (0_u64, 0_u64);
    while let Some((world, path)) = open.pop_back() {
        let steps = world.steps(job);
        if steps.is_empty() {
            ends += 1;
            let copy = world.clone();
            or_tell(job, name, path.as_ref(), || copy.heal(job));
        }
        for step in steps.into_iter().chain(world.faults(job)) {
            edges += 1;
            let before = path.clone();
            let path = Rc::new(Path { step, before });
            let mut next = world.clone();
            or_tell(job, name, Some(&path), || next.take(job, step));
            if seen.insert(fingerprint(&next)) {
                open.push_back((next, Some(path)));
            }
        }
    }
    println!(
        "{name}, {:?}, {:?}: {} states, {edges} steps, {ends} ends",
        job.mode(),
        job.budget,
        seen.len(),
    );
}

/// Two states with one fingerprint are taken for the same; among a billion states such a pair has a
/// chance of one in 10^20.
pub(crate) fn fingerprint(of: &impl Hash) -> u128 {
    let mut folds = Folds(0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344);
    of.hash(&mut folds);
    u128::from(folds.0) << 64 | u128::from(folds.1)
}

/// Two multiplicative hashes at once: most of the time of an exploration goes here.
struct Folds(u64, u64);

impl Folds {
    fn fold(state: u64, word: u64, by: u64) -> u64 {
        let product = u128::from(state ^ word) * u128::from(by);
        let (low, high) = (product as u64, (product >> 64) as u64);
        low ^ high.rotate_left(23)
    }
}

impl Hasher for Folds {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = Self::fold(self.0, word, 0x9e37_79b9_7f4a_7c15);
        self.1 = Self::fold(self.1.rotate_left(5), word, 0xd6e8_feb8_6659_fd93);
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(byte.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Runs a check; if it fails, prints how its state was reached.
#[expect(clippy::print_stdout, reason = "tells how to get there")]
fn or_tell(job: &Job, name: &str, path: Option<&Rc<Path>>, check: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(check)) {
        let mut steps = Vec::new();
        let mut path = path;
        while let Some(at) = path {
            steps.push(at.step);
            path = at.before.as_ref();
        }
        steps.reverse();
        println!("{name}, {:?}, failed after {steps:?}", job.mode());
        resume_unwind(panic);
    }
}
