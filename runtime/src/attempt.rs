//! One execution attempt: what its tasks share, and how they are laid out and started.

use std::{
    any::Any,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc as mpsc_std,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use cutwater_barrier::{
    CheckpointId, Generation,
    align::Input,
    coordinate::{Plan, TaskId},
};
use cutwater_keygroups::MaxParallelism;
use cutwater_storage::StateFiles;
use tokio::{runtime::Handle, sync::mpsc};

use crate::{
    Error, ErrorKind, Result, Settings,
    alarm::Alarm,
    channel::{Gate, Sender},
    clock::Clock,
    graph::{Graph, NodeId},
    outlets::Backlog,
    restore::RestorePoint,
    stage::{Port, TaskError},
    task::{Control, InputChannel, Report, Task, TaskContext},
    topology::{Chain, Topology},
};

/// What all tasks of an attempt share.
pub(crate) struct Attempt {
    pub(crate) job: String,
    pub(crate) graph: Arc<Graph>,
    pub(crate) topology: Topology,
    pub(crate) settings: Settings,
    pub(crate) generation: Generation,
    pub(crate) max_parallelism: MaxParallelism,
    pub(crate) restored: RestorePoint,
    pub(crate) files: StateFiles,
    pub(crate) clock: Clock,
    pub(crate) tokio: Handle,
    pub(crate) reports: mpsc::UnboundedSender<(TaskId, Report)>,
    pub(crate) completed: NewestCompleted,
}

/// The newest checkpoint of the attempt that is complete. A barrier may reach a task before it hears that the
/// checkpoint before is: so who takes a snapshot asks here, and builds on what is retained.
#[derive(Debug, Default)]
pub(crate) struct NewestCompleted(AtomicU64);

impl NewestCompleted {
    /// Told before the next checkpoint is triggered.
    pub(crate) fn set(&self, checkpoint: CheckpointId) {
        self.0.store(checkpoint.get(), Ordering::Release);
    }

    pub(crate) fn get(&self) -> Option<CheckpointId> {
        let id = self.0.load(Ordering::Acquire);
        (id > 0).then(|| CheckpointId::new(id)) // ids begin at 1
    }
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
    /// For each node, the tasks of its subtasks.
    pub(crate) of: BTreeMap<NodeId, Vec<TaskId>>,
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
    /// Lays the chains out into tasks, puts restored records back into the channels, and starts a
    /// thread for each task.
    pub(crate) fn start(attempt: &Arc<Attempt>) -> Result<Self> {
        let topology = &attempt.topology;
        let chains = topology.chains();
        let (living, alive) = mpsc_std::channel();
        let mut tasks = Self {
            plan: Plan::new(),
            gates: Vec::new(),
            of: BTreeMap::new(),
            names: Vec::new(),
            threads: Vec::new(),
            alive,
            living: Some(living),
        };
        let mut layout = Vec::new();
        for chain in &chains {
            let first = tasks.gates.len();
            for subtask in 0..chain.parallelism {
                let channels = input_channels(attempt, chain, subtask);
                // Whoever sends to it, but for a loop's way back, stands before it.
                let feeding = channels.iter();
                let feeding: Vec<_> = feeding
                    .filter_map(|channel| tasks.feeding(attempt, channel))
                    .collect();
                tasks.plan.task(feeding);
                let inputs = channels.iter().map(|channel| channel.input);
                let gate = Gate::new(inputs, attempt.settings.capacity());
                tasks.gates.push(gate);
                tasks.names.push(name_of(&attempt.graph, chain, subtask));
                layout.push((chain, subtask, channels));
            }
            let ids: Vec<TaskId> = (first..tasks.gates.len()).map(TaskId).collect();
            for &node in &chain.nodes {
                tasks.of.insert(node, ids.clone());
            }
        }
        tasks.replay(attempt)?;
        for (chain, subtask, channels) in layout {
            if let Err(error) = tasks.start_task(attempt, chain, subtask, channels) {
                tasks.close();
                return Err(error);
            }
        }
        Ok(tasks)
    }

    /// The task that must reach the end of its input before the reader of `channel` can; none for a
    /// loop's way back.
    fn feeding(&self, attempt: &Attempt, channel: &InputChannel) -> Option<TaskId> {
        let from = attempt.graph.edges[channel.edge].from;
        (channel.input != Input::Feedback).then(|| self.of[&from][usize::from(channel.from)])
    }

    /// Records that were in flight when the restored checkpoint was taken enter their edges again.
    fn replay(&self, attempt: &Arc<Attempt>) -> Result<()> {
        for restored in attempt.restored.take_in_flight() {
            let edge = restored.edge;
            let parallelism = attempt
                .topology
                .parallelism_of(attempt.graph.edges[edge].from);
            // In the order of the file, all through one channel into each subtask. What is still
            // unread at the next checkpoint is then again in front of everything newer (of its key).
            let from = if attempt.topology.is_pointwise(edge) {
                restored.from % parallelism
            } else {
                0
            };
            // An edge that deals out in turn begins where the records were.
            let context = self.context(attempt, &[], restored.to, parallelism);
            let exchange =
                (attempt.graph.edges[edge].connect)(&context, self.senders(attempt, edge, from));
            (attempt.graph.edges[edge].replay)(&restored.bytes, restored.records, exchange)
                .map_err(|error| {
                    let name = attempt.graph.name_of(edge);
                    attempt.restored.in_flight_unreadable(&name, error)
                })?;
        }
        self.gates.iter().for_each(|gate| gate.mark_restored());
        Ok(())
    }

    fn context(
        &self,
        attempt: &Arc<Attempt>,
        edges: &[usize],
        subtask: u16,
        parallelism: u16,
    ) -> TaskContext {
        let senders = edges
            .iter()
            .map(|&edge| (edge, self.senders(attempt, edge, subtask)));
        TaskContext {
            attempt: Arc::clone(attempt),
            subtask,
            parallelism,
            max_parallelism: attempt.max_parallelism,
            senders: senders.collect(),
            backlog: Backlog::default(),
            alarm: Alarm::default(),
        }
    }

    /// The channels of `edge` that leave its producer's subtask `from`.
    fn senders(&self, attempt: &Attempt, edge: usize, from: u16) -> Vec<Sender<Control>> {
        let tasks = &self.of[&attempt.graph.edges[edge].to];
        let (targets, channel) = attempt.topology.targets_of(edge, from);
        targets
            .map(|target| self.gates[tasks[usize::from(target)].0].sender(channel))
            .collect()
    }

    fn start_task(
        &mut self,
        attempt: &Arc<Attempt>,
        chain: &Chain,
        subtask: u16,
        channels: Vec<InputChannel>,
    ) -> Result<()> {
        let (graph, topology) = (&attempt.graph, &attempt.topology);
        let id = self.of[&chain.head()][usize::from(subtask)];
        let leaving = chain.nodes.iter().flat_map(|&node| graph.outputs_of(node));
        let leaving: Vec<_> = leaving.filter(|&edge| !topology.is_chained(edge)).collect();
        let task = Task {
            id,
            head: chain.head(),
            context: self.context(attempt, &leaving, subtask, chain.parallelism),
            gate: Arc::clone(&self.gates[id.0]),
            channels,
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
        let ended = self.alive.recv_timeout(CLOSE_MAX);
        let have_all_ended = ended == Err(mpsc_std::RecvTimeoutError::Disconnected);
        for thread in self.threads.drain(..) {
            if have_all_ended || thread.is_finished() {
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

/// The channels at the gate of one subtask of `chain`.
fn input_channels(attempt: &Attempt, chain: &Chain, subtask: u16) -> Vec<InputChannel> {
    let (graph, topology) = (&attempt.graph, &attempt.topology);
    let mut channels = Vec::new();
    for inputs in topology.inputs_of(chain.head()) {
        let edge = inputs.edge;
        for from in 0..inputs.channels.len() {
            let from = if topology.is_pointwise(edge) {
                subtask
            } else {
                u16::try_from(from).expect("as many as the parallelism of the producer")
            };
            channels.push(InputChannel {
                edge,
                from,
                port: graph.edges[edge].port,
                input: topology.input(edge),
            });
        }
    }
    channels
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
