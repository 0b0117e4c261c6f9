//! The job of one run: operators, edges, input; and how often each record is to be seen where.
//!
//! ```text
//!   sources        0 to 2 layers of passing and counting operators        a sink
//!   1 or 2 ─────▶ 1 or 2 each, one of them perhaps the head of a loop ──▶ and perhaps a counter
//! ```

use std::{fmt, time::Duration};

use cutwater_barrier::{Mode, coordinate::Config};

use crate::{
    random::Random,
    record::{Id, LAPS_MAX},
};

/// A job as its user writes it, whatever the parallelism.
#[derive(Debug)]
pub(crate) struct Job {
    /// In an order in which whoever feeds comes before whoever is fed, but for the feedback edge.
    pub(crate) operators: Vec<Operator>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) splits: Vec<Split>,
    pub(crate) exactly_once: bool,
    pub(crate) config: Config,
    /// Operators of the same number have the same parallelism.
    pub(crate) slots: usize,
    /// How many records a channel holds.
    pub(crate) capacity: usize,
    /// How many records a sender collects before it needs room in the channel.
    pub(crate) batch: usize,
    /// Whether an operator sees the records of one split and one key in their order.
    pub(crate) is_ordered: Vec<bool>,
    /// How often a record of so many laps that comes to an operator is seen by each operator.
    seen: Vec<Vec<Vec<u16>>>,
}

#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) role: Role,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) slot: usize,
    /// Whether its tasks end as soon as all their input has. Only those may that hold no state.
    pub(crate) finishes_early: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// Reads splits.
    Source,
    /// Hands records on, and has no state.
    Pass,
    /// Counts in keyed state how often it saw each record, and hands it on.
    Count,
    /// Writes records to the external system.
    Sink,
}

#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) exchange: Exchange,
    /// Leads back to the head of a loop.
    pub(crate) feedback: bool,
}

/// Which subtask a record goes to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exchange {
    /// The owner of its key group.
    Keyed,
    /// Any.
    Rebalance,
    /// The one of the sender's number.
    Forward,
    /// All; the owner of its key group takes it, the others drop it.
    Broadcast,
}

impl Exchange {
    /// Whether it cannot be re-routed, so that its channels are never overtaken.
    pub(crate) fn is_strict(self) -> bool {
        matches!(self, Self::Forward | Self::Broadcast)
    }
}

/// A part of the input that is read in order.
#[derive(Debug)]
pub(crate) struct Split {
    pub(crate) operator: usize,
    /// `None`: without end.
    pub(crate) records: Option<u16>,
}

