//! `cutwater-sim`: simulates many jobs, or one whose transcript somebody wants to read.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool"
)]

use std::{env, panic, process::ExitCode};

use cutwater_sim::{Failure, Seeds, simulate, transcript};
use indicatif::{ProgressBar, ProgressStyle};

const USAGE: &str = "\
usage: sim [--seeds N] [--from S]    simulate N jobs (1000), from seed S (0), on all cores
       sim --seed S                  simulate one, and print what happened last";

fn main() -> ExitCode {
    panic::set_hook(Box::new(|_| {})); // Told below, with the seed.
    let result = match arguments(env::args().skip(1)) {
        Ok(Wanted::Many(seeds)) => many(&seeds),
        Ok(Wanted::One(seed)) => one(seed),
        Err(message) => Err(format!("{message}\n\n{USAGE}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

enum Wanted {
    Many(Seeds),
    One(u64),
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Wanted, String> {
    let mut seeds = Seeds::new(0, 1_000);
    while let Some(word) = words.next() {
        let value = words.next();
        let value = value.and_then(|value| value.replace('_', "").parse::<u64>().ok());
        let number = value.ok_or_else(|| format!("{word} needs a number"))?;
        match word.as_str() {
            "--seeds" => seeds.count = number,
            "--from" => seeds.first = number,
            "--seed" => return Ok(Wanted::One(number)),
            _ => return Err(format!("unknown option {word}")),
        }
    }
    Ok(Wanted::Many(seeds))
}

fn many(seeds: &Seeds) -> Result<(), String> {
    let bar = ProgressBar::new(seeds.count);
    let style = "{bar:40} {human_pos}/{human_len} jobs, {per_sec}, {eta} to go";
    bar.set_style(ProgressStyle::with_template(style).expect("a template"));
    let outcome = simulate(seeds, |done| bar.inc(done));
    bar.finish_and_clear();
    println!("{}", outcome.coverage);
    let Some(first) = outcome.failures.first() else {
        return Ok(());
    };
    let mut message = told(first);
    for failure in &outcome.failures[1..] {
        message += &format!("\nseed {}: {}", failure.seed, failure.what);
    }
    Err(message)
}

fn one(seed: u64) -> Result<(), String> {
    let (transcript, outcome) = transcript(seed);
    println!("{transcript}");
    match outcome {
        Ok(coverage) => {
            println!("{coverage}");
            Ok(())
        }
        Err(failure) => Err(format!("seed {seed}: {}", failure.what)),
    }
}

fn told(failure: &Failure) -> String {
    let Failure { seed, what, .. } = failure;
    let (transcript, _) = transcript(*seed);
    format!("{transcript}\nseed {seed}: {what}\nreplay it: cargo xtask sim --seed {seed}")
}
