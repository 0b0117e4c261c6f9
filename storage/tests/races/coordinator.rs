//! What an engine's coordinator does with a store, and notes for the checks.

use std::sync::Arc;

use cutwater_barrier::{CheckpointId, Kind};
use cutwater_keygroups::KeyGroupRange;
use cutwater_storage::{
    Blobs, CheckpointStore, ErrorKind, Fate, KeyedHandle, Metadata, Operator, Options,
    PreparedTransaction, Result, Subtask, Term,
};

use crate::world::{Event, World};

/// Leads for some checkpoints, or until it cannot.
pub(crate) async fn coordinate(blobs: impl Blobs, seed: u64, checkpoints: u64, world: Arc<World>) {
    match lead(blobs, seed, checkpoints, &world).await {
        Ok(()) => {}
        Err(error) => match error.kind() {
            ErrorKind::Fenced { .. } | ErrorKind::Io => world.note(Event::SteppedDown),
            _ => panic!("{error}"),
        },
    }
}

pub(crate) fn options(seed: u64) -> Options {
    let mut options = Options::default();
    options.keep = 2;
    options.inline_max_bytes = 0;
    options.log_entries = 6;
    options.seed = Some(seed);
    options
}

async fn lead(blobs: impl Blobs, seed: u64, checkpoints: u64, world: &World) -> Result<()> {
    let mut store = CheckpointStore::open(blobs, options(seed)).await?;
    let term = store.take_over().await?;
    let restored = store.latest().map(|completed| completed.checkpoint);
    world.note(Event::TookOver { term, restored });
    for round in 0..checkpoints {
        let id = CheckpointId::new(term.first.get() + round);
        // What a task cannot write fails the checkpoint before anything was decided.
        let decided = match metadata(&store, term, id).await {
            Ok(metadata) => store.complete(&metadata).await.map(drop),
            Err(error) => Err(error),
        };
        let fate = match decided {
            Ok(()) => Fate::Completed,
            Err(error) if error.is_fenced() => return Err(error),
            Err(_) => store.discard_failed(id).await?,
        };
        match fate {
            Fate::Discarded => world.note(Event::Aborted(id)),
            Fate::Completed => {
                // The sinks commit here, having asked or not: after the decision nobody can take
                // it back, and a successor has to know it.
                world.note(Event::Sunk { term, id });
                store.check_leading().await?;
                store.committed(id).await?;
                store.apply_retention().await?;
            }
        }
    }
    Ok(())
}

async fn metadata(store: &CheckpointStore, term: Term, id: CheckpointId) -> Result<Metadata> {
    let mut file = store.files()?.writer(id, "totals", 0, "keyed");
    file.write(format!("state of {id} by {}", term.generation))
        .await?;
    let mut subtask = Subtask::default();
    let groups = vec![KeyGroupRange::new(0, 128)];
    subtask
        .keyed
        .push(KeyedHandle::new(groups, "", vec![file.finish().await?]));
    let mut operator = Operator::new("totals");
    operator
        .prepared
        .push(PreparedTransaction::new(id, "token"));
    operator.subtasks.push(subtask);
    let mut metadata = Metadata::new("bank", id, term.generation, Kind::Checkpoint);
    metadata.operators.insert("totals".to_owned(), operator);
    Ok(metadata)
}
