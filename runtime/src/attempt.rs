//! One execution attempt: what its tasks share, and how they are laid out and started.

use std::{
    any::Any,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc as mpsc_std},
    thread::{self, JoinHandle},
    time::Duration,
};

use cutwater_barrier::{
    Generation,
    coordinate::{Plan, TaskId},
};
use cutwater_keygroups::MaxParallelism;
use cutwater_storage::StateFiles;
use tokio::{runtime::Handle, sync::mpsc};

use crate::{
    Error, ErrorKind, Result, Settings,
    channel::Gate,
    clock::Clock,
    graph::{Chain, Graph, NodeId},
    restore::RestorePoint,
    stage::{Port, TaskError},
    task::{Control, Report, Task, TaskContext},
};

/// What all tasks of an attempt share.
pub(crate) struct Attempt {
    pub(crate) job: String,
    pub(crate) graph: Arc<Graph>,
    pub(crate) settings: Settings,
    pub(crate) generation: Generation,
    pub(crate) max_parallelism: MaxParallelism,
    pub(crate) restored: RestorePoint,
    pub(crate) files: StateFiles,
    pub(crate) clock: Clock,
    pub(crate) tokio: Handle,
    pub(crate) reports: mpsc::UnboundedSender<(TaskId, Report)>,
}

impl Attempt {
    /// Tells the coordinator. After the attempt's end nobody listens.
    pub(crate) fn report(&self, task: TaskId, report: Report) {
        let _nobody_listens = self.reports.send((task, report));
    }

    /// Makes the stages of a task without a source, and a port for each of its inputs.
    pub(crate) fn make_ports(
        &self,
        head: NodeId,
        context: &mut TaskContext,
    ) -> Result<Vec<Box<dyn Port>>> {
        let heads = self.graph.make_heads(head, context)?;
        let receive = |port| {
            let edge = self
                .graph
                .inputs_of(head)
                .find(|&edge| self.graph.edges[edge].port == port);
            self.graph.edges[edge.expect("every input is connected")].receive
        };
        let ports = heads.into_iter().enumerate();
        Ok(ports.map(|(port, stage)| receive(port)(stage)).collect())
    }
}

/// The tasks of an attempt, for the coordinator.
pub(crate) struct Tasks {
    pub(crate) plan: Plan,
    pub(crate) gates: Vec<Arc<Gate<Control>>>,
    /// For each source, the tasks of its subtasks.
    pub(crate) sources: BTreeMap<NodeId, Vec<TaskId>>,
    /// For each task, its chain and subtask, for people.
    pub(crate) names: Vec<String>,
    threads: Vec<JoinHandle<()>>,
    /// Disconnected when all threads have ended.
    alive: mpsc_std::Receiver<()>,
    /// A clone for each thread.
    living: Option<mpsc_std::Sender<()>>,
}

/// How long a task may take to notice that its attempt has ended: as long as one call of a user
/// function. Flink waits as long (`task.cancellation.timeout`) and then ends the process.
const CLOSE_MAX: Duration = Duration::from_secs(180);

impl Tasks {
    /// Lays the chains out into tasks and starts a thread for each.
    pub(crate) fn start(attempt: &Arc<Attempt>) -> Result<Self> {
        let graph = &attempt.graph;
        let default = attempt.settings.parallelism;
        let chains = graph.chains(default);
        let (living, alive) = mpsc_std::channel();
        let mut tasks = Self {
            plan: Plan::new(),
            gates: Vec::new(),
            sources: BTreeMap::new(),
            names: Vec::new(),
            threads: Vec::new(),
            alive,
            living: Some(living),
        };
        let mut layout = Layout::default();
        for chain in &chains {
            let first = tasks.gates.len();
            for subtask in 0..chain.parallelism {
                let inputs = layout.inputs_of(graph, chain, subtask, default);
                tasks.plan.task(inputs);
                let ranges = graph.channel_ranges(chain.head(), default);
                let channels = ranges.last().map_or(0, |(_, range)| range.end);
                tasks
                    .gates
                    .push(Gate::new(channels, attempt.settings.channel_capacity));
                tasks.names.push(name_of(graph, chain, subtask));
            }
            let ids: Vec<TaskId> = (first..tasks.gates.len()).map(TaskId).collect();
            if graph.inputs_of(chain.head()).next().is_none() {
                tasks.sources.insert(chain.head(), ids.clone());
            }
            for &node in &chain.nodes {
                layout.tasks.insert(node, ids.clone());
            }
        }
        for chain in &chains {
            for subtask in 0..chain.parallelism {
                let started = tasks.start_task(attempt, chain, subtask, &layout);
                if let Err(error) = started {
                    tasks.close();
                    return Err(error);
                }
            }
        }
        Ok(tasks)
    }

