//! Restores and rescales from files on a local disk, beside reading the files.
//!
//! Files are read from the disk each time, not from the system's page cache.

use std::{
    fs::{self, File},
    io::{Read, Write},
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::KeyGroupRange;
use cutwater_state::{
    Backend, BoxError, Keyed, NewFile, Restored, Snapshot, Store,
    rocksdb::{RocksDb, RocksOptions},
};
use rustix::fs::{Advice, fadvise};

use crate::{
    common::{discard, median},
    open, options,
};

const ROUNDS: usize = 5;

/// For so long some rows change, with a checkpoint after each hundredth of them.
const SETTLING: Duration = Duration::from_secs(10);

pub(crate) fn run(keys: u64) {
    println!(
        "\nrestore, the slowest subtask's time | files | time | MB/s | of a plain restore's time"
    );
    let folder = tempfile::tempdir().unwrap();
    let rocksdb = |databases_max| {
        let mut options: RocksOptions = options(keys * 6 + (64 << 20));
        options.databases_max = databases_max;
        Backend::rows(RocksDb::new(folder.path().join("state"), options).unwrap())
    };
    let backends = [
        ("memory", "", Backend::memory()),
        ("rocksdb", ", databases side by side", rocksdb(4)),
        ("rocksdb", ", copied together", rocksdb(1)),
    ];
    for (name, how, backend) in backends {
        let files = folder.path().join(format!("{name}{}", how.len()));
        fs::create_dir(&files).unwrap();
        Restores::new(&backend, &files, keys).run(name, how);
    }
}

/// What two subtasks stored, to be restored by as many, or more.
struct Restores<'a> {
    backend: &'a Backend,
    files: &'a Path,
    old: Vec<Restored>,
}

impl<'a> Restores<'a> {
    fn new(backend: &'a Backend, files: &'a Path, keys: u64) -> Self {
        let old = [(0, 64), (64, 128)].map(|(start, end)| {
            let groups = KeyGroupRange::new(start, end);
            let (mut states, total) = open(backend, groups, []);
            for key in 0..keys {
                let _of_the_other = states[total].put(Keyed::new(&key), 1);
            }
            // As after some time: most rows have come to rest in the last level.
            let mut checkpoints = (1..).map(CheckpointId::new);
            let begin = Instant::now();
            for round in 0.. {
                if begin.elapsed() > SETTLING {
                    break;
                }
                let checkpoint = checkpoints.next().expect("there are enough");
                discard(states.snapshot(checkpoint));
                for key in (round % 100..keys).step_by(100) {
                    let _of_the_other = states[total].put(Keyed::new(&key), 2);
                }
            }
            let task = states.snapshot(checkpoints.next().expect("there are enough"));
            restored(files, &task.run(&mut Files(files)).unwrap())
        });
        Self {
            backend,
            files,
            old: old.into(),
        }
    }

    fn run(&self, name: &str, how: &str) {
        let three = [(0, 43), (43, 86), (86, 128)];
        let (mut reading, mut plain, mut more) = (Vec::new(), Vec::new(), Vec::new());
        let mut bytes = 0;
        for _ in 0..ROUNDS {
            self.evict();
            let start = Instant::now();
            bytes = self.read();
            reading.push(start.elapsed().as_secs_f64() / 2.0);
            plain.push(self.slowest(&[(0, 64), (64, 128)]));
            more.push(self.slowest(&three));
        }
        let half = bytes as f64 / 2e6;
        let (reading, plain, more) = (median(reading), median(plain), median(more));
        let line = |what: &str, time: f64| {
            let (ms, rate, ratio) = (time * 1e3, half / time, time / plain);
            println!("{name}, {what} | {half:.0} MB | {ms:.0} ms | {rate:.0} | {ratio:.2}");
        };
        line("reading the files of one of two", reading);
        line("2 restored by 2", plain);
        line(&format!("2 restored by 3{how}"), more);
    }

    /// Each restores for itself, one after the other.
    fn slowest(&self, subtasks: &[(u16, u16)]) -> f64 {
        let restore = |&(start, end): &(u16, u16)| {
            self.evict();
            let begin = Instant::now();
            let groups = KeyGroupRange::new(start, end);
            let (mut states, total) = open(self.backend, groups, self.old.iter().cloned());
            let _one_row_of_any_group = states.get(total, Keyed::new(&1));
            begin.elapsed().as_secs_f64()
        };
        subtasks.iter().map(restore).fold(0.0, f64::max)
    }

    /// Makes the system forget what is in the files.
    fn evict(&self) {
        for file in fs::read_dir(self.files).unwrap() {
            let file = File::open(file.unwrap().path()).unwrap();
            file.sync_all().unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        }
    }

    fn read(&self) -> usize {
        let mut buffer = vec![0; 8 << 20];
        let mut bytes = 0;
        for file in fs::read_dir(self.files).unwrap() {
            let mut file = File::open(file.unwrap().path()).unwrap();
            loop {
                match file.read(&mut buffer).unwrap() {
                    0 => break,
                    read => bytes += read,
                }
            }
        }
        bytes
    }
}

/// A folder of files, as a store on a local disk.
struct Files<'a>(&'a Path);

impl Store for Files<'_> {
    fn store(&mut self, file: NewFile) -> Result<(), BoxError> {
        let mut out = File::create(self.0.join(&file.name))?;
        for piece in file.content {
            out.write_all(&piece?)?;
        }
        Ok(())
    }

    fn reuse(&mut self, _: &str) -> Result<bool, BoxError> {
        Ok(true)
    }
}

fn restored(folder: &Path, snapshot: &Snapshot) -> Restored {
    let folder = folder.to_owned();
    Restored::new(&snapshot.manifest, move |name: &str, range: Range<u64>| {
        let mut bytes = vec![0; usize::try_from(range.end - range.start)?];
        File::open(folder.join(name))?.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes)
    })
}