impl Job {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut job = Self {
            operators: Vec::new(),
            edges: Vec::new(),
            splits: Vec::new(),
            exactly_once: random.percent(85),
            config: config(random),
            slots: 0,
            capacity: 1 + random.index(4),
            batch: 1 + random.index(3),
            is_ordered: Vec::new(),
            seen: Vec::new(),
        };
        // With at-least-once too: trackers take every barrier as an aligned one.
        let timeout = Duration::from_millis(random.below(40));
        let modes = [Mode::Aligned, Mode::AlignedFor(timeout), Mode::Unaligned];
        job.config.mode = random.pick(&modes);
        job.draw_operators(random);
        job.draw_loop(random);
        job.tolerate_expiry();
        job.number_slots();
        job.draw_splits(random);
        job.seen = (0..job.operators.len())
            .map(|operator| {
                (0..=LAPS_MAX)
                    .map(|laps| job.count(operator, laps))
                    .collect()
            })
            .collect();
        job.is_ordered = (0..job.operators.len())
            .map(|operator| job.orders(operator))
            .collect();
        job
    }

    fn draw_operators(&mut self, random: &mut Random) {
        let middle = random.index(3);
        if random.percent(3) {
            self.add_operator(Role::Source, false); // All there is.
            return;
        }
        let mut above: Vec<usize> = Vec::new();
        for layer in 0..middle + 2 {
            let width = 1 + usize::from(random.percent(30));
            let mut here = Vec::new();
            for place in 0..width {
                let role = match layer {
                    0 => Role::Source,
                    last if last == middle + 1 && place == 0 => Role::Sink,
                    last if last == middle + 1 => Role::Count,
                    _ => random.pick(&[Role::Pass, Role::Count]),
                };
                here.push(self.add_operator(role, random.percent(40)));
            }
            for (place, &from) in above.iter().enumerate() {
                // Everybody is fed by somebody, and feeds somebody.
                let first = place % here.len();
                for (other, &to) in here.iter().enumerate() {
                    let needed = other == first || (place == 0 && other >= above.len());
                    if needed || random.percent(35) {
                        self.draw_edge(random, from, to);
                    }
                }
            }
            above = here;
        }
    }

    fn add_operator(&mut self, role: Role, finishes_early: bool) -> usize {
        self.operators.push(Operator {
            role,
            inputs: Vec::new(),
            outputs: Vec::new(),
            slot: self.operators.len(),
            finishes_early: finishes_early && matches!(role, Role::Source | Role::Pass),
        });
        self.operators.len() - 1
    }

    fn draw_edge(&mut self, random: &mut Random, from: usize, to: usize) {
        let exchange = match (self.operators[to].role, random.below(10)) {
            (_, 0..2) => Exchange::Broadcast,
            (Role::Count, _) | (_, 2..5) => Exchange::Keyed,
            (_, 5..7) => Exchange::Rebalance,
            (_, _) => Exchange::Forward,
        };
        if exchange == Exchange::Forward {
            let (one, other) = (self.operators[from].slot, self.operators[to].slot);
            for operator in &mut self.operators {
                if operator.slot == other {
                    operator.slot = one;
                }
            }
        }
        self.add_edge(Edge {
            from,
            to,
            exchange,
            feedback: false,
        });
    }

    fn add_edge(&mut self, edge: Edge) {
        let index = self.edges.len();
        self.operators[edge.from].outputs.push(index);
        self.operators[edge.to].inputs.push(index);
        self.edges.push(edge);
    }

    /// From a middle operator back to itself, or to the one before.
    fn draw_loop(&mut self, random: &mut Random) {
        let is_middle = |operator: &usize| {
            matches!(self.operators[*operator].role, Role::Pass | Role::Count)
                && !self.operators[*operator].outputs.is_empty()
        };
        let middle: Vec<usize> = (0..self.operators.len()).filter(is_middle).collect();
        if middle.is_empty() || !random.percent(LOOPS) {
            return;
        }
        let from = random.pick(&middle);
        let before = self.operators[from].inputs.iter();
        let mut heads: Vec<usize> = before.map(|&edge| self.edges[edge].from).collect();
        heads.retain(|head| middle.contains(head));
        heads.push(from);
        let to = random.pick(&heads);
        self.config.concurrent_max = 1; // As `Input::Feedback` asks.
        for operator in [from, to] {
            self.operators[operator].finishes_early = false;
        }
        self.add_edge(Edge {
            from,
            to,
            exchange: Exchange::Keyed,
            feedback: true,
        });
    }

    /// Where some edges may be overtaken and others not, a checkpoint can get stuck until it expires. The
    /// next one is aligned and can not, so such a job must not fail for the first.
    fn tolerate_expiry(&mut self) {
        let is_mixed = self.edges.iter().any(|edge| edge.exchange.is_strict());
        if is_mixed && self.config.mode != Mode::Aligned {
            self.config.align_after_expiry = true;
            self.config.tolerable_failures = self.config.tolerable_failures.max(1);
        }
    }

    fn number_slots(&mut self) {
        let mut slots: Vec<usize> = self
            .operators
            .iter()
            .map(|operator| operator.slot)
            .collect();
        slots.sort_unstable();
        slots.dedup();
        for operator in &mut self.operators {
            operator.slot = slots.binary_search(&operator.slot).expect("just listed");
        }
        self.slots = slots.len();
    }

    fn draw_splits(&mut self, random: &mut Random) {
        let bounded = random.percent(80);
        let records_max = random.pick(&[8, 16, 40]);
        for operator in 0..self.operators.len() {
            if self.operators[operator].role == Role::Source {
                self.operators[operator].finishes_early &= bounded;
                for _ in 0..=random.index(3) {
                    let records = u16::try_from(random.below(records_max)).expect("few");
                    let records = bounded.then_some(records);
                    self.splits.push(Split { operator, records });
                }
            }
        }
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.splits.iter().all(|split| split.records.is_some())
    }

    /// The splits of a source, by number.
    pub(crate) fn splits_of(&self, operator: usize) -> impl Iterator<Item = u8> {
        let splits = self.splits.iter().enumerate();
        splits
            .filter(move |(_, split)| split.operator == operator)
            .map(|(number, _)| u8::try_from(number).expect("few splits"))
    }

    /// The edges by which `operator` hands on a record with `laps` to go, and how many it has then.
    pub(crate) fn outgoing(&self, operator: usize, laps: u8) -> impl Iterator<Item = (usize, u8)> {
        let outputs = &self.operators[operator].outputs;
        let back = outputs.iter().any(|&edge| self.edges[edge].feedback) && laps > 0;
        let taken = move |edge: &&usize| self.edges[**edge].feedback == back;
        outputs
            .iter()
            .filter(taken)
            .map(move |&edge| (edge, laps - u8::from(back)))
    }

    /// The operators in the loop, if there is one: its head and its tail.
    pub(crate) fn feedback(&self) -> Option<&Edge> {
        self.edges.iter().find(|edge| edge.feedback)
    }

    /// How often each operator sees a record because it came to `operator`, itself included.
    pub(crate) fn seen(&self, operator: usize, laps: u8) -> &[u16] {
        &self.seen[operator][usize::from(laps)]
    }

    /// The same, of a record of the input.
    pub(crate) fn seen_of(&self, id: Id) -> &[u16] {
        self.seen(self.splits[usize::from(id.split)].operator, id.laps())
    }

    /// Where there is one way for each record, and what has one key stays together on it.
    fn orders(&self, operator: usize) -> bool {
        if !self.exactly_once || self.feedback().is_some() {
            return false;
        }
        let sources = self
            .splits
            .iter()
            .map(|split| self.seen(split.operator, 0)[operator]);
        let mut below = vec![operator];
        while let Some(operator) = below.pop() {
            for edge in self.operators[operator]
                .inputs
                .iter()
                .map(|&edge| &self.edges[edge])
            {
                if edge.exchange == Exchange::Rebalance {
                    return false;
                }
                below.push(edge.from);
            }
        }
        sources.max() <= Some(1)
    }

    fn count(&self, operator: usize, laps: u8) -> Vec<u16> {
        let mut seen = vec![0; self.operators.len()];
        let mut coming = vec![(operator, laps)];
        while let Some((operator, laps)) = coming.pop() {
            seen[operator] += 1;
            let onward = self.outgoing(operator, laps);
            coming.extend(onward.map(|(edge, laps)| (self.edges[edge].to, laps)));
        }
        seen
    }
}

/// For the head of a transcript.
impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let guarantee = if self.exactly_once {
            "exactly"
        } else {
            "at least"
        };
        writeln!(f, "{guarantee} once, {:?}", self.config.mode)?;
        for (number, operator) in self.operators.iter().enumerate() {
            write!(f, "operator {number} {:?}:", operator.role)?;
            for &edge in &operator.inputs {
                let Edge { from, exchange, .. } = &self.edges[edge];
                write!(f, " edge {edge} from {from} {exchange:?};")?;
            }
            for split in self.splits_of(number) {
                let records = self.splits[usize::from(split)].records;
                write!(f, " split {split}, records {records:?};")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// How many of a hundred jobs with a middle have a loop.
const LOOPS: u64 = 35;

fn config(random: &mut Random) -> Config {
    let mut config = Config::every(Duration::from_millis(3 + random.below(20)));
    config.initial_delay = Duration::from_millis(random.below(10));
    config.min_pause = Duration::from_millis(random.below(8));
    config.concurrent_max = 1 + random.index(2);
    config.timeout = Duration::from_millis(60 + random.below(200));
    config.tolerable_failures = random.pick(&[0, 3, 1_000]);
    config.requests_max = 1 + random.index(2);
    config
}
