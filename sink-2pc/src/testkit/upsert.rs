//! The exam for anyone's upsert table: what it writes, what it refuses, and a job that crashes anywhere
//! while its predecessor goes on writing.

use std::{collections::BTreeMap, future::Future};

use cutwater_barrier::{CheckpointId, Generation, Time};

use super::{
    block_on,
    rig::{ensure, told},
};
use crate::{
    Flushed, Input, Sink, Writer, WriterContext,
    upsert::{Row, UpsertSink, UpsertTable, UpsertTarget},
};

/// A table as the exam needs it: fresh, and read from outside. Dropping it removes it.
pub trait UpsertExam: Send + Sync {
    /// What is examined.
    type Target: UpsertTarget;

    /// The target, as a process that has just started would set it up, on the same table each time.
    fn target(&self) -> Self::Target;

    /// The row `key` as of `version`, with a value by which [`visible`](Self::visible) recognises the
    /// version.
    fn row(&self, key: u64, version: u64) -> Row<<Self::Target as UpsertTarget>::Table>;

    /// What an outside reader sees now: of each row the key, its version, and the version that its value
    /// belongs to.
    fn visible(&self) -> impl Future<Output = Vec<(u64, u64, u64)>> + Send;
}

/// Examines the table, a fresh one from `open` for each check, on this thread and without a runtime.
///
/// # Panics
///
/// If a check fails, saying what was expected and what was seen.
pub fn upsert_conforms<T: UpsertExam>(open: impl FnMut() -> T) {
    if let Err(reason) = block_on(examine_upsert(open)) {
        panic!("the table fails its exam: {reason}");
    }
}

/// As [`upsert_conforms`], on the caller's executor.
///
/// # Errors
///
/// The first thing that is wrong.
pub async fn examine_upsert<T: UpsertExam>(mut open: impl FnMut() -> T) -> Result<(), String> {
    conditions(&open()).await?;
    batches(&open()).await?;
    for rows_max in [1, 3] {
        // Every step of the first attempt, and one that no attempt reaches.
        for crash in 0..=JOB.len() + 1 {
            crashes(&open(), rows_max, crash).await?;
        }
    }
    Ok(())
}

/// Single rows: written if they are new or newer, and only then, whoever writes them.
async fn conditions<T: UpsertExam>(exam: &T) -> Result<(), String> {
    let mut first = table(exam, 1).await?;
    let mut other = table(exam, 2).await?;
    for (is_first, version, written, visible, what) in [
        (true, 5, 1, 5, "a row that is new"),
        (true, 5, 0, 5, "the same row again"),
        (false, 5, 0, 5, "the same row by another writer"),
        (true, 4, 0, 5, "an older row"),
        (false, 3, 0, 5, "an older row by another writer"),
        (true, 10, 1, 10, "a newer row, of more digits"),
        (false, 9, 0, 10, "an older row, of fewer digits"),
        (
            false,
            u64::from(u32::MAX) + 1,
            1,
            u64::from(u32::MAX) + 1,
            "a version beyond 32 bits",
        ),
        (
            true,
            11,
            0,
            u64::from(u32::MAX) + 1,
            "a version that is higher in its lower 32 bits",
        ),
    ] {
        let table = if is_first { &mut first } else { &mut other };
        let count = table.upsert(&[exam.row(7, version)]).await.map_err(told)?;
        ensure(count == written, || {
            format!("{what}: {count} rows were said to be written, not {written}")
        })?;
        sees(exam, &[(7, visible)], what).await?;
    }
    Ok(())
}

/// Many rows at once: each by its own condition.
async fn batches<T: UpsertExam>(exam: &T) -> Result<(), String> {
    let mut table = table(exam, 1).await?;
    let rows = |of: &[(u64, u64)]| -> Vec<_> {
        of.iter()
            .map(|&(key, version)| exam.row(key, version))
            .collect()
    };
    let count = table.upsert(&[]).await.map_err(told)?;
    ensure(count == 0, || {
        "no rows: some were said to be written".into()
    })?;
    table
        .upsert(&rows(&[(1, 1), (2, 5), (3, 3)]))
        .await
        .map_err(told)?;
    sees(exam, &[(1, 1), (2, 5), (3, 3)], "three rows that are new").await?;
    let count = table
        .upsert(&rows(&[(4, 1), (2, 4), (3, 4), (1, 1)]))
        .await
        .map_err(told)?;
    ensure(count == 2, || {
        format!("four rows, of which two are not there: {count} were said to be written")
    })?;
    sees(
        exam,
        &[(1, 1), (2, 5), (3, 4), (4, 1)],
        "four rows, of which two are there",
    )
    .await
}

/// The keys of the records of a job that counts them; a count is a row's version.
const JOB: [u64; 17] = [0, 1, 0, 2, 3, 0, 1, 4, 4, 0, 2, 1, 3, 0, 0, 4, 1];
/// A checkpoint follows after so many records.
const INTERVAL: usize = 4;

