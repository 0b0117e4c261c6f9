//! The demo itself on a part of the logs: it ends well when all is well, and only then.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use flate2::read::MultiGzDecoder;

const LOGS: [&str; 3] = ["EWR", "JFK", "LGA"];

/// Of each log so many flights are read.
const FLIGHTS: usize = 2000;

/// A folder with the first flights of each log, and what they add up to.
fn data(folder: &Path) -> PathBuf {
    let data = folder.join("data");
    fs::create_dir(&data).unwrap();
    let january = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/flights-2013-01");
    // Flights, miles, minutes, cancelled; nothing here is shared with the program.
    let mut expected: BTreeMap<String, [i64; 4]> = BTreeMap::new();
    for log in LOGS {
        let file = File::open(january.join(format!("{log}.csv.gz"))).unwrap();
        let lines = BufReader::new(MultiGzDecoder::new(file)).lines();
        let lines: Vec<_> = lines.take(1 + FLIGHTS).map(Result::unwrap).collect();
        fs::write(data.join(format!("{log}.csv")), lines.join("\n") + "\n").unwrap();
        for line in &lines[1..] {
            let fields: Vec<_> = line.split(',').collect();
            let [dep_time, dep_delay, tailnum, distance] = [3, 5, 11, 15].map(|n| fields[n]);
            let totals = expected.entry(tailnum.to_owned()).or_default();
            totals[0] += 1;
            totals[1] += distance.parse::<i64>().unwrap();
            totals[2] += dep_delay.parse::<i64>().unwrap_or(0);
            totals[3] += i64::from(dep_time == "NA");
        }
    }
    let mut rows = "tailnum,flights,distance_miles,dep_delay_minutes,cancelled\n".to_owned();
    for (tailnum, [flights, miles, minutes, cancelled]) in expected {
        rows += &format!("{tailnum},{flights},{miles},{minutes},{cancelled}\n");
    }
    fs::write(data.join("expected-by-tailnum.csv"), rows).unwrap();
    data
}

fn flights(arguments: &[&str], data: &Path, directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cutwater-example-flights"));
    command.args(arguments).arg("--data").arg(data);
    match arguments {
        ["compare"] => command.arg(directory),
        _ => command.arg("--dir").arg(directory),
    };
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    both.concat()
}

