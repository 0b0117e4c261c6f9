//! Everything that can be found on disk, and a stop before every single step on it.

use std::{
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    Committer as _, CommitterContext, Flushed, Input, Prepared, Sink as _, Verdict, Writer as _,
    WriterContext, testkit::block_on,
};
use tempfile::TempDir;

use super::{Csv, FileCommitter, FileSink, FileWriter, JsonLines, Rolling, disk::Disk};

/// Refuses every step after the first so many.
#[derive(Clone, Debug)]
pub(super) struct Faults(Arc<AtomicUsize>);

impl Default for Faults {
    fn default() -> Self {
        Self::after(usize::MAX)
    }
}

impl Faults {
    fn after(steps: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(steps)))
    }

    pub(super) fn step(&self) -> io::Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        if left == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.store(left - 1, Ordering::Relaxed);
        Ok(())
    }

    fn has_struck(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

const NEVER: Rolling = Rolling {
    bytes_max: u64::MAX,
    age_max: Duration::MAX,
};

/// Names of all files below, sorted.
fn files(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path().to_str().unwrap().to_owned());
        }
    }
    found.sort();
    found
}

/// Names a reader of the directory sees.
fn names(directory: &Path) -> Vec<String> {
    let names = super::layout::names_in(directory).unwrap();
    names
        .into_iter()
        .filter(|name| name != ".staging")
        .collect()
}

fn visible(directory: &Path) -> Vec<u64> {
    let mut records = Vec::new();
    for name in names(directory) {
        let text = fs::read_to_string(directory.join(name)).unwrap();
        assert!(text.ends_with('\n'), "nothing half-written is visible");
        records.extend(text.lines().map(|line| line.parse::<u64>().unwrap()));
    }
    records
}

/// What survives a crash.
#[derive(Clone, Default)]
struct Durable {
    generation: u64,
    checkpoint: u64,
    tokens: Vec<Prepared>,
    state: Vec<Vec<u8>>,
    position: u64,
    is_ended: bool,
}

const RECORDS: u64 = 12;

type Told<T = ()> = Result<T, String>;

fn committed(verdicts: Vec<Verdict>) -> Told {
    verdicts.into_iter().try_for_each(|verdict| match verdict {
        Verdict::Committed | Verdict::AlreadyCommitted => Ok(()),
        other => Err(format!("{other:?}")),
    })
}

fn told(error: cutwater_sink_2pc::Error) -> String {
    format!("{error:?}")
}

/// One attempt, from restore to the end or to its crash.
fn attempt(directory: &Path, durable: &mut Durable, faults: Faults, parallelism: usize) -> Told {
    durable.generation += 1;
    let generation = Generation::new(durable.generation);
    let mut sink =
        FileSink::new(directory, JsonLines::new()).rolling(Rolling::new(12, Duration::MAX));
    sink.disk = Disk { faults };
    block_on(async {
        let mut context = CommitterContext::new("job", "uid", generation);
        context.restored = durable.state.clone();
        let mut committer = sink.committer(context).await.map_err(told)?;
        committed(committer.commit(&durable.tokens).await)?;
        committer.fence(generation).await.map_err(told)?;
        committer.sweep().await.map_err(told)?;
        let mut writers = Vec::new();
        for subtask in 0..parallelism {
            let context = WriterContext::new("job", "uid", subtask, parallelism, generation);
            let share = durable.state.iter().skip(subtask).step_by(parallelism);
            let writer = sink.writer(context, share.cloned().collect()).await;
            writers.push(writer.map_err(told)?);
        }
        let mut position = durable.position;
        while !durable.is_ended {
            for _ in 0..4 {
                let subtask = usize::try_from(position).unwrap() % parallelism;
                let mut batch = vec![position];
                let write = writers[subtask].write(Time::ZERO, &mut batch);
                write.await.map_err(told)?;
                position += 1;
            }
            let is_ended = position == RECORDS;
            let input = if is_ended {
                Input::Ended
            } else {
                Input::Continues
            };
            durable.checkpoint += 1; // An id is not used again, also after a failed attempt.
            let checkpoint = CheckpointId::new(durable.checkpoint);
            let (mut tokens, mut state) = (Vec::new(), Vec::new());
            for writer in &mut writers {
                let flushed = writer.prepare(Time::ZERO, checkpoint, input).await;
                let flushed = flushed.map_err(told)?;
                tokens.extend(flushed.prepared);
                state.extend(flushed.state);
            }
            *durable = Durable {
                generation: durable.generation,
                checkpoint: durable.checkpoint,
                tokens,
                state,
                position,
                is_ended,
            };
            committed(committer.commit(&durable.tokens).await)?;
        }
        Ok(())
    })
}

