//! What a committer answers, and what a zombie can still do: nothing.

use std::fs;

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    Committer as _, CommitterContext, Input, Prepared, Sink as _, Verdict, Writer as _,
    WriterContext, testkit::block_on,
};
use tempfile::TempDir;

use super::{
    super::{FileCommitter, FileSink, JsonLines, Rolling, part::Part},
    NEVER, Sink, committed, files, names, open, prepare, told, visible, write,
};

/// One closed file, prepared and not committed.
fn prepared() -> (TempDir, Sink, FileCommitter, Vec<Prepared>) {
    let directory = TempDir::new().unwrap();
    let sink =
        FileSink::new(directory.path(), JsonLines::new()).rolling(Rolling::every_checkpoint());
    let (committer, mut writer) = open(&sink, 1, vec![]);
    write(&mut writer, 0, 7);
    let prepared = prepare(&mut writer, 0, 1).prepared;
    (directory, sink, committer, prepared)
}

fn verdict(committer: &mut FileCommitter, prepared: &[Prepared]) -> Verdict {
    block_on(committer.commit(prepared)).pop().unwrap()
}

#[test]
fn a_name_that_is_taken_is_never_overwritten() {
    let (directory, _, mut committer, prepared) = prepared();
    let name = Part::decode(&prepared[0].token).unwrap().name;
    let foreign = directory.path().join(name);
    fs::write(&foreign, "9\n").unwrap();
    assert!(matches!(
        verdict(&mut committer, &prepared),
        Verdict::NotCommitted(_)
    ));
    assert_eq!(visible(directory.path()), [9]);
    fs::remove_file(foreign).unwrap();
    assert!(matches!(
        verdict(&mut committer, &prepared),
        Verdict::Committed
    ));
    assert_eq!(visible(directory.path()), [7]);
}

/// SPEC 5.2: only what is really there is "already committed".
#[test]
fn what_was_changed_or_taken_away_after_its_commit_is_lost() {
    let (directory, _, mut committer, prepared) = prepared();
    assert!(matches!(
        verdict(&mut committer, &prepared),
        Verdict::Committed
    ));
    assert!(matches!(
        verdict(&mut committer, &prepared),
        Verdict::AlreadyCommitted
    ));
    let path = directory.path().join(&names(directory.path())[0]);
    fs::write(&path, "8\n").unwrap();
    assert!(matches!(
        verdict(&mut committer, &prepared),
        Verdict::Lost(_)
    ));
    fs::remove_file(&path).unwrap();
    assert!(matches!(
        verdict(&mut committer, &prepared),
        Verdict::Lost(_)
    ));
}

#[test]
fn a_staged_file_that_was_changed_does_not_become_visible() {
    let (directory, _, mut committer, prepared) = prepared();
    let staged = files(&directory.path().join(".staging"));
    let staged = staged.iter().find(|name| name.ends_with(".jsonl")).unwrap();
    fs::write(staged, "8\n").unwrap();
    assert!(matches!(
        verdict(&mut committer, &prepared),
        Verdict::Lost(_)
    ));
    assert!(names(directory.path()).is_empty());
}

#[test]
fn a_commit_after_the_fence_says_which_generation_took_over() {
    let (directory, sink, mut zombie, prepared) = prepared();
    open(&sink, 2, vec![]);
    let Verdict::Lost(error) = verdict(&mut zombie, &prepared) else {
        panic!("a zombie's commit is lost")
    };
    assert_eq!(error.newer_generation(), Some(Generation::new(2)));
    assert!(names(directory.path()).is_empty());
}

/// A writer that was asked for before the fence and opens after it.
#[test]
fn a_zombie_cannot_open_a_writer_or_lower_the_fence() {
    let (directory, sink, mut zombie, _) = prepared();
    open(&sink, 3, vec![]);
    let context = WriterContext::new("job", "uid", 1, 2, Generation::new(1));
    let error = block_on(sink.writer(context, vec![])).unwrap_err();
    assert_eq!(error.newer_generation(), Some(Generation::new(3)));
    let error = block_on(zombie.fence(Generation::new(2))).unwrap_err();
    assert_eq!(error.newer_generation(), Some(Generation::new(3)));
    open(&sink, 4, vec![]);
    let left = files(&directory.path().join(".staging"));
    assert_eq!(left.len(), 1, "the newest fence alone: {left:?}");
}

