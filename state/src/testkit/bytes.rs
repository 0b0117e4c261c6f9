//! The exam of a byte backend, and the simplest backend that passes it.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    ops::{Bound, ControlFlow, Range},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use cutwater_keygroups::{KeyGroup, KeyGroupRange};

use super::{Random, rescaling_keeps_each_key_once, snapshots_are_cuts_in_time};
use crate::{
    Backend, BoxError, ByteBackend, EachRow, Ingest, IsExpired, NewFile, OldRows, Restored, Rows,
    RowsCheckpoint, RowsFile, SnapshotTask, Store,
};

/// Runs everything there is to run with a byte backend: its own contract, and keyed states in it.
///
/// `open` is called for backends with so many bytes of memory for rows; with few of them, rows are evicted and flushed
/// all the time.
///
/// ```no_run
/// use cutwater_state::testkit::{self, SortedRows};
///
/// testkit::byte_backend_conforms(SortedRows::new);
/// ```
pub fn byte_backend_conforms<B: ByteBackend>(mut open: impl FnMut(u64) -> B) {
    let backend = open(1 << 20);
    rows_are_what_was_ingested(&backend);
    checkpoints_are_cuts_in_time(&backend);
    stores_are_put_together_by_key_group(&backend);
    what_expires_may_go_and_the_rest_stays(&backend);
    for (seed, memory) in [(1, 64 << 20), (2, 300_000), (3, 60_000)] {
        let backend = Backend::rows(open(memory));
        let mut kept = Kept::default();
        let mut store = |task| kept.run(task);
        snapshots_are_cuts_in_time(seed, &backend, &mut store);
        rescaling_keeps_each_key_once(seed, &backend, &mut store);
    }
}

/// Files by name, as a driver keeps them: none is ever given other bytes.
#[derive(Default)]
struct Kept(BTreeMap<String, Arc<Vec<u8>>>);

impl Kept {
    fn run(&mut self, task: SnapshotTask) -> Restored {
        let snapshot = task.run(self).expect("writing to memory");
        let names = snapshot.files.into_iter();
        let files: BTreeMap<_, _> = names
            .map(|n| (n.clone(), Arc::clone(&self.0[&n])))
            .collect();
        Restored::new(snapshot.manifest, move |name: &str, range: Range<u64>| {
            let range = usize::try_from(range.start)?..usize::try_from(range.end)?;
            let file = files.get(name).ok_or("no such file")?;
            Ok(file.get(range).ok_or("past the end of the file")?.to_vec())
        })
    }
}

impl Store for Kept {
    fn store(&mut self, file: NewFile) -> Result<(), BoxError> {
        let bytes = Arc::new(file.content.into_bytes()?);
        if let Some(before) = self.0.insert(file.name.clone(), Arc::clone(&bytes)) {
            assert!(before == bytes, "`{}` names two files", file.name);
        }
        Ok(())
    }

    fn reuse(&mut self, name: &str) -> Result<bool, BoxError> {
        Ok(self.0.contains_key(name))
    }
}

type Sorted = BTreeMap<Vec<u8>, Vec<u8>>;

const GROUPS: KeyGroupRange = KeyGroupRange::new(0, 8);

/// A store whose rows do not expire.
fn open_store(backend: &impl ByteBackend, groups: KeyGroupRange, old: &[OldRows]) -> Box<dyn Rows> {
    let opened = backend.open("exam", groups, old, Arc::new(|_, _| false));
    opened.unwrap()
}

