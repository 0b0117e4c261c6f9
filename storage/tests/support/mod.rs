//! A small job's checkpoints.
#![allow(dead_code, reason = "each test takes what it needs")]

use cutwater_barrier::{CheckpointId, Kind};
use cutwater_keygroups::KeyGroupRange;
use cutwater_storage::{
    Blobs, CheckpointStore, FileRef, KeyedHandle, Metadata, Operator, Options, Result, Subtask,
    Term,
};

/// Keeps two, and has an object for every file.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.keep = 2;
    options.inline_max_bytes = 0;
    options.block_bytes = 4;
    options.seed = Some(1);
    options
}

/// A store that leads.
pub(crate) async fn lead(blobs: impl Blobs, options: Options) -> (CheckpointStore, Term) {
    let mut store = CheckpointStore::open(blobs, options).await.unwrap();
    let term = store.take_over().await.unwrap();
    (store, term)
}

pub(crate) async fn file(store: &CheckpointStore, id: u64, name: &str) -> Result<FileRef> {
    let id = CheckpointId::new(id);
    let bytes = format!("the bytes of {name}");
    store.files()?.store(id, "totals", 0, name, bytes).await
}

pub(crate) fn metadata(store: &CheckpointStore, id: u64, files: &[FileRef]) -> Metadata {
    let mut subtask = Subtask::default();
    subtask.keyed.push(KeyedHandle::new(
        vec![KeyGroupRange::new(0, 128)],
        "",
        files.to_vec(),
    ));
    let mut operator = Operator::new("totals");
    operator.subtasks.push(subtask);
    let generation = store.generation().unwrap();
    let mut metadata = Metadata::new("bank", CheckpointId::new(id), generation, Kind::Checkpoint);
    metadata.operators.insert("totals".to_owned(), operator);
    metadata
}

/// Completes checkpoint `id` of one new file, called after it.
pub(crate) async fn complete(store: &mut CheckpointStore, id: u64) -> Result<()> {
    let files = [file(store, id, &format!("of-{id}")).await?];
    store.complete(&metadata(store, id, &files)).await.map(drop)
}

/// The same, carried out.
pub(crate) async fn carry_out(store: &mut CheckpointStore, id: u64) -> Result<()> {
    complete(store, id).await?;
    store.committed(CheckpointId::new(id)).await
}

pub(crate) fn ids(store: &CheckpointStore) -> Vec<u64> {
    store
        .list()
        .map(|completed| completed.checkpoint.get())
        .collect()
}

/// The objects that are there, without the log and without what makes their names unique.
pub(crate) async fn objects(blobs: &impl Blobs) -> Vec<String> {
    let listed = blobs.list("chk-").await.unwrap();
    let stem = |path: String| {
        path.split(['.', '-'])
            .filter(|part| part.len() != 16)
            .collect::<Vec<_>>()
            .join("-")
    };
    listed.into_iter().map(|blob| stem(blob.path)).collect()
}