#[test]
fn a_zombie_that_goes_on_writing_after_the_fence_does_not_change_what_was_taken_over() {
    let directory = TempDir::new().unwrap();
    let sink = FileSink::new(directory.path(), JsonLines::new()).rolling(NEVER);
    let (_, mut zombie) = open(&sink, 1, vec![]);
    write(&mut zombie, 0, 1);
    let state = prepare(&mut zombie, 0, 1).state;
    let (_, successor) = open(&sink, 2, state.clone());
    write(&mut zombie, 0, 66);
    let checkpoint = CheckpointId::new(2);
    let error = block_on(zombie.prepare(Time::ZERO, checkpoint, Input::Continues)).unwrap_err();
    assert_eq!(error.newer_generation(), Some(Generation::new(2)));
    // The successor dies before its first checkpoint; the next one takes the same file over.
    drop(successor);
    let (mut committer, mut writer) = open(&sink, 3, state);
    write(&mut writer, 0, 2);
    let flushed = block_on(writer.prepare(Time::ZERO, checkpoint, Input::Ended)).unwrap();
    committed(block_on(committer.commit(&flushed.prepared))).unwrap();
    assert_eq!(visible(directory.path()), [1, 2]);
}

/// A zombie's own start, slow enough that its fence comes after its successor's.
#[test]
fn a_fence_that_comes_late_does_not_let_its_writers_in() {
    let directory = TempDir::new().unwrap();
    let sink = FileSink::new(directory.path(), JsonLines::<u64>::new());
    block_on(async {
        let (old, new) = (Generation::new(1), Generation::new(2));
        let context = CommitterContext::new("job", "uid", old);
        let mut zombie = sink.committer(context).await.unwrap();
        let context = CommitterContext::new("job", "uid", new);
        let mut committer = sink.committer(context).await.unwrap();
        committer.fence(new).await.unwrap();
        let error = zombie.fence(old).await.unwrap_err();
        assert_eq!(error.newer_generation(), Some(new));
        // As if it had looked for fences a moment earlier.
        let staging = sink.layout("job", "uid").unwrap().staging(old);
        fs::create_dir(staging).unwrap();
        let context = WriterContext::new("job", "uid", 0, 1, old);
        let error = sink.writer(context, vec![]).await.unwrap_err();
        assert_eq!(error.newer_generation(), Some(new));
        committer.sweep().await.unwrap();
        assert_eq!(
            sink.layout("job", "uid").unwrap().stagings().unwrap().len(),
            1
        );
    });
}

/// SPEC 0.4: found out at the start, with the remedy.
#[test]
fn a_directory_without_hard_links_is_refused_before_anything_is_written() {
    let directory = TempDir::new().unwrap();
    let sink = FileSink::new(directory.path(), JsonLines::<u64>::new());
    let probe = sink.layout("job", "uid").unwrap().probe();
    fs::create_dir_all(probe).unwrap(); // a link to here fails
    let generation = Generation::new(1);
    let error = block_on(async {
        let context = CommitterContext::new("job", "uid", generation);
        let mut committer = sink.committer(context).await.unwrap();
        committer.fence(generation).await.unwrap_err()
    });
    assert!(error.newer_generation().is_none());
    assert!(told(error).contains("hard link"));
}

/// A successor that restores what the zombie did not must find it.
#[test]
fn a_zombie_does_not_sweep_what_its_successor_restores() {
    let directory = TempDir::new().unwrap();
    let sink = FileSink::new(directory.path(), JsonLines::new()).rolling(NEVER);
    let (_, mut writer) = open(&sink, 1, vec![]);
    write(&mut writer, 0, 7);
    let state = prepare(&mut writer, 0, 1).state;
    block_on(async {
        let (fresh, new) = (Generation::new(2), Generation::new(3));
        let context = CommitterContext::new("job", "uid", fresh);
        let mut zombie = sink.committer(context).await.unwrap();
        zombie.fence(fresh).await.unwrap();
        let mut context = CommitterContext::new("job", "uid", new);
        context.restored.clone_from(&state);
        let mut committer = sink.committer(context).await.unwrap();
        committer.fence(new).await.unwrap();
        let error = zombie.sweep().await.unwrap_err();
        assert_eq!(error.newer_generation(), Some(new));
        committer.sweep().await.unwrap();
        let context = WriterContext::new("job", "uid", 0, 1, new);
        sink.writer(context, state).await.unwrap();
    });
}
