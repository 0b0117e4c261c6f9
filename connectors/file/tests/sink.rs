//! The exam of `cutwater-sink-2pc`, on a real disk.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use cutwater_file::{FileSink, JsonLines, Rolling};
use cutwater_sink_2pc::testkit::{self, Target};
use tempfile::TempDir;

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
        let mut records = Vec::new();
        for path in files(self.0.path()) {
            if !is_staged(&path) {
                let text = fs::read_to_string(path).unwrap();
                assert!(text.ends_with('\n'), "nothing half-written is visible");
                records.extend(text.lines().map(|line| line.parse::<u64>().unwrap()));
            }
        }
        records
    }

    async fn unfinished(&self) -> Vec<String> {
        let staged = files(self.0.path())
            .into_iter()
            .filter(|path| is_staged(path));
        let names = staged.map(|path| path.display().to_string());
        names.filter(|name| !name.contains("/fence-")).collect()
    }
}

fn is_staged(path: &Path) -> bool {
    path.iter().any(|part| part == ".staging")
}

/// All files below.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// SPEC 5.10, with everything synced as in a job. The other ways to roll are in the unit tests, which
/// do not wait for the disk.
#[test]
fn file_sink_passes_the_exam_on_a_real_disk() {
    let rolling = Rolling::new(8, Duration::MAX);
    testkit::conforms(|| Directory(TempDir::new().unwrap(), rolling));
}