/// One attempt of the job: where it is in its records, and its state.
struct Attempt<W> {
    writers: Vec<W>,
    position: usize,
    counts: BTreeMap<u64, u64>,
}

impl<W: Writer> Attempt<W> {
    /// Processes the next record, and takes a checkpoint if one is due: then what is durable.
    async fn step(
        &mut self,
        row: impl Fn(u64, u64) -> W::Record,
    ) -> Result<Option<(usize, BTreeMap<u64, u64>)>, String> {
        let Some(&key) = JOB.get(self.position) else {
            return Ok(None);
        };
        self.position += 1;
        let count = self.counts.entry(key).or_default();
        *count += 1;
        let writer = usize::try_from(key).expect("small") % self.writers.len();
        let mut batch = vec![row(key, *count)];
        self.writers[writer]
            .write(Time::ZERO, &mut batch)
            .await
            .map_err(told)?;
        let is_last = self.position == JOB.len();
        if !self.position.is_multiple_of(INTERVAL) && !is_last {
            return Ok(None);
        }
        let checkpoint = CheckpointId::new(self.position as u64);
        let input = if is_last {
            Input::Ended
        } else {
            Input::Continues
        };
        for writer in &mut self.writers {
            let flushed = writer
                .prepare(Time::ZERO, checkpoint, input)
                .await
                .map_err(told)?;
            ensure(flushed == Flushed::default(), || {
                "there is something to commit".into()
            })?;
        }
        Ok(Some((self.position, self.counts.clone())))
    }
}

/// A crash after `crash` steps, and a successor of another parallelism, while the predecessor does not
/// know that it was replaced. Nothing may go back, and at the end all is there.
async fn crashes<T: UpsertExam>(exam: &T, rows_max: usize, crash: usize) -> Result<(), String> {
    let sink = UpsertSink::new(exam.target()).with_rows_max(rows_max);
    let mut seen = BTreeMap::new();
    let mut durable = (0, BTreeMap::new());
    let mut zombie = attempt(&sink, 1, 2, durable.clone()).await?;
    for _ in 0..crash {
        let checkpoint = zombie.step(|key, version| exam.row(key, version)).await?;
        durable = checkpoint.unwrap_or(durable);
        never_back(exam, &mut seen).await?;
    }
    let mut successor = attempt(&sink, 2, 3, durable).await?;
    while successor.position < JOB.len() {
        successor
            .step(|key, version| exam.row(key, version))
            .await?;
        never_back(exam, &mut seen).await?;
        zombie.step(|key, version| exam.row(key, version)).await?;
        never_back(exam, &mut seen).await?;
    }
    let expected: Vec<_> = successor.counts.into_iter().collect();
    sees(
        exam,
        &expected,
        &format!("a job that was replaced after {crash} steps"),
    )
    .await
}

async fn attempt<S: Sink>(
    sink: &S,
    generation: u64,
    parallelism: u16,
    (position, counts): (usize, BTreeMap<u64, u64>),
) -> Result<Attempt<S::Writer>, String> {
    let mut writers = Vec::new();
    for subtask in 0..parallelism {
        let generation = Generation::new(generation);
        let context = WriterContext::new("job", "sink", subtask, parallelism, generation);
        writers.push(sink.writer(context, Vec::new()).await.map_err(told)?);
    }
    Ok(Attempt {
        writers,
        position,
        counts,
    })
}

async fn table<T: UpsertExam>(
    exam: &T,
    generation: u64,
) -> Result<<T::Target as UpsertTarget>::Table, String> {
    let context = WriterContext::new("job", "sink", 0, 1, Generation::new(generation));
    exam.target().open(context).await.map_err(told)
}

/// The rows that are visible, each whole: value and version of one write.
async fn visible<T: UpsertExam>(exam: &T) -> Result<BTreeMap<u64, u64>, String> {
    let mut rows = BTreeMap::new();
    for (key, version, of_value) in exam.visible().await {
        ensure(version == of_value, || {
            format!("row {key} has version {version} and the value of version {of_value}")
        })?;
        let double = rows.insert(key, version);
        ensure(double.is_none(), || format!("row {key} is there twice"))?;
    }
    Ok(rows)
}

async fn sees<T: UpsertExam>(exam: &T, expected: &[(u64, u64)], what: &str) -> Result<(), String> {
    let expected: BTreeMap<_, _> = expected.iter().copied().collect();
    let visible = visible(exam).await?;
    ensure(visible == expected, || {
        format!("{what}: a reader sees {visible:?} (key: version), and should see {expected:?}")
    })
}

async fn never_back<T: UpsertExam>(exam: &T, seen: &mut BTreeMap<u64, u64>) -> Result<(), String> {
    let now = visible(exam).await?;
    for (key, before) in &*seen {
        let version = now.get(key);
        ensure(version >= Some(before), || {
            format!("row {key} was of version {before}, and is now {version:?}")
        })?;
    }
    *seen = now;
    Ok(())
}