    fn start_task(
        &mut self,
        attempt: &Arc<Attempt>,
        chain: &Chain,
        subtask: u16,
        layout: &Layout,
    ) -> Result<()> {
        let graph = &attempt.graph;
        let default = attempt.settings.parallelism;
        let id = layout.tasks[&chain.head()][usize::from(subtask)];
        let ports = graph
            .channel_ranges(chain.head(), default)
            .into_iter()
            .flat_map(|(edge, range)| range.map(move |_| graph.edges[edge].port))
            .collect();
        let mut senders = BTreeMap::new();
        let leaving = chain.nodes.iter().flat_map(|&node| graph.outputs_of(node));
        for edge in leaving.filter(|&edge| !graph.is_chained(edge, default)) {
            let targets = &layout.tasks[&graph.edges[edge].to];
            let (targets, channel) = if graph.is_pointwise(edge, default) {
                (&targets[usize::from(subtask)..=usize::from(subtask)], 0)
            } else {
                (&targets[..], usize::from(subtask))
            };
            let first = graph
                .channel_ranges(graph.edges[edge].to, default)
                .into_iter()
                .find(|(input, _)| *input == edge)
                .map(|(_, range)| range.start)
                .expect("an edge is an input of its consumer");
            let lanes = targets
                .iter()
                .map(|target| self.gates[target.0].sender(first + channel));
            senders.insert(edge, lanes.collect());
        }
        let task = Task {
            id,
            head: chain.head(),
            context: TaskContext {
                attempt: Arc::clone(attempt),
                subtask,
                parallelism: chain.parallelism,
                max_parallelism: attempt.max_parallelism,
                senders,
            },
            gate: Arc::clone(&self.gates[id.0]),
            ports,
        };
        let name = self.names[id.0].clone();
        let thread = thread::Builder::new().name(name.clone());
        let attempt = Arc::clone(attempt);
        let living = self.living.clone();
        let started = thread.spawn(move || {
            run(&attempt, &name, task);
            drop(living);
        });
        self.threads.push(started.map_err(|error| {
            let message = format!("no thread could be started for task {}", self.names[id.0]);
            Error::new(ErrorKind::Failed, message).with_source(error)
        })?);
        Ok(())
    }

    pub(crate) fn tell(&self, task: TaskId, message: Control) {
        self.gates[task.0].tell(message);
    }

    pub(crate) fn tell_all(&self, message: impl Fn() -> Control) {
        self.gates.iter().for_each(|gate| gate.tell(message()));
    }

    /// Ends all tasks, whatever they wait for, and waits for their threads.
    ///
    /// A thread that is inside a user function ends when that returns. One that never does is left
    /// behind: it is fenced, can send and commit nothing, and must not keep the job from restarting.
    pub(crate) fn close(&mut self) {
        self.gates.iter().for_each(|gate| gate.close());
        self.living = None;
        let _disconnected_or_late = self.alive.recv_timeout(CLOSE_MAX);
        for thread in self.threads.drain(..) {
            if thread.is_finished() {
                // A panic inside has been caught and reported.
                let _ended = thread.join();
            } else {
                let task = thread.thread().name().unwrap_or("").to_owned();
                tracing::error!(
                    task,
                    "a task does not return from its user function; leaving it"
                );
            }
        }
    }
}

/// Which tasks run which node.
#[derive(Default)]
struct Layout {
    tasks: BTreeMap<NodeId, Vec<TaskId>>,
}

impl Layout {
    /// The tasks that feed subtask `subtask` of `chain`.
    fn inputs_of(&self, graph: &Graph, chain: &Chain, subtask: u16, default: u16) -> Vec<TaskId> {
        let feeding = |edge: usize| {
            let from = &self.tasks[&graph.edges[edge].from];
            if graph.is_pointwise(edge, default) {
                vec![from[usize::from(subtask)]]
            } else {
                from.clone()
            }
        };
        graph.inputs_of(chain.head()).flat_map(feeding).collect()
    }
}

/// What the thread of a task is called: its chain and subtask.
fn name_of(graph: &Graph, chain: &Chain, subtask: u16) -> String {
    let names = chain.nodes.iter().map(|&node| {
        let node = &graph.nodes[node];
        node.uid.as_deref().unwrap_or(node.name)
    });
    format!("{} ({subtask})", names.collect::<Vec<_>>().join("→"))
}

/// Runs a task to its end, and reports how it ended. A panic is a failure like any other.
fn run(attempt: &Attempt, name: &str, task: Task) {
    let id = task.id;
    let report = match catch_unwind(AssertUnwindSafe(|| task.run())) {
        Ok(Ok(last)) => Report::Ended { last },
        Ok(Err(TaskError::Closed)) => return,
        Ok(Err(TaskError::Failed(error))) => Report::Failed(error),
        Err(panic) => {
            let message = format!("task {name} panicked: {}", panic_message(&*panic));
            Report::Failed(Error::new(ErrorKind::Failed, message))
        }
    };
    attempt.report(id, report);
}

pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let message = panic.downcast_ref::<&str>().copied();
    message
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
