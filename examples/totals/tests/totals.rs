//! The command on files of all sorts: sums that are right, errors that say where, a job that goes on.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

/// A folder for one test, and the command line for it.
struct Workplace {
    folder: tempfile::TempDir,
}

impl Workplace {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    fn command(&self, options: &[&str], files: &[PathBuf]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cutwater-example-totals"));
        command.args(options).args(files);
        command.arg("--checkpoints").arg(self.path("checkpoints"));
        command.arg("--output").arg(self.path("output"));
        command
    }

    fn totals(&self, options: &[&str], files: &[PathBuf]) -> Output {
        self.command(options, files).output().unwrap()
    }

    /// All committed rows: key, rows so far, sums so far.
    fn committed(&self) -> Vec<(String, u64, Vec<String>)> {
        let mut updates = Vec::new();
        for entry in fs::read_dir(self.path("output")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let mut rows = csv::Reader::from_path(path).unwrap();
                updates.extend(rows.deserialize().map(Result::unwrap));
            }
        }
        updates
    }

    /// Checks that each key's updates count from 1 to its number of rows, and gives the last ones.
    fn last_updates(&self) -> BTreeMap<String, (u64, Vec<String>)> {
        let mut counts: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let mut last = BTreeMap::new();
        for (key, rows, sums) in self.committed() {
            counts.entry(key.clone()).or_default().push(rows);
            let highest: &mut (u64, Vec<String>) = last.entry(key).or_default();
            if rows > highest.0 {
                *highest = (rows, sums);
            }
        }
        for (key, counts) in &mut counts {
            counts.sort_unstable();
            let all: Vec<_> = (1..=last[key].0).collect();
            assert_eq!(*counts, all, "the updates of {key}");
        }
        last
    }
}

fn said(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    both.concat()
}

fn january() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/flights-2013-01");
    ["EWR", "JFK", "LGA"]
        .map(|log| data.join(format!("{log}.csv.gz")))
        .to_vec()
}

const FLIGHTS: [&str; 6] = [
    "--key",
    "tailnum",
    "--sum",
    "distance",
    "--sum",
    "dep_delay",
];

/// The totals that came with the flights.
fn expected() -> BTreeMap<String, (u64, Vec<String>)> {
    let path = january()[0].with_file_name("expected-by-tailnum.csv");
    let mut rows = csv::Reader::from_path(path).unwrap();
    let rows = rows.deserialize().map(Result::unwrap);
    rows.map(
        |(tailnum, flights, miles, minutes, _): (String, u64, String, String, u64)| {
            (tailnum, (flights, vec![miles, minutes]))
        },
    )
    .collect()
}

#[test]
fn sums_agree_with_those_that_came_with_the_files() {
    let work = Workplace::new();
    let output = work.totals(&FLIGHTS, &january());
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(work.last_updates(), expected());
    let said = said(&output);
    assert!(said.contains("3,149 keys, 27,004 rows; finished"), "{said}");
}

#[test]
fn keys_with_the_most_rows_come_first() {
    let work = Workplace::new();
    let file = work.write("paid.csv", "city,paid\nUri,0.10\nZug,5\nUri,0.2\nUri,\n");
    let options = ["--key", "city", "--sum", "paid", "--top", "1"];
    let output = work.totals(&options, &[file]);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("0.30"), "{said}");
    assert!(!said.contains("Zug"), "{said}");
}

#[test]
fn a_file_added_later_is_added_to_the_totals() {
    let work = Workplace::new();
    let first = work.write("first.csv", "city,paid\nUri,1\n");
    let second = work.write("second.csv", "city,paid\nUri,2\nZug,3\n");
    let options = ["--key", "city", "--sum", "paid"];
    assert!(
        work.totals(&options, std::slice::from_ref(&first))
            .status
            .success()
    );
    assert!(work.totals(&options, &[first, second]).status.success());
    let sum = |rows, paid: &str| (rows, vec![paid.to_owned()]);
    let expected = [("Uri", sum(2, "3")), ("Zug", sum(1, "3"))];
    let expected = expected.map(|(city, sum)| (city.to_owned(), sum));
    assert_eq!(work.last_updates(), BTreeMap::from(expected));
}

/// What runs is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

#[test]
fn a_job_stopped_by_ctrl_c_is_continued_by_the_same_command() {
    let work = Workplace::new();
    let slowly = [&FLIGHTS[..], &["--rate", "2000"]].concat();
    let mut command = work.command(&slowly, &january());
    let mut running = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut out = BufReader::new(running.0.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("Ctrl-C stops with a checkpoint"), "{line}");
    let interrupt = Command::new("kill")
        .args(["-INT", &running.0.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(130), "{rest}");
    assert!(rest.contains("stopped at checkpoint"), "{rest}");

    let other_parallelism = [&FLIGHTS[..], &["--parallelism", "3"]].concat();
    let output = work.totals(&other_parallelism, &january());
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(work.last_updates(), expected());
}

#[test]
fn a_bad_row_is_named_by_file_and_line_and_can_be_skipped() {
    let work = Workplace::new();
    for (name, row, reason) in [
        (
            "cell.csv",
            "Zug,much",
            "column \"paid\": \"much\" is no number",
        ),
        ("short.csv", "Zug", "1 fields, but the header has 2"),
    ] {
        let file = work.write(name, &format!("city,paid\nUri,1\n{row}\nUri,2\n"));
        let options = ["--key", "city", "--sum", "paid"];
        let output = work.totals(&options, std::slice::from_ref(&file));
        assert_eq!(output.status.code(), Some(1));
        let said = said(&output);
        for part in [&format!("{name}, line 3"), reason] {
            assert!(said.contains(part), "{part}: {said}");
        }

        let skipping = Workplace::new();
        let options = [&options[..], &["--skip-bad"]].concat();
        let output = skipping.totals(&options, &[file]);
        assert!(output.status.success(), "{}", self::said(&output));
        assert!(self::said(&output).contains("skipped a bad record"));
        let expected = ("Uri".to_owned(), (2, vec!["3".to_owned()]));
        assert_eq!(skipping.last_updates(), BTreeMap::from([expected]));
    }
}

#[test]
fn a_column_that_is_not_there_is_named_with_those_that_are() {
    let work = Workplace::new();
    let file = work.write("paid.csv", "city,paid\nUri,1\n");
    let options = ["--key", "city", "--sum", "tip", "--skip-bad"];
    let output = work.totals(&options, &[file]);
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(
        said.contains("has no column `tip`; it has `city`, `paid`"),
        "{said}"
    );
}

#[test]
fn totals_of_other_columns_are_not_mixed_in() {
    let work = Workplace::new();
    let file = work.write("paid.csv", "city,paid,tip\nUri,1,2\n");
    let files = [file];
    let paid = work.totals(&["--key", "city", "--sum", "paid"], &files);
    assert!(paid.status.success(), "{}", said(&paid));
    let tip = work.totals(&["--key", "city", "--sum", "tip"], &files);
    assert_eq!(tip.status.code(), Some(1));
    let said = said(&tip);
    assert!(said.contains("totals of paid by city"), "{said}");
    assert!(said.contains("choose other folders"), "{said}");
}
