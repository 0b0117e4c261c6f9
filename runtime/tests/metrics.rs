//! What a metrics system sees of a job. A test binary of its own, as the recorder is the process's.

use std::{collections::BTreeMap, time::Duration};

use cutwater_runtime::{Collect, Job, Settings};
use cutwater_source::VecSource;
use cutwater_storage::LocalBlobs;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

/// SPEC 2.10: which part of a checkpoint was slow, in which task.
#[test]
fn every_part_of_a_checkpoint_is_measured_for_every_task() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();

    let directory = tempfile::tempdir().unwrap();
    let job = Job::new("measured");
    job.source("numbers", VecSource::new(vec![(0..1000_u64).collect()]))
        .key_by(|number| *number)
        .fold("count", |count: &mut u64, _| {
            *count += 1;
            *count
        })
        .sink("out", Collect::new());
    let mut settings = Settings::default();
    settings.checkpoint_interval = Some(Duration::from_millis(1));
    let store = LocalBlobs::open(directory.path()).unwrap();
    job.start(store, settings).unwrap().wait().unwrap();

    let mut found = BTreeMap::<String, Vec<(Vec<(String, String)>, DebugValue)>>::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let labels = key.key().labels();
        let labels = labels.map(|label| (label.key().to_owned(), label.value().to_owned()));
        let entry = found.entry(key.key().name().to_owned()).or_default();
        entry.push((labels.collect(), value));
    }
    // Some may have been aborted as well, at the job's end.
    let outcome = ("outcome".to_owned(), "completed".to_owned());
    let counters = &found["cutwater_checkpoints_total"];
    let completed = counters
        .iter()
        .find(|(labels, _)| labels.contains(&outcome));
    let Some((_, DebugValue::Counter(completed))) = completed else {
        panic!("{found:?}");
    };
    assert!(*completed > 0);
    assert!(found.contains_key("cutwater_checkpoint_duration_seconds"));
    for part in [
        "start_delay_seconds",
        "alignment_seconds",
        "sync_seconds",
        "async_seconds",
        "aligned_bytes",
        "in_flight_bytes",
        "written_bytes",
        "full_bytes",
    ] {
        let tasks = &found[&format!("cutwater_checkpoint_{part}")];
        assert_eq!(
            tasks.len(),
            2,
            "the source's task and the keyed one's: {part}"
        );
        for (_, value) in tasks {
            let DebugValue::Histogram(values) = value else {
                panic!("{part}: {value:?}");
            };
            assert_eq!(values.len() as u64, *completed, "{part}");
        }
    }
}
