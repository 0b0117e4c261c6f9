//! The stated bounds, under any changes.
#![expect(clippy::cast_possible_truncation, reason = "they are small numbers")]

use super::*;

const FILE: u64 = FILE_BYTES as u64;

/// What a task and its snapshots do to images, without tables and bytes.
struct Simulation {
    images: Images,
    blocks: Vec<u64>,
    random: u64,
    /// Blocks that could not be moved as they were being changed.
    missed: BTreeSet<usize>,
}

impl Simulation {
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn id(number: usize) -> BlockId {
        BlockId {
            group: 0,
            number: number as u32,
        }
    }

    fn new(seed: u64) -> Self {
        Self {
            images: Images::default(),
            blocks: Vec::new(),
            random: seed * 0x9e37_79b9,
            missed: BTreeSet::new(),
        }
    }

    /// A snapshot after these blocks were changed; returns how many bytes it stored.
    fn snapshot(&mut self, changed: &BTreeSet<usize>) -> u64 {
        let ids: Vec<_> = changed.iter().map(|n| Self::id(*n)).collect();
        let dead = self.images.outdate(0, &ids);
        let emptied = self.images.to_empty(dead);
        let mut stored: Vec<_> = ids;
        for block in self.images.blocks_in(0, &emptied) {
            if self.random(10) == 0 {
                self.missed.insert(block.number as usize);
            } else {
                stored.push(block);
            }
        }
        let images: Vec<_> = stored
            .iter()
            .map(|block| (0, *block, self.blocks[block.number as usize]))
            .collect();
        let (mut bytes, mut length, mut file) = (0, 0, Vec::new());
        for image in images {
            length += image.2 + INDEXED_BYTES;
            file.push(image);
            if length >= FILE {
                bytes += std::mem::take(&mut length);
                self.add(std::mem::take(&mut file));
            }
        }
        self.add(file);
        bytes + length
    }

    fn add(&mut self, images: Vec<(usize, BlockId, u64)>) {
        let length = images.iter().map(|image| image.2 + INDEXED_BYTES).sum();
        let name = format!("{}", self.images.next_file());
        let index = Index {
            offset: 0,
            crc32c: 0,
        };
        if length > 0 {
            self.images
                .add(format::File { name, length }, index, images);
        }
    }

    fn check(&self, what: &str) {
        let count: Vec<u64> = self.blocks.iter().map(|b| b + INDEXED_BYTES).collect();
        let live: u64 = count.iter().sum();
        assert_eq!(self.images.live(), live, "{what}: each block counts once");
        let named: u64 = self.images.files().map(|file| file.length).sum();
        assert!(
            named <= 3 * live + 4 * FILE,
            "{what}: {named} bytes named for {live} that count"
        );
        let files = self.images.files().count() as u64;
        let files_max = FILES_MIN + 2 * live / FILE;
        assert!(files <= files_max + 2, "{what}: {files} files");
    }
}

/// States of up to 80 MB, with changes that are rare or frequent, here or there, of growing and shrinking blocks.
#[test]
fn a_snapshot_names_at_most_three_times_what_counts() {
    for seed in 1..25 {
        let mut run = Simulation::new(seed);
        let count = [3, 100, 5_000, 20_000][seed as usize % 4];
        run.blocks = vec![4000; count];
        let all = (0..count).collect();
        run.snapshot(&all);
        for round in 0..90 {
            let mut changed = std::mem::take(&mut run.missed);
            let few = run.random(count as u64 / 3 + 2);
            let from = run.random(count as u64);
            for _ in 0..few {
                let number = match seed % 3 {
                    0 => run.random(count as u64),
                    1 => (from + run.random(few)) % count as u64,
                    _ => run.random(count as u64 / 5 + 1), // the rest never changes
                };
                changed.insert(number as usize);
            }
            for number in &changed {
                run.blocks[*number] = match round / 30 {
                    1 => 0, // keys go
                    _ => 2000 + run.random(4000),
                };
            }
            let bytes: u64 = changed.iter().map(|n| run.blocks[*n] + INDEXED_BYTES).sum();
            let before = run.images.live();
            let stored = run.snapshot(&changed);
            let dead = before + bytes - run.images.live();
            assert!(
                stored <= bytes + MOVED_PER_DEAD * dead + FILE,
                "seed {seed}"
            );
            run.check(&format!("seed {seed}, round {round}"));
        }
    }
}

/// A state that grows by a block each time, and never changes one: every file stays whole.
#[test]
fn small_files_are_put_together_when_there_are_too_many() {
    let mut run = Simulation::new(1);
    for round in 0..500 {
        let mut changed = std::mem::take(&mut run.missed);
        changed.insert(run.blocks.len());
        run.blocks.push(4000);
        run.snapshot(&changed);
        run.check(&format!("round {round}"));
    }
}
