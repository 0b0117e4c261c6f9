//! Keyed state in a byte backend: the same jobs with the same results.

use cutwater_runtime::{ErrorKind, Snapshots};
use cutwater_state::{Backend, testkit::SortedRows};

use crate::{
    common::{counting, settings, start},
    rescale::stop_and_continue,
};
use cutwater_runtime::Collect;

/// With memory for a few rows only.
fn rows() -> Backend {
    Backend::rows(SortedRows::new(5_000))
}

#[test]
fn a_job_with_its_state_in_rows_continues_with_any_parallelism() {
    let rows = rows();
    stop_and_continue(|_, parallelism| {
        let mut settings = settings(parallelism);
        settings.backend = rows.clone();
        settings
    });
}

/// Full checkpoints of one backend are what another goes on from.
#[test]
fn a_job_changes_its_backend_with_every_run() {
    let backends = [Backend::memory(), rows()];
    stop_and_continue(|run, parallelism| {
        let mut settings = settings(parallelism);
        settings.snapshots = Snapshots::Full;
        settings.backend = backends[run % 2].clone();
        settings
    });
}

#[test]
fn a_backend_s_own_checkpoint_is_refused_by_another() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let mut settings = settings(2);
    settings.backend = rows();
    let job = counting(1_000, &output, |number| number);
    let outcome = start(job, directory.path(), settings.clone()).wait();
    assert!(outcome.unwrap().is_finished);
    settings.backend = Backend::memory();
    let job = counting(1_000, &output, |number| number);
    let error = start(job, directory.path(), settings).wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Restore);
}
