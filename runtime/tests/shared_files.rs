//! Keyed state and the checkpoint store together: which files are stored, shared and deleted.

use std::collections::BTreeSet;

use cutwater_barrier::{CheckpointId, Kind};
use cutwater_keygroups::{Key, KeyGroupRange, MaxParallelism};
use cutwater_state::{BoxError, Handle, Keyed, KeyedStates, NewFile, Restored, Store, ValueState};
use cutwater_storage::{
    Blobs, CheckpointStore, HandleWriter, KeyedHandle, Metadata, Operator, Options, Subtask,
    testkit::MemoryBlobs,
};
use futures::executor::block_on;

const MAX: MaxParallelism = MaxParallelism::new(3).unwrap();
const ALL: KeyGroupRange = KeyGroupRange::new(0, 3);

/// As a driver would: into the checkpoint's directory.
struct Files(HandleWriter);

impl Store for Files {
    fn store(&mut self, file: NewFile) -> Result<(), BoxError> {
        Ok(block_on(self.0.stream(&file.name, file.content))?)
    }

    fn reuse(&mut self, name: &str) -> Result<bool, BoxError> {
        Ok(self.0.reuse(name))
    }
}

/// One operator whose state of each key group is called by a letter of its own.
struct Job {
    blobs: MemoryBlobs,
    store: CheckpointStore,
    states: KeyedStates<u64>,
    value: Handle<ValueState<u64, String>>,
}

impl Job {
    /// Keeps one checkpoint.
    fn new() -> Self {
        let blobs = MemoryBlobs::new();
        let mut options = Options::default();
        options.keep = 1;
        options.inline_max_bytes = 0;
        let mut store = block_on(CheckpointStore::open(blobs.clone(), options)).unwrap();
        block_on(store.take_over()).unwrap();
        let mut states = KeyedStates::new("op", ALL, MAX);
        let value = states.value("v").unwrap();
        Self {
            blobs,
            store,
            states,
            value,
        }
    }

    /// Gives all keys of a group another value.
    fn change(&mut self, group: u16, value: &str) {
        for key in 0..1000_u64 {
            if u64::GROUPING.group(key.key_hash(), MAX).get() == group {
                let state = &mut self.states[self.value];
                state.put(Keyed::new(&key), value.to_owned()).unwrap();
            }
        }
    }

    /// Takes a checkpoint; returns the names of its files.
    fn write(&mut self, id: u64) -> (Metadata, Vec<String>) {
        let checkpoint = CheckpointId::new(id);
        let files = self.store.files().unwrap();
        let mut files = Files(files.handle(checkpoint, "op", 0));
        let snapshot = self.states.snapshot(checkpoint).run(&mut files).unwrap();
        let handle: KeyedHandle = files.0.finish([snapshot.groups], snapshot.manifest);
        let mut subtask = Subtask::default();
        subtask.keyed.push(handle);
        let mut operator = Operator::new("op");
        operator.subtasks.push(subtask);
        let generation = self.store.generation().unwrap();
        let mut metadata = Metadata::new("job", checkpoint, generation, Kind::Checkpoint);
        metadata.add("op", operator);
        (metadata, snapshot.files)
    }

    fn complete(&mut self, metadata: &Metadata) {
        let id = metadata.checkpoint;
        block_on(async {
            self.store.complete(metadata).await.unwrap();
            self.store.committed(id).await.unwrap();
            self.store.apply_retention().await.unwrap();
        });
    }

    fn take(&mut self, id: u64) -> Vec<String> {
        let (metadata, files) = self.write(id);
        self.complete(&metadata);
        self.states.confirmed(metadata.checkpoint);
        files
    }

    /// The state files that are there, each by the checkpoint that stored it.
    fn there(&self) -> BTreeSet<u64> {
        let objects = block_on(self.blobs.list("chk-")).unwrap();
        let files = objects
            .iter()
            .filter(|object| !object.path.contains("_metadata"));
        let stored_by = files.map(|file| {
            let (folder, _) = file.path.split_once('/').unwrap();
            folder["chk-".len()..].parse().unwrap()
        });
        stored_by.collect()
    }