fn at_most(directory: &Path, durable: &Durable, when: &str) {
    let mut seen = visible(directory);
    seen.sort_unstable();
    assert!(
        seen.windows(2).all(|pair| pair[0] < pair[1]),
        "{when}: doubled: {seen:?}"
    );
    assert!(
        seen.iter().all(|id| *id < durable.position),
        "{when}: too early: {seen:?}"
    );
}

fn exactly_all(directory: &Path, when: &str) {
    let mut seen = visible(directory);
    seen.sort_unstable();
    assert_eq!(seen, (0..RECORDS).collect::<Vec<_>>(), "{when}");
}

/// Every step of the first attempt is its last, be it a kill or a full disk; and of some of these
/// every step of the second is too. The third finishes.
#[test]
fn a_stop_before_any_step_on_disk_loses_nothing_and_doubles_nothing() {
    let mut is_finished = false;
    for first in 0.. {
        let run = |second: usize| {
            let directory = TempDir::new().unwrap();
            let path = directory.path();
            let mut durable = Durable::default();
            let when = format!("stopped before step {first}, then {second}");
            let faults = Faults::after(first);
            let outcome = attempt(path, &mut durable, faults.clone(), 2);
            assert!(
                outcome.is_ok() || faults.has_struck(),
                "{when}: {outcome:?}"
            );
            at_most(path, &durable, &when);
            let faults = Faults::after(second);
            let again = attempt(path, &mut durable, faults.clone(), 1);
            assert!(again.is_ok() || faults.has_struck(), "{when}: {again:?}");
            at_most(path, &durable, &when);
            attempt(path, &mut durable, Faults::default(), 3).expect(&when);
            exactly_all(path, &when);
            (outcome.is_ok(), again.is_ok())
        };
        is_finished = run(usize::MAX).0;
        if first % 5 == 0 {
            (0..).find(|second| run(*second).1);
        }
        if is_finished {
            break;
        }
    }
    assert!(is_finished);
}

type Sink = FileSink<JsonLines<u64>>;

fn open(
    sink: &Sink,
    generation: u64,
    restored: Vec<Vec<u8>>,
) -> (FileCommitter, FileWriter<JsonLines<u64>>) {
    block_on(async {
        let generation = Generation::new(generation);
        let mut context = CommitterContext::new("job", "uid", generation);
        context.restored = restored.clone();
        let mut committer = sink.committer(context).await.unwrap();
        committer.fence(generation).await.unwrap();
        committer.sweep().await.unwrap();
        let context = WriterContext::new("job", "uid", 0, 1, generation);
        (committer, sink.writer(context, restored).await.unwrap())
    })
}

fn write(writer: &mut FileWriter<JsonLines<u64>>, millis: u64, id: u64) {
    block_on(writer.write(Time::from_millis(millis), &mut vec![id])).unwrap();
}

fn prepare(writer: &mut FileWriter<JsonLines<u64>>, millis: u64, checkpoint: u64) -> Flushed {
    let checkpoint = CheckpointId::new(checkpoint);
    block_on(writer.prepare(Time::from_millis(millis), checkpoint, Input::Continues)).unwrap()
}

/// Issue 3: frequent checkpoints do not mean many tiny files. CASES B47: open for many checkpoints.
#[test]
fn a_file_stays_open_over_checkpoints_until_it_is_old_and_survives_a_restart_of_each() {
    let directory = TempDir::new().unwrap();
    let rolling = Rolling::new(u64::MAX, Duration::from_secs(1));
    let sink = FileSink::new(directory.path(), JsonLines::new()).rolling(rolling);
    let mut restored = Vec::new();
    for checkpoint in 0..10 {
        let (_, mut writer) = open(&sink, checkpoint + 1, restored);
        write(&mut writer, 0, checkpoint);
        let flushed = prepare(&mut writer, 999, checkpoint);
        assert_eq!(flushed.prepared, []);
        restored = flushed.state;
        write(&mut writer, 999, 777); // lost with the attempt
    }
    let (mut committer, mut writer) = open(&sink, 11, restored);
    prepare(&mut writer, 5000, 100); // the age counts from here
    assert_eq!(prepare(&mut writer, 5999, 101).prepared, []);
    let flushed = prepare(&mut writer, 6000, 102);
    assert!(flushed.state.is_empty());
    committed(block_on(committer.commit(&flushed.prepared))).unwrap();
    assert_eq!(visible(directory.path()), (0..10).collect::<Vec<_>>());
    assert_eq!(names(directory.path()).len(), 1);
    open(&sink, 12, vec![]);
    assert!(
        files(&directory.path().join(".staging"))
            .iter()
            .all(|name| name.contains("/fence-"))
    );
}

