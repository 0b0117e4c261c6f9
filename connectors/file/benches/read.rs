//! What `FileSource` costs a record, against a loop of the `csv` or `serde_json` crate over the same
//! file, which knows no position, checks no fingerprint and holds no batch.
//!
//! One iteration reads the whole file from discovery to end. Besides criterion's figures the ratio is
//! taken pairwise, both sides in turn, and its median printed, as the machine may be busy.
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::{
    collections::BTreeSet,
    env,
    fs::File,
    hint::black_box,
    io::{BufRead as _, BufReader, Read, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput};
use csv::ByteRecord;
use cutwater_file::FileSource;
use cutwater_source::{Enumerator, Reader, ReaderContext, Source, Status};
use flate2::{read::MultiGzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

const RECORDS: u32 = 100_000;
const BATCH: usize = 1024;
const PAIRS: usize = 15;
/// Of the files' own readers too.
const BUFFER_BYTES: usize = 64 << 10;

#[derive(Clone, Deserialize, Serialize)]
struct Flight {
    carrier: String,
    tailnum: String,
    origin: String,
    distance: u32,
    delay: i32,
}

fn flights() -> impl Iterator<Item = Flight> {
    (0..RECORDS).map(|i| Flight {
        carrier: ["UA", "AA", "B6", "DL"][i as usize % 4].to_owned(),
        tailnum: format!("N{:05}", i.wrapping_mul(2_654_435_761) % 100_000),
        origin: ["EWR", "JFK", "LGA"][i as usize % 3].to_owned(),
        distance: i.wrapping_mul(40_503) % 5_000,
        delay: i32::try_from(i % 300).expect("below 300") - 20,
    })
}

fn csv_text() -> Vec<u8> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    for flight in flights() {
        csv.serialize(flight).expect("written to memory");
    }
    csv.into_inner().expect("written to memory")
}

fn json_text() -> Vec<u8> {
    let mut text = Vec::new();
    for flight in flights() {
        serde_json::to_writer(&mut text, &flight).expect("written to memory");
        text.push(b'\n');
    }
    text
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("written to memory");
    encoder.finish().expect("written to memory")
}

/// The miles of all flights, by the public contract, as an engine's task would read them.
fn through_source(source: &FileSource<Flight>) -> u64 {
    let mut enumerator = source.enumerator(None).expect("one file");
    let found = enumerator.discover(&BTreeSet::new()).expect("it is there");
    let mut reader = source.reader(ReaderContext::new(0, 1)).expect("a reader");
    reader.add_splits(found.splits).expect("unchanged");
    reader.no_more_splits();
    let mut batch = Vec::with_capacity(BATCH);
    let mut miles = 0;
    loop {
        let status = reader.poll_batch(&mut batch, BATCH).expect("a sound file");
        for flight in batch.drain(..) {
            miles += u64::from(black_box(flight).distance);
        }
        if status == Status::Finished {
            return miles;
        }
    }
}

/// The `csv` crate at its quickest: one row of bytes, used again.
fn bare_csv(bytes: impl Read) -> u64 {
    let mut builder = csv::ReaderBuilder::new();
    let mut csv = builder.buffer_capacity(BUFFER_BYTES).from_reader(bytes);
    let header = csv.byte_headers().expect("a header").clone();
    let mut row = ByteRecord::new();
    let mut miles = 0;
    while csv.read_byte_record(&mut row).expect("a sound file") {
        let flight: Flight = row.deserialize(Some(&header)).expect("a sound row");
        miles += u64::from(black_box(flight).distance);
    }
    miles
}

/// One line, used again, and `serde_json` over it.
fn bare_json(bytes: impl Read) -> u64 {
    let mut bytes = BufReader::with_capacity(BUFFER_BYTES, bytes);
    let mut line = Vec::new();
    let mut miles = 0;
    while bytes.read_until(b'\n', &mut line).expect("a sound file") > 0 {
        let flight: Flight = serde_json::from_slice(&line).expect("a sound line");
        miles += u64::from(black_box(flight).distance);
        line.clear();
    }
    miles
}

fn compare(
    criterion: &mut Criterion,
    name: &str,
    bytes: usize,
    bare: &dyn Fn() -> u64,
    ours: &dyn Fn() -> u64,
) {
    assert_eq!(ours(), bare(), "both read the same records");
    let mut group = criterion.benchmark_group(format!("read {name}"));
    group.throughput(Throughput::ElementsAndBytes {
        elements: RECORDS.into(),
        bytes: bytes as u64,
    });
    group.bench_function("bare loop", |bencher| bencher.iter(bare));
    group.bench_function("FileSource", |bencher| bencher.iter(ours));
    group.finish();
    if env::args().any(|arg| arg == "--bench") {
        let timed = |run: &dyn Fn() -> u64| {
            let start = Instant::now();
            black_box(run());
            start.elapsed().as_secs_f64()
        };
        let mut ratios: Vec<f64> = (0..PAIRS).map(|_| timed(ours) / timed(bare)).collect();
        ratios.sort_by(f64::total_cmp);
        #[expect(clippy::print_stdout, reason = "a bench reports its figures")]
        {
            println!(
                "read {name}: FileSource takes {:.2} times the bare loop\n",
                ratios[PAIRS / 2]
            );
        }
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    let directory = TempDir::new().expect("a temporary directory");
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).expect("room on the disk");
        path
    };
    let open = |path: &Path| File::open(path).expect("just written");

    let text = csv_text();
    let path = write("plain.csv", &text);
    let source = FileSource::csv([&path]);
    let bare = || bare_csv(open(&path));
    let ours = || through_source(&source);
    compare(&mut criterion, "CSV", text.len(), &bare, &ours);

    let path = write("gzip.csv.gz", &gzip(&text));
    let source = FileSource::csv([&path]);
    let bare = || {
        let file = BufReader::with_capacity(BUFFER_BYTES, open(&path));
        bare_csv(MultiGzDecoder::new(file))
    };
    let ours = || through_source(&source);
    compare(&mut criterion, "CSV, gzip", text.len(), &bare, &ours);

    let text = json_text();
    let path = write("plain.jsonl", &text);
    let source = FileSource::json_lines([&path]);
    let bare = || bare_json(open(&path));
    let ours = || through_source(&source);
    compare(&mut criterion, "JSON lines", text.len(), &bare, &ours);
    criterion.final_summary();
}
