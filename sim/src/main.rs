fn main() {
    let from: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let n: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    std::panic::set_hook(Box::new(|_| {}));
    let mut all = cutwater_sim::Coverage::default();
    let mut fails = 0;
    for seed in from..from + n {
        match cutwater_sim::run(seed) {
            Ok(c) => all.merge(&c),
            Err(f) => {
                fails += 1;
                if fails <= 1 { println!("{}", f.transcript); }
                if fails < 20 { println!("SEED {} {}", f.seed, f.what); }
            }
        }
    }
    println!("{all}\nfails {fails}");
}