#[test]
fn a_job_killed_in_every_window_commits_every_update_once() {
    let folder = tempfile::tempdir().unwrap();
    let (data, directory) = (data(folder.path()), folder.path().join("demo"));
    let demo = flights(
        &["demo", "--seed", "1", "--rate", "1500"],
        &data,
        &directory,
    );
    let said = said(&demo);
    assert!(demo.status.success(), "{said}");
    for part in [
        "run 1 was killed",
        "run 4 was killed",
        "between prepared and completed of checkpoint",
        "between completed and committed of checkpoint",
        "2 → 3",
        "3 → 1",
        "1 → 4",
        "Committed: 6,000 updates",
        "✓ every update is there exactly once",
        "✓ the totals are those of one pass over the logs",
        "✓ the totals are those of expected-by-tailnum.csv",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    a_committed_file_that_is_doubled_or_lost_is_found(&data, &directory);
    totals_that_are_expected_otherwise_are_found(&data, &directory);
}

fn a_committed_file_that_is_doubled_or_lost_is_found(data: &Path, directory: &Path) {
    assert!(flights(&["compare"], data, directory).status.success());
    let mut files = fs::read_dir(directory.join("output")).unwrap();
    let is_file = |path: &PathBuf| path.is_file();
    let file = files.find_map(|entry| Some(entry.unwrap().path()).filter(is_file));
    let file = file.unwrap();

    let twin = file.with_extension("twin.jsonl");
    fs::copy(&file, &twin).unwrap();
    let doubled = flights(&["compare"], data, directory);
    assert_eq!(doubled.status.code(), Some(1));
    assert!(
        said(&doubled).contains("is there 2 times"),
        "{}",
        said(&doubled)
    );
    fs::remove_file(twin).unwrap();

    let kept = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let lost = flights(&["compare"], data, directory);
    assert_eq!(lost.status.code(), Some(1));
    assert!(said(&lost).contains("✗ NOT"), "{}", said(&lost));
    fs::write(&file, kept).unwrap();
    assert!(flights(&["compare"], data, directory).status.success());
}

fn totals_that_are_expected_otherwise_are_found(data: &Path, directory: &Path) {
    let path = data.join("expected-by-tailnum.csv");
    let expected = fs::read_to_string(&path).unwrap();
    fs::write(&path, expected + "N0NE,1,2,3,0\n").unwrap();
    let wrong = flights(&["compare"], data, directory);
    assert_eq!(wrong.status.code(), Some(1));
    let said = said(&wrong);
    assert!(
        said.contains("✓ the totals are those of one pass"),
        "{said}"
    );
    assert!(said.contains("N0NE: nothing, but right is"), "{said}");
}

#[test]
fn records_that_barriers_overtook_are_counted_once_at_any_parallelism() {
    let folder = tempfile::tempdir().unwrap();
    let (data, directory) = (data(folder.path()), folder.path().join("demo"));
    let demo = flights(
        &["demo", "--unaligned", "--seed", "3", "--rate", "1500"],
        &data,
        &directory,
    );
    let said = said(&demo);
    assert!(demo.status.success(), "{said}");
    for part in [
        "run 4 was killed",
        "Committed: 6,000 updates",
        "✓ every update is there exactly once",
        "✓ the totals are those of one pass over the logs",
        "✓ records that were in flight came back with their checkpoint",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_demo_that_is_over_before_its_kills_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (data, directory) = (data(folder.path()), folder.path().join("demo"));
    let demo = flights(&["demo", "--rate", "0"], &data, &directory);
    assert_eq!(demo.status.code(), Some(1));
    let said = said(&demo);
    assert!(said.contains("use a lower --rate"), "{said}");
}

#[test]
fn a_run_that_fails_shows_why() {
    let folder = tempfile::tempdir().unwrap();
    let (data, directory) = (data(folder.path()), folder.path().join("demo"));
    let log = data.join("JFK.csv");
    // The first pass only asks whether this is NA; the job wants a number.
    let rows = fs::read_to_string(&log).unwrap();
    fs::write(&log, rows.replacen("2013,1,1,", "2013,1,1,soon", 1)).unwrap();
    let demo = flights(&["demo"], &data, &directory);
    assert_eq!(demo.status.code(), Some(1));
    let said = said(&demo);
    let reason = "JFK.csv, line 2: \"soon542\" is no number, nor NA";
    assert!(said.contains(reason), "{said}");
}

#[test]
fn a_folder_is_never_used_twice() {
    let folder = tempfile::tempdir().unwrap();
    let demo = flights(&["demo"], &data(folder.path()), folder.path());
    assert_eq!(demo.status.code(), Some(1));
    let said = said(&demo);
    assert!(said.contains("name a folder that does not exist"), "{said}");
}

/// One run of the job, as the demo starts it.
fn start_run(data: &Path, directory: &Path, rate: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cutwater-example-flights"));
    command.arg("run");
    for log in LOGS {
        command.arg("--input").arg(data.join(format!("{log}.csv")));
    }
    command
        .arg("--checkpoints")
        .arg(directory.join("checkpoints"));
    command.arg("--output").arg(directory.join("output"));
    command.args(["--parallelism", "2", "--rate", rate]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    piped.stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn of_two_processes_on_one_directory_the_older_stops_and_nothing_is_committed_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (data, directory) = (data(folder.path()), folder.path().join("demo"));
    fs::create_dir(&directory).unwrap();
    let mut older = start_run(&data, &directory, "500");
    // Held apart, as the run ends with it and waiting closes what the child still has.
    let stdin = older.stdin.take();
    let mut events = BufReader::new(older.stdout.take().unwrap()).lines();
    let completed = events.find(|line| line.as_ref().unwrap().contains("completed"));
    assert!(
        completed.is_some(),
        "the older process has completed a checkpoint"
    );

    let mut newer = start_run(&data, &directory, "20000");
    let newer_stdin = newer.stdin.take();
    let newer = newer.wait_with_output().unwrap();
    assert!(newer.status.success(), "{}", said(&newer));
    drop(newer_stdin);

    let rest: Vec<String> = events.map_while(Result::ok).collect();
    let older = older.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(older.status.code(), Some(1), "{rest:?}");
    let said = said(&older);
    assert!(said.contains("generation 2 has taken over"), "{said}");
    let compared = flights(&["compare"], &data, &directory);
    assert!(
        compared.status.success(),
        "{}",
        String::from_utf8_lossy(&compared.stdout)
    );
}