/// Random batches: looked up and scanned, they are what a map of the standard library has.
fn rows_are_what_was_ingested(backend: &impl ByteBackend) {
    let rows = open_store(backend, GROUPS, &[]);
    let mut random = Random(1);
    let mut reference = Sorted::new();
    for round in 0..20 {
        ingest(&*rows, &mut reference, random_batch(&mut random));
        if round % 5 == 0 {
            let mut batch = rows.ingest().unwrap();
            batch.put(&key(1, 1), b"given up").unwrap();
            drop(batch);
        }
        check(&*rows, GROUPS, &reference, &mut random);
    }
    let mut seen = 0;
    let stop = rows.scan(&[0], &[0xff], &mut |_, _| {
        seen += 1;
        if seen == 3 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    stop.unwrap();
    assert_eq!(seen, 3, "a scan stops when it is told to");
}

/// Checkpoints stay what they were, also when the store is gone, and files of the same name are the same.
fn checkpoints_are_cuts_in_time(backend: &impl ByteBackend) {
    let rows = open_store(backend, GROUPS, &[]);
    let mut random = Random(2);
    let mut reference = Sorted::new();
    let mut taken = Vec::new();
    let mut files = BTreeMap::<String, Vec<u8>>::new();
    for _ in 0..5 {
        ingest(&*rows, &mut reference, random_batch(&mut random));
        taken.push((rows.checkpoint().unwrap(), reference.clone()));
    }
    drop(rows);
    for (checkpoint, reference) in taken {
        assert_eq!(
            scanned(|each| checkpoint.scan(&[0], &[0xff], each)),
            reference
        );
        for (file, bytes) in contents(&*checkpoint) {
            assert_eq!(file.length, bytes.len() as u64, "{}", file.name);
            if let Some(before) = files.insert(file.name.clone(), bytes.clone()) {
                assert!(before == bytes, "`{}` names two files", file.name);
            }
        }
        let rows = open_store(backend, GROUPS, &[old(&*checkpoint, GROUPS)]);
        check(&*rows, GROUPS, &reference, &mut random);
    }
}

/// Several old stores in one, of some with a part of their groups only; none of the other rows comes back.
fn stores_are_put_together_by_key_group(backend: &impl ByteBackend) {
    let mut random = Random(3);
    let mut stores: Vec<(KeyGroupRange, Box<dyn Rows>, Sorted)> = Vec::new();
    let rows = open_store(backend, GROUPS, &[]);
    stores.push((GROUPS, rows, Sorted::new()));
    for parallelism in [3, 2, 5, 1, 4, 7, 1] {
        for (groups, rows, reference) in &mut stores {
            let mut batch = random_batch(&mut random);
            let owned =
                |key: &[u8]| groups.contains(KeyGroup::new(u16::from_be_bytes([key[0], key[1]])));
            batch.retain(|key, _| owned(key));
            ingest(&**rows, reference, batch);
            check(&**rows, *groups, reference, &mut random);
        }
        let taken: Vec<_> = stores
            .iter()
            .map(|(groups, rows, reference)| {
                (*groups, rows.checkpoint().unwrap(), reference.clone())
            })
            .collect();
        stores = (0..parallelism)
            .map(|n| {
                let groups = KeyGroupRange::new(8 * n / parallelism, 8 * (n + 1) / parallelism);
                let (mut olds, mut reference) = (Vec::new(), Sorted::new());
                for (old_groups, checkpoint, rows) in &taken {
                    let shared = old_groups.intersection(groups);
                    if shared.is_empty() {
                        continue;
                    }
                    olds.push(old(&**checkpoint, shared));
                    let (from, to) = (shared.start().to_be_bytes(), shared.end().to_be_bytes());
                    let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
                    let rows = rows.range::<[u8], _>(range);
                    reference.extend(rows.map(|(k, v)| (k.clone(), v.clone())));
                }
                let rows = open_store(backend, groups, &olds);
                check(&*rows, groups, &reference, &mut random);
                (groups, rows, reference)
            })
            .collect();
    }
}

/// Rows that have expired are as they were, or gone; others are not touched. Nothing expires at first.
fn what_expires_may_go_and_the_rest_stays(backend: &impl ByteBackend) {
    let is_late = Arc::new(AtomicBool::new(false));
    let expires = |key: &[u8]| key.last().is_some_and(|byte| byte % 2 == 1);
    let is_expired = {
        let is_late = Arc::clone(&is_late);
        move |key: &[u8], _: &[u8]| is_late.load(Ordering::Relaxed) && expires(key)
    };
    let opened = backend.open("exam", GROUPS, &[], Arc::new(is_expired));
    let rows = opened.unwrap();
    let mut random = Random(4);
    let mut reference = Sorted::new();
    for round in 0..20 {
        ingest(&*rows, &mut reference, random_batch(&mut random));
        let checkpoint = rows.checkpoint().unwrap();
        let there = scanned(|each| checkpoint.scan(&[0], &[0xff], each));
        if round < 10 {
            assert_eq!(there, reference);
        } else {
            is_late.store(true, Ordering::Relaxed);
            assert!(there.iter().all(|(k, v)| reference.get(k) == Some(v)));
            let mut stay = reference.keys().filter(|key| !expires(key));
            assert!(stay.all(|key| there.contains_key(key)));
        }
    }
}

fn key(group: u16, n: u64) -> Vec<u8> {
    let mut key = group.to_be_bytes().to_vec();
    key.extend(&n.to_be_bytes()[usize::from(n < 1 << 32) * 3..]);
    key
}

/// Values by key; none: to be deleted.
fn random_batch(random: &mut Random) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    let many = random.below(400);
    let row = |_| {
        let group = u16::try_from(random.below(8)).unwrap();
        let key = key(group, random.below(300));
        let value = (random.below(4) > 0).then(|| vec![7; random.index(40)]);
        (key, value)
    };
    (0..many).map(row).collect()
}

fn ingest(rows: &dyn Rows, reference: &mut Sorted, batch: BTreeMap<Vec<u8>, Option<Vec<u8>>>) {
    let mut ingest = rows.ingest().unwrap();
    for (key, value) in &batch {
        match value {
            Some(value) => ingest.put(key, value).unwrap(),
            None => ingest.delete(key).unwrap(),
        }
    }
    ingest.finish().unwrap();
    for (key, value) in batch {
        match value {
            Some(value) => drop(reference.insert(key, value)),
            None => drop(reference.remove(&key)),
        }
    }
}

fn check(rows: &dyn Rows, groups: KeyGroupRange, reference: &Sorted, random: &mut Random) {
    let found = scanned(|each| rows.scan(&[0], &[0xff], each));
    assert!(
        found == *reference,
        "what is scanned is not what was ingested"
    );
    let mut keys: Vec<_> = reference.keys().cloned().collect();
    let asked = (groups.start()..groups.end()).flat_map(|group| {
        let mut key = || key(group, random.below(600));
        [key(), key(), key(), key(), key()]
    });
    keys.extend(asked);
    keys.sort();
    keys.dedup();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut found = Sorted::new();
    let mut last = None;
    rows.get_many(&keys, &mut |number, value| {
        assert!(last < Some(number), "in order, each once");
        last = Some(number);
        found.insert(keys[number].to_vec(), value.to_vec());
    })
    .unwrap();
    assert!(
        found == *reference,
        "what is looked up is not what was ingested"
    );
}

fn scanned(scan: impl FnOnce(&mut EachRow<'_>) -> Result<(), BoxError>) -> Sorted {
    let mut found = Sorted::new();
    let result = scan(&mut |key, value| {
        let after_all = found.last_key_value().is_none_or(|(last, _)| **last < *key);
        assert!(after_all, "in order, each once");
        found.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    });
    result.unwrap();
    found
}

fn contents(checkpoint: &dyn RowsCheckpoint) -> Vec<(RowsFile, Vec<u8>)> {
    let read = |(number, file): (usize, &RowsFile)| {
        let mut bytes = Vec::new();
        let mut reader = checkpoint.open(number).unwrap();
        reader.read_to_end(&mut bytes).unwrap();
        (file.clone(), bytes)
    };
    checkpoint.files().iter().enumerate().map(read).collect()
}

fn old(checkpoint: &dyn RowsCheckpoint, groups: KeyGroupRange) -> OldRows {
    let contents = contents(checkpoint);
    let files = contents.iter().map(|(file, _)| file.clone()).collect();
    let named = contents.into_iter().map(|(file, bytes)| (file.name, bytes));
    let named: BTreeMap<String, Vec<u8>> = named.collect();
    OldRows::new(groups, files, checkpoint.description(), Arc::new(named))
}

/// A byte backend that keeps its rows in a sorted map of the standard library. For tests.
#[derive(Debug)]
pub struct SortedRows {
    memory: u64,
    /// Names files, as no two stores may give the same name.
    next: Arc<AtomicU64>,
}

impl SortedRows {
    /// A backend that leaves so many bytes of memory to the row caches.
    pub fn new(memory: u64) -> Self {
        static NEXT: Mutex<Option<Arc<AtomicU64>>> = Mutex::new(None);
        let next = Arc::clone(lock(&NEXT).get_or_insert_default());
        Self { memory, next }
    }
}

impl ByteBackend for SortedRows {
    fn name(&self) -> &'static str {
        "sorted-rows"
    }

    fn memory(&self) -> u64 {
        self.memory
    }

    fn open(
        &self,
        _uid: &str,
        _groups: KeyGroupRange,
        old: &[OldRows],
        is_expired: IsExpired,
    ) -> Result<Box<dyn Rows>, BoxError> {
        let mut rows = Sorted::new();
        for old in old {
            for file in &old.files {
                let bytes = old.read.read(&file.name, 0..file.length)?;
                let mut all: Sorted = postcard::from_bytes(&bytes)?;
                let mut mine = all.split_off(&old.groups.start().to_be_bytes()[..]);
                mine.split_off(&old.groups.end().to_be_bytes()[..]);
                rows.extend(mine);
            }
        }
        Ok(Box::new(SortedStore {
            rows: Mutex::new(Arc::new(rows)),
            next: Arc::clone(&self.next),
            is_expired,
        }))
    }
}

struct SortedStore {
    /// Shared with checkpoints.
    rows: Mutex<Arc<Sorted>>,
    next: Arc<AtomicU64>,
    is_expired: IsExpired,
}

impl Rows for SortedStore {
    fn get_many(
        &self,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), BoxError> {
        let rows = lock(&self.rows);
        for (number, key) in keys.iter().enumerate() {
            if let Some(value) = rows.get(*key) {
                found(number, value);
            }
        }
        Ok(())
    }

    fn ingest(&self) -> Result<Box<dyn Ingest + '_>, BoxError> {
        Ok(Box::new(SortedBatch {
            store: self,
            changes: Vec::new(),
        }))
    }

    fn scan(&self, from: &[u8], to: &[u8], each: &mut EachRow<'_>) -> Result<(), BoxError> {
        let rows = Arc::clone(&lock(&self.rows));
        scan(&rows, from, to, each);
        Ok(())
    }

    fn checkpoint(&self) -> Result<Box<dyn RowsCheckpoint>, BoxError> {
        let rows = Arc::clone(&lock(&self.rows));
        let bytes = postcard::to_stdvec(&*rows)?;
        let name = format!("rows-{}", self.next.fetch_add(1, Ordering::Relaxed));
        Ok(Box::new(SortedCheckpoint {
            files: [RowsFile::new(name, bytes.len() as u64)],
            bytes,
            rows,
        }))
    }
}

