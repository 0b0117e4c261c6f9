//! The input: which logs a folder has, and what they add up to, by one pass that owes nothing to the
//! runtime.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use csv::StringRecord;
use cutwater_runtime::BoxError;
use flate2::read::MultiGzDecoder;

use crate::flight::{Totals, Update};

/// Totals by tail number.
pub(crate) type Fleet = BTreeMap<String, Totals>;

/// The file with the right answer, beside the logs.
pub(crate) const EXPECTED: &str = "expected-by-tailnum.csv";

/// The logs in `data`: its files `*.csv` and `*.csv.gz`, by name.
pub(crate) fn find(data: &Path) -> Result<Vec<PathBuf>, BoxError> {
    let at = |error| format!("cannot list the logs in {}: {error}", data.display());
    let mut logs = Vec::new();
    for entry in fs::read_dir(data).map_err(at)? {
        let path = entry.map_err(at)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name != EXPECTED && (name.ends_with(".csv") || name.ends_with(".csv.gz")) {
            logs.push(path);
        }
    }
    if logs.is_empty() {
        return Err(format!("{} has no *.csv or *.csv.gz", data.display()).into());
    }
    logs.sort();
    Ok(logs)
}

/// Counts `logs` in one pass, row by row, by the names of their columns.
pub(crate) fn count(logs: &[PathBuf]) -> Result<Fleet, BoxError> {
    let mut fleet = Fleet::new();
    for log in logs {
        count_log(log, &mut fleet).map_err(|error| format!("{}: {error}", log.display()))?;
    }
    Ok(fleet)
}

fn count_log(log: &Path, fleet: &mut Fleet) -> Result<(), BoxError> {
    let file = File::open(log)?;
    let bytes: Box<dyn Read> = if log.extension().is_some_and(|extension| extension == "gz") {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let mut rows = csv::Reader::from_reader(bytes);
    let header = rows.headers()?.clone();
    let column = |name: &str| {
        let index = header.iter().position(|column| column == name);
        index.ok_or_else(|| format!("there is no column {name}"))
    };
    let [tailnum, distance, dep_time, dep_delay] = [
        column("tailnum")?,
        column("distance")?,
        column("dep_time")?,
        column("dep_delay")?,
    ];
    let mut row = StringRecord::new();
    while rows.read_record(&mut row)? {
        let totals = fleet.entry(row[tailnum].to_owned()).or_default();
        totals.flights += 1;
        totals.distance_miles += row[distance].parse::<u64>()?;
        totals.cancelled += u64::from(&row[dep_time] == "NA");
        if &row[dep_delay] != "NA" {
            totals.dep_delay_minutes += row[dep_delay].parse::<i64>()?;
        }
    }
    Ok(())
}

/// What `data` says is right.
pub(crate) fn expected(data: &Path) -> Result<Fleet, BoxError> {
    let path = data.join(EXPECTED);
    let at = |error: csv::Error| format!("{}: {error}", path.display());
    let mut fleet = Fleet::new();
    for row in csv::Reader::from_path(&path).map_err(at)?.deserialize() {
        let row: Update = row.map_err(at)?;
        fleet.insert(row.tailnum.clone(), row.totals());
    }
    Ok(fleet)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{count, expected, find};

    #[test]
    fn one_pass_over_january_gives_what_is_expected() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/flights-2013-01");
        let fleet = count(&find(&data).unwrap()).unwrap();
        assert_eq!(fleet, expected(&data).unwrap());
        let flights: u64 = fleet.values().map(|totals| totals.flights).sum();
        assert_eq!((flights, fleet.len()), (27_004, 3_149));
    }

    #[test]
    fn a_folder_without_logs_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = find(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("has no *.csv or *.csv.gz"), "{error}");
    }
}
