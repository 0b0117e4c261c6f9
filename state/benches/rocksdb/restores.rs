//! Restores and rescales from files on a local disk, beside reading the files.
//!
//! Files are read from the disk each time, not from the system's page cache.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom, Write},
    marker::PhantomData,
    ops::Range,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use cutwater_barrier::CheckpointId;
use cutwater_keygroups::{Key, KeyGroupRange};
use cutwater_state::{
    Backend, BoxError, Data, Keyed, KeyedStates, NewFile, Restored, Snapshot, Store,
    rocksdb::{RocksDb, RocksOptions},
};
use rustix::fs::{Advice, fadvise};

use crate::{
    MAX,
    common::{discard, median},
    open, options,
};

const ROUNDS: usize = 5;

/// For so long some rows change, with a checkpoint after each hundredth of them.
const SETTLING: Duration = Duration::from_secs(10);

pub(crate) fn run(keys: u64) {
    println!("\nrestore | files | time | MB/s | of one alone");
    let folder = tempfile::tempdir().unwrap();
    let rocksdb = |databases_max| {
        let mut options: RocksOptions = options(keys * 6 + (64 << 20));
        options.databases_max = databases_max;
        Backend::rows(RocksDb::new(folder.path().join("state"), options).unwrap())
    };
    let files = |name: &str| {
        let files = folder.path().join(name);
        fs::create_dir(&files).unwrap();
        files
    };
    let (memory, by_file, copied) = (Backend::memory(), rocksdb(4), rocksdb(1));
    let small = |_| 1_i64;
    // 100 bytes, as postcard writes them.
    let large = |key| (u64::MAX, [u64::from(u32::MAX) << 24 | key; 11], 1_u32 << 10);
    Restores::new(&memory, &files("1"), keys, small).run("memory", "");
    Restores::new(&memory, &files("2"), keys, large).run("memory, 100-byte values", "");
    let sides = ", databases side by side";
    Restores::new(&by_file, &files("3"), keys, small).run("rocksdb", sides);
    Restores::new(&by_file, &files("4"), keys, large).run("rocksdb, 100-byte values", sides);
    Restores::new(&copied, &files("5"), keys, small).run("rocksdb", ", copied together");
}

/// What two subtasks stored, to be restored by as many, or more.
struct Restores<'a, V> {
    backend: &'a Backend,
    files: &'a Path,
    old: Vec<Restored>,
    value: PhantomData<fn() -> V>,
}

impl<'a, V: Data> Restores<'a, V> {
    fn new(backend: &'a Backend, files: &'a Path, keys: u64, value: impl Fn(u64) -> V) -> Self {
        let old = [(0, 64), (64, 128)].map(|(start, end)| {
            let groups = KeyGroupRange::new(start, end);
            let (mut states, state) = open::<V>(backend, groups, []);
            let mine = |key: &u64| {
                let group = u64::GROUPING.group(key.key_hash(), MAX).get();
                (start..end).contains(&group)
            };
            let put = |states: &mut KeyedStates<u64>, first, step| {
                for key in (first..keys).step_by(step).filter(mine) {
                    states[state].put(Keyed::new(&key), value(key)).unwrap();
                }
            };
            put(&mut states, 0, 1);
            // As after some time: most rows have come to rest in the last level.
            let mut checkpoints = (1..).map(CheckpointId::new);
            let begin = Instant::now();
            for round in 0.. {
                if begin.elapsed() > SETTLING {
                    break;
                }
                let checkpoint = checkpoints.next().expect("there are enough");
                discard(states.snapshot(checkpoint));
                put(&mut states, round % 100, 100);
            }
            let task = states.snapshot(checkpoints.next().expect("there are enough"));
            restored(files, &task.run(&mut Files(files)).unwrap())
        });
        Self {
            backend,
            files,
            old: old.into(),
            value: PhantomData,
        }
    }

    fn run(&self, name: &str, how: &str) {
        let (two, three) = ([(0, 64), (64, 128)], [(0, 43), (43, 86), (86, 128)]);
        let (mut reading, mut both, mut plain, mut more) = (vec![], vec![], vec![], vec![]);
        let mut bytes = 0;
        for _ in 0..ROUNDS {
            reading.push(self.timed(|| bytes = self.read()));
            both.push(self.timed(|| {
                thread::scope(|scope| {
                    let restores = two.map(|subtask| scope.spawn(move || self.restore(subtask)));
                    restores.map(|restore| restore.join().unwrap())
                })
            }));
            plain.push(self.slowest(&two));
            more.push(self.slowest(&three));
        }
        let (all, plain) = (bytes as f64 / 1e6, median(plain));
        let line = |what: &str, files: f64, time: f64| {
            let (ms, rate, ratio) = (time * 1e3, files / time, time / plain);
            println!("{name}, {what} | {files:.0} MB | {ms:.0} ms | {rate:.0} | {ratio:.2}");
        };
        line("reading all files", all, median(reading));
        line("2 restored by 2, at once", all, median(both));
        line("one of them alone", all / 2.0, plain);
        line(
            &format!("2 restored by 3{how}, the slowest alone"),
            all / 2.0,
            median(more),
        );
    }

    /// Seconds that it takes, with nothing of the files in the system's page cache. What it makes is freed after that.
    fn timed<T>(&self, work: impl FnOnce() -> T) -> f64 {
        self.evict();
        let begin = Instant::now();
        let _made = work();
        begin.elapsed().as_secs_f64()
    }

    /// Each restores for itself, one after the other.
    fn slowest(&self, subtasks: &[(u16, u16)]) -> f64 {
        let times = subtasks
            .iter()
            .map(|subtask| self.timed(|| self.restore(*subtask)));
        times.fold(0.0, f64::max)
    }

    fn restore(&self, (start, end): (u16, u16)) -> KeyedStates<u64> {
        let groups = KeyGroupRange::new(start, end);
        let (mut states, state) = open::<V>(self.backend, groups, self.old.iter().cloned());
        let _one_row_of_any_group = states.get(state, Keyed::new(&1));
        states
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
        let length = range.end - range.start;
        let mut bytes = Vec::with_capacity(usize::try_from(length)?);
        let mut file = File::open(folder.join(name))?;
        file.seek(SeekFrom::Start(range.start))?;
        file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    })
}