struct SortedBatch<'a> {
    store: &'a SortedStore,
    changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl SortedBatch<'_> {
    fn change(&mut self, key: &[u8], value: Option<&[u8]>) {
        let last = self.changes.last();
        let is_after = last.is_none_or(|(last, _)| **last < *key);
        assert!(is_after, "rows come in strictly rising order");
        self.changes.push((key.to_vec(), value.map(<[u8]>::to_vec)));
    }
}

impl Ingest for SortedBatch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BoxError> {
        self.change(key, Some(value));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), BoxError> {
        self.change(key, None);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), BoxError> {
        let mut rows = lock(&self.store.rows);
        let rows = Arc::make_mut(&mut rows);
        for (key, value) in self.changes {
            match value {
                Some(value) => drop(rows.insert(key, value)),
                None => drop(rows.remove(&key)),
            }
        }
        rows.retain(|key, value| !(self.store.is_expired)(key, value));
        Ok(())
    }
}

struct SortedCheckpoint {
    files: [RowsFile; 1],
    bytes: Vec<u8>,
    rows: Arc<Sorted>,
}

impl RowsCheckpoint for SortedCheckpoint {
    fn files(&self) -> &[RowsFile] {
        &self.files
    }

    fn open(&self, _: usize) -> Result<Box<dyn Read + Send>, BoxError> {
        Ok(Box::new(io::Cursor::new(self.bytes.clone())))
    }

    fn description(&self) -> Vec<u8> {
        Vec::new()
    }

    fn scan(&self, from: &[u8], to: &[u8], each: &mut EachRow<'_>) -> Result<(), BoxError> {
        scan(&self.rows, from, to, each);
        Ok(())
    }
}

fn scan(rows: &Sorted, from: &[u8], to: &[u8], each: &mut EachRow<'_>) {
    let range = (Bound::Included(from), Bound::Excluded(to));
    for (key, value) in rows.range::<[u8], _>(range) {
        if each(key, value).is_break() {
            break;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