    /// What each group holds, as the newest checkpoint has it.
    fn restored(&self) -> Vec<BTreeSet<String>> {
        let old = block_on(self.store.restore_latest()).unwrap();
        let keyed = old.keyed("op");
        let keyed = keyed.map(|old| Restored::new(old.manifest(), old.read_by(block_on)));
        let mut states = KeyedStates::<u64>::restore("op", ALL, MAX, keyed).unwrap();
        let value = states.value::<String>("v").unwrap();
        let mut groups = vec![BTreeSet::new(); 3];
        let each = states[value].for_each(|key, value| {
            let group = u64::GROUPING.group(key.key_hash(), MAX).get();
            groups[usize::from(group)].insert(value.clone());
        });
        each.unwrap();
        groups
    }
}

fn one_each(values: [&str; 3]) -> Vec<BTreeSet<String>> {
    values
        .map(|value| BTreeSet::from([value.to_owned()]))
        .into()
}

/// SPEC 3.5, the golden scenario. A, B and C are stored by checkpoints 98 to 100, D by 101, E by 102.
#[test]
fn a_checkpoint_stores_what_changed_and_deletes_what_nothing_names() {
    let mut job = Job::new();
    for (group, value) in [(0, "a"), (1, "b"), (2, "c")] {
        job.change(group, value);
        job.take(98 + u64::from(group));
    }
    assert_eq!(job.there(), [98, 99, 100].into(), "C100 = {{A, B, C}}");

    job.change(2, "d");
    assert_eq!(job.take(101).len(), 3);
    assert_eq!(
        job.there(),
        [98, 99, 101].into(),
        "C101 = {{A, B, D}}: C is deleted"
    );
    assert_eq!(job.restored(), one_each(["a", "b", "d"]));

    job.change(0, "e");
    assert_eq!(job.take(102).len(), 3);
    assert_eq!(
        job.there(),
        [99, 101, 102].into(),
        "C102 = {{B, D, E}}: A is deleted"
    );
    assert_eq!(job.restored(), one_each(["e", "b", "d"]));

    let mut objects = Vec::new();
    let verified = job.store.verify(|found| {
        found.result.unwrap();
        objects.push(found.object);
    });
    block_on(verified).unwrap();
    assert_eq!(
        objects.len(),
        4,
        "the metadata and three files: {objects:?}"
    );
}

/// B28, B30: checkpoint 2 fails after it has stored a file. What changed is stored again, and nothing else
/// that checkpoint 1 has is lost.
#[test]
fn a_checkpoint_that_fails_takes_its_files_with_it_and_no_others() {
    let mut job = Job::new();
    for group in 0..3 {
        job.change(group, "old");
    }
    job.take(1);
    job.change(1, "new");
    let (metadata, _) = job.write(2);
    block_on(job.store.discard_failed(metadata.checkpoint)).unwrap();
    job.states.aborted(metadata.checkpoint);
    assert_eq!(job.there(), [1].into());
    assert_eq!(job.restored(), one_each(["old", "old", "old"]));
    job.take(3);
    assert_eq!(job.there(), [1, 3].into());
    assert_eq!(job.restored(), one_each(["old", "new", "old"]));
}

/// The news that checkpoint 2 is complete comes late: checkpoint 1, which the third one builds on, is
/// discarded already. What has not changed since is in checkpoint 2 as well.
#[test]
fn a_snapshot_may_build_on_a_checkpoint_that_is_discarded() {
    let mut job = Job::new();
    for group in 0..3 {
        job.change(group, "old");
    }
    job.take(1);
    job.change(1, "new");
    let (metadata, _) = job.write(2);
    job.complete(&metadata);
    job.change(1, "newer");
    let (metadata, _) = job.write(3);
    job.complete(&metadata);
    assert_eq!(job.restored(), one_each(["old", "newer", "old"]));
    assert_eq!(
        job.there(),
        [1, 3].into(),
        "3 is built on 1, and 2 has gone"
    );
}
