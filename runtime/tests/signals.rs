//! SIGTERM and Ctrl-C stop a job with a checkpoint. In a process of their own, as signals reach all of
//! a process.
#![cfg(unix)]

use std::{
    sync::{Mutex, mpsc::sync_channel},
    time::Duration,
};

use cutwater_runtime::{Collect, Job, Settings, State};
use cutwater_source::VecSource;
use cutwater_storage::LocalBlobs;
use rustix::process::{Signal, getpid, kill_process};

#[test]
fn a_signal_stops_the_job_with_a_checkpoint_and_it_continues_later() {
    let directory = tempfile::tempdir().unwrap();
    let output = Collect::new();
    let build = |until: u64| {
        let (reached, at) = sync_channel(0);
        let (release, released) = sync_channel(0);
        let released = Mutex::new(released);
        let job = Job::new("signalled");
        job.source("numbers", VecSource::new(vec![(0..3_000_u64).collect()]))
            .map(move |number| {
                if number == until {
                    // The signal comes in the middle of the input.
                    reached.send(()).unwrap();
                    released.lock().unwrap().recv().unwrap();
                }
                number
            })
            .sink("out", output.clone());
        (job, at, release)
    };
    let mut settings = Settings::default();
    settings.batch_size = 1;
    settings.checkpoint_interval = Some(Duration::from_secs(3600));
    for (until, signal) in [(1_000, Signal::TERM), (2_000, Signal::INT)] {
        let (job, at, release) = build(until);
        let store = LocalBlobs::open(directory.path()).unwrap();
        let handle = job.start(store, settings.clone()).unwrap();
        handle.stop_on_signals().unwrap();
        at.recv_timeout(Duration::from_secs(60)).unwrap();
        kill_process(getpid(), signal).unwrap();
        for _ in 0..60_000 {
            if handle.status().state == State::Stopping {
                break;
            }
            // Nobody sends: this is a wait of a millisecond.
            let _elapsed = at.recv_timeout(Duration::from_millis(1));
        }
        assert_eq!(handle.status().state, State::Stopping);
        release.send(()).unwrap();
        assert!(!handle.wait().unwrap().is_finished);
    }
    let (job, _at, _release) = build(u64::MAX);
    let store = LocalBlobs::open(directory.path()).unwrap();
    let handle = job.start(store, settings).unwrap();
    assert!(handle.wait().unwrap().is_finished);
    let mut numbers = output.take();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..3_000).collect::<Vec<_>>());
}