/// CASES B54(j): a thousand files in one tick are a thousand names, and sort in commit order.
#[test]
fn a_thousand_files_in_one_tick_have_names_of_their_own_in_commit_order() {
    let directory = TempDir::new().unwrap();
    let sink =
        FileSink::new(directory.path(), JsonLines::new()).rolling(Rolling::new(1, Duration::MAX));
    let (mut committer, mut writer) = open(&sink, 1, vec![]);
    for id in 0..500 {
        write(&mut writer, 0, id);
    }
    let flushed = prepare(&mut writer, 0, 1);
    committed(block_on(committer.commit(&flushed.prepared))).unwrap();
    let (mut committer, mut writer) = open(&sink, 2, vec![]);
    for id in 500..1000 {
        write(&mut writer, 0, id);
    }
    let flushed = prepare(&mut writer, 0, 2);
    committed(block_on(committer.commit(&flushed.prepared))).unwrap();
    assert_eq!(names(directory.path()).len(), 1000);
    assert_eq!(visible(directory.path()), (0..1000).collect::<Vec<_>>());
}

/// CASES F148: merge of two restored files; data after a recovery continues at the recorded length.
#[test]
fn open_files_of_several_old_subtasks_become_one_with_one_header() {
    let directory = TempDir::new().unwrap();
    let sink = FileSink::new(directory.path(), Csv::<(u64,)>::new(["id"])).rolling(NEVER);
    let run = |generation, parallelism: usize, restored: Vec<Vec<u8>>, input| {
        block_on(async {
            let generation = Generation::new(generation);
            let mut context = CommitterContext::new("job", "uid", generation);
            context.restored = restored.clone();
            let mut committer = sink.committer(context).await.unwrap();
            committer.fence(generation).await.unwrap();
            committer.sweep().await.unwrap();
            let mut state = Vec::new();
            for subtask in 0..parallelism {
                let context = WriterContext::new("job", "uid", subtask, parallelism, generation);
                let share = restored.iter().skip(subtask).step_by(parallelism).cloned();
                let mut writer = sink.writer(context, share.collect()).await.unwrap();
                let mut batch = vec![(generation.get() * 10 + subtask as u64,)];
                writer.write(Time::ZERO, &mut batch).await.unwrap();
                let checkpoint = CheckpointId::new(generation.get());
                let flushed = writer.prepare(Time::ZERO, checkpoint, input).await.unwrap();
                committed(committer.commit(&flushed.prepared).await).unwrap();
                state.extend(flushed.state);
                writer.write(Time::ZERO, &mut vec![(99,)]).await.unwrap(); // lost
            }
            state
        })
    };
    let state = run(1, 3, vec![], Input::Continues);
    assert_eq!(state.len(), 3);
    assert_eq!(run(2, 1, state, Input::Ended).len(), 0);
    let [name] = <[String; 1]>::try_from(names(directory.path())).unwrap();
    let text = fs::read_to_string(directory.path().join(name)).unwrap();
    assert_eq!(text, "id\n10\n11\n12\n20\n");
}

#[test]
fn an_open_file_that_was_changed_or_is_gone_is_refused() {
    for (damage, says) in [
        ("flip", "not those that were written"),
        ("cut", "bytes are missing"),
        ("remove", "No such file"),
    ] {
        let directory = TempDir::new().unwrap();
        let sink = FileSink::new(directory.path(), JsonLines::new()).rolling(NEVER);
        let (_, mut writer) = open(&sink, 1, vec![]);
        write(&mut writer, 0, 7);
        let state = prepare(&mut writer, 0, 1).state;
        let staged = files(&directory.path().join(".staging"));
        let staged = staged.iter().find(|name| name.ends_with(".jsonl")).unwrap();
        match damage {
            "flip" => fs::write(staged, "8\n").unwrap(),
            "cut" => fs::write(staged, "7").unwrap(),
            _ => fs::remove_file(staged).unwrap(),
        }
        let error = block_on(async {
            let mut context = CommitterContext::new("job", "uid", Generation::new(2));
            context.restored.clone_from(&state);
            let mut committer = sink.committer(context).await.unwrap();
            committer.fence(Generation::new(2)).await.unwrap();
            committer.sweep().await.unwrap();
            let context = WriterContext::new("job", "uid", 0, 1, Generation::new(2));
            sink.writer(context, state).await.unwrap_err()
        });
        assert!(told(error).contains(says), "{damage}");
    }
}

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
    let name = super::part::Part::decode(&prepared[0].token).unwrap().name;
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

/// CASES F147, F148: an end without records gives nothing, and no empty file appears.
#[test]
fn nothing_to_write_gives_no_file() {
    let directory = TempDir::new().unwrap();
    let sink = FileSink::new(directory.path(), JsonLines::new());
    let (_, mut writer) = open(&sink, 1, vec![]);
    block_on(writer.write(Time::ZERO, &mut vec![])).unwrap();
    let checkpoint = CheckpointId::new(1);
    let flushed = block_on(writer.prepare(Time::ZERO, checkpoint, Input::Ended)).unwrap();
    assert_eq!(flushed, Flushed::default());
    let left = files(directory.path());
    assert!(left.iter().all(|name| name.contains("/fence-")), "{left:?}");
}
