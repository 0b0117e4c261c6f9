//! What is to be found on disk, however files roll and whoever took them over.

mod fencing;
mod stops;

use std::{fs, path::Path, time::Duration};

use cutwater_barrier::{CheckpointId, Generation, Time};
use cutwater_sink_2pc::{
    Committer as _, CommitterContext, Flushed, Input, Sink as _, Verdict, Writer as _,
    WriterContext,
    testkit::{self, Target, block_on},
};
use tempfile::TempDir;

pub(super) use self::stops::Faults;
use super::{Csv, FileCommitter, FileSink, FileWriter, JsonLines, Rolling, layout};

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
    let names = layout::names_in(directory).unwrap();
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

struct Directory(TempDir, Rolling);

impl Target for Directory {
    type Sink = FileSink<JsonLines<u64>>;

    fn sink(&self) -> Self::Sink {
        FileSink::new(self.0.path(), JsonLines::new()).rolling(self.1)
    }

    fn record(&self, id: u64) -> u64 {
        id
    }

    async fn visible(&self) -> Vec<u64> {
        visible(self.0.path())
    }

    async fn unfinished(&self) -> Vec<String> {
        let staged = files(&self.0.path().join(".staging")).into_iter();
        staged.filter(|name| !name.contains("/fence-")).collect()
    }
}

/// SPEC 5.10, with a file per checkpoint, files open to the end, and files that roll in between.
#[test]
fn file_sink_passes_the_exam_however_it_rolls() {
    for rolling in [
        Rolling::every_checkpoint(),
        NEVER,
        Rolling::new(8, Duration::MAX),
        Rolling::new(u64::MAX, Duration::from_millis(4)),
    ] {
        testkit::conforms(|| Directory(TempDir::new().unwrap(), rolling));
    }
}

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
    let run = |generation, parallelism: u16, restored: Vec<Vec<u8>>, input| {
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
                let share = restored.iter().skip(subtask.into());
                let share = share.step_by(parallelism.into()).cloned();
                let mut writer = sink.writer(context, share.collect()).await.unwrap();
                let mut batch = vec![(generation.get() * 10 + u64::from(subtask),)];
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
