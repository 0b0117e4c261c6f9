//! `cargo xtask test`: runs the stages one after the other and sums them up.
//!
//! A failed stage does not stop the others, so one run shows everything there is to mend. The last
//! line names what failed.

use std::time::{Duration, Instant};

use crate::{
    disk,
    stages::{self, Outcome, Stage},
    workspace::Workspace,
};

/// Runs the stages called `names`, or all.
pub(crate) fn run(workspace: &Workspace, names: &[String]) -> Result<(), String> {
    let mut results = Vec::new();
    for stage in chosen(names)? {
        println!("\n=== {}: {}", stage.name, stage.what);
        let start = now();
        let outcome = (stage.run)(workspace);
        let time = start.elapsed();
        if let Outcome::Failed(message) = &outcome {
            eprintln!("{message}");
        }
        println!(
            "=== {}: {}, {:.1} s",
            stage.name,
            word(&outcome),
            time.as_secs_f64()
        );
        results.push((stage.name, time, outcome));
    }
    println!("\n{}", table(&results));
    verdict(&results).map_err(|failed| match disk::remark(workspace) {
        Some(remark) => format!("{failed}\n{remark}"),
        None => failed,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the times of the stages are for people to read"
)]
fn now() -> Instant {
    Instant::now()
}

/// In the order of the list, whatever the order of the names.
fn chosen(names: &[String]) -> Result<Vec<&'static Stage>, String> {
    if let Some(unknown) = names
        .iter()
        .find(|name| stages::ALL.iter().all(|stage| stage.name != **name))
    {
        return Err(format!(
            "no stage is called `{unknown}`\n\n{}",
            stages::list()
        ));
    }
    let wanted = |stage: &&Stage| names.is_empty() || names.iter().any(|name| name == stage.name);
    Ok(stages::ALL.iter().filter(wanted).collect())
}

fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Passed => "passed".to_owned(),
        Outcome::Failed(_) => "FAILED".to_owned(),
        Outcome::NotRun(reason) => format!("not run, because {reason}"),
    }
}

type Row = (&'static str, Duration, Outcome);

fn table(results: &[Row]) -> String {
    let mut lines = vec![format!("{:<10} {:>9}  result", "stage", "time")];
    for (name, time, outcome) in results {
        lines.push(format!(
            "{name:<10} {:>7.1} s  {}",
            time.as_secs_f64(),
            word(outcome)
        ));
    }
    let total: Duration = results.iter().map(|(_, time, _)| *time).sum();
    lines.push(format!("{:<10} {:>7.1} s", "total", total.as_secs_f64()));
    lines.join("\n")
}

fn verdict(results: &[Row]) -> Result<(), String> {
    let failed = results
        .iter()
        .filter(|(_, _, outcome)| matches!(outcome, Outcome::Failed(_)));
    let failed: Vec<&str> = failed.map(|(name, ..)| *name).collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("failed: {}", failed.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Outcome, Row, chosen, table, verdict};

    fn names(wanted: &[&str]) -> Result<Vec<&'static str>, String> {
        let wanted: Vec<_> = wanted.iter().map(|&name| name.to_owned()).collect();
        Ok(chosen(&wanted)?
            .into_iter()
            .map(|stage| stage.name)
            .collect())
    }

    #[test]
    fn stages_run_in_their_own_order() {
        assert_eq!(names(&["clippy", "fmt"]).unwrap(), ["fmt", "clippy"]);
        assert_eq!(names(&[]).unwrap().len(), super::stages::ALL.len());
    }

    #[test]
    fn a_misspelt_stage_is_an_error_that_lists_the_stages() {
        let error = names(&["fmt", "clipy"]).unwrap_err();
        assert!(error.starts_with("no stage is called `clipy`"), "{error}");
        assert!(error.contains("\n  clippy "), "{error}");
    }

    fn results() -> Vec<Row> {
        vec![
            ("fmt", Duration::from_millis(1260), Outcome::Passed),
            (
                "clippy",
                Duration::from_secs(61),
                Outcome::Failed("exit status: 101".to_owned()),
            ),
            (
                "msrv",
                Duration::ZERO,
                Outcome::NotRun("toolchain 1.0 is not installed".to_owned()),
            ),
        ]
    }

    #[test]
    fn the_table_has_every_stage_with_time_and_result() {
        let expected = "\
stage           time  result
fmt            1.3 s  passed
clippy        61.0 s  FAILED
msrv           0.0 s  not run, because toolchain 1.0 is not installed
total         62.3 s";
        assert_eq!(table(&results()), expected);
    }

    #[test]
    fn a_stage_that_failed_is_named_and_one_that_was_not_run_is_no_failure() {
        let mut results = results();
        assert_eq!(verdict(&results), Err("failed: clippy".to_owned()));
        results.remove(1);
        assert_eq!(verdict(&results), Ok(()));
    }
}
