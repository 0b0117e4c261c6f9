//! Writing a job down: streams, what is done to them, and where they end.
//!
//! The builder is typed, the graph it fills is not: each call here captures the types it knows in
//! the closures that a [`Node`] or an [`Edge`] holds.

use std::{
    cell::{RefCell, RefMut},
    fmt,
    marker::PhantomData,
    rc::Rc,
    sync::Arc,
};

use cutwater_keygroups::Key;
use cutwater_sink_2pc::Sink;
use cutwater_source::Source;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    BoxError, Result,
    exchange::{BroadcastExchange, KeyExchange, Keyed, Outputs, RoundRobinExchange},
    function::{
        BroadcastProcess, KeyedBroadcastProcess, KeyedCoProcess, KeyedOpen, KeyedProcess, Open,
        Process,
    },
    graph::{Connect, Edge, Graph, Make, MakeOperator, Node, NodeId, Routing},
    in_flight, keyed, plain,
    sink::TypedSink,
    source::TypedSource,
    stage::{AnyStage, Discard, Fanout, Port, TypedPort},
    stateless::{FilterMap, FlatMap},
    task::TaskContext,
};

/// What may flow between operators; implemented for all types that qualify.
///
/// `Clone` for streams with several consumers, `Serialize` and `DeserializeOwned` because a record
/// in flight can become part of a checkpoint.
pub trait Record: Clone + Send + Serialize + DeserializeOwned + 'static {}

impl<T: Clone + Send + Serialize + DeserializeOwned + 'static> Record for T {}

/// A job being written: a graph of operators with uids.
///
/// The same program builds the same job in every attempt; operators find their state by uid. See the
/// crate's first page for an example.
pub struct Job {
    pub(crate) name: String,
    pub(crate) graph: SharedGraph,
}

type SharedGraph = Rc<RefCell<Graph>>;

impl Job {
    /// An empty job. The name stands in its checkpoints and in the ids of its transactions.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            graph: Rc::default(),
        }
    }

    /// Reads `source`. The uid finds its positions after a restart.
    pub fn source<S: Source>(&self, uid: impl Into<String>, source: S) -> Stream<S::Record> {
        let uid = uid.into();
        let make = Make::Source(Arc::new(TypedSource {
            uid: uid.clone(),
            source,
        }));
        let node = add_node::<S::Record>(&self.graph, Some(uid), "source", make);
        Stream::of(&self.graph, node)
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.graph.borrow().nodes.len();
        f.debug_struct("Job")
            .field("name", &self.name)
            .field("operators", &nodes)
            .finish()
    }
}

/// Records of type `T` on their way from one operator to those that come next.
///
/// A clone is the same stream again: every consumer gets every record.
pub struct Stream<T> {
    graph: SharedGraph,
    /// Where the records come from; several after a union.
    from: Vec<NodeId>,
    record: PhantomData<fn() -> T>,
}

impl<T> Clone for Stream<T> {
    fn clone(&self) -> Self {
        Self {
            graph: Rc::clone(&self.graph),
            from: self.from.clone(),
            record: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Stream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("from", &self.from).finish()
    }
}

impl<T: Record> Stream<T> {
    fn of(graph: &SharedGraph, node: NodeId) -> Self {
        Self {
            graph: Rc::clone(graph),
            from: vec![node],
            record: PhantomData,
        }
    }

    /// Runs the operator just added with `subtasks` subtasks instead of the job's.
    #[must_use]
    pub fn parallelism(self, subtasks: u16) -> Self {
        for &node in &self.from {
            self.graph.borrow_mut().nodes[node].parallelism = Some(subtasks);
        }
        self
    }

    /// Turns each record into another.
    pub fn map<U: Record>(&self, function: impl Fn(T) -> U + Send + Sync + 'static) -> Stream<U> {
        self.filter_map("map", move |record| Ok(Some(function(record))))
    }

    /// Turns each record into another, or fails the attempt.
    pub fn try_map<U: Record, E: Into<BoxError>>(
        &self,
        function: impl Fn(T) -> Result<U, E> + Send + Sync + 'static,
    ) -> Stream<U> {
        self.filter_map("try-map", move |record| match function(record) {
            Ok(mapped) => Ok(Some(mapped)),
            Err(error) => Err(error.into()),
        })
    }

    /// Keeps the records for which `predicate` is true.
    pub fn filter(&self, predicate: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        self.filter_map("filter", move |record| {
            Ok(predicate(&record).then_some(record))
        })
    }

    /// Turns each record into any number of others, appended to the second argument.
    pub fn flat_map<U: Record>(
        &self,
        function: impl Fn(T, &mut Vec<U>) + Send + Sync + 'static,
    ) -> Stream<U> {
        let function = Arc::new(move |record, out: &mut Vec<U>| {
            function(record, out);
            Ok(())
        });
        self.operator(None, "flat-map", move |context, downstream| {
            let downstream = downstream.typed();
            let stage = FlatMap::new(Arc::clone(&function), context.batch_size(), downstream);
            Ok(vec![AnyStage::new::<T>(stage)])
        })
    }

    /// The records of both, in no particular order between them.
    pub fn union(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.from.extend(&other.from);
        both
    }

    /// Partitions by key: all records of a key go through the same subtask, in the order in which
    /// their producer sent them. `key` must give the same answer for a record every time.
    pub fn key_by<K: Key>(
        &self,
        key: impl Fn(&T) -> K + Send + Sync + 'static,
    ) -> KeyedStream<K, T> {
        let key = Arc::new(key);
        KeyedStream {
            stream: self.clone(),
            connect: Arc::new(move |context, senders| {
                let assignment = context.assignment(senders.len());
                let outputs = Outputs::<Keyed<K, T>>::new(senders, context);
                let exchange = KeyExchange::new(Arc::clone(&key), assignment, outputs);
                AnyStage::new::<T>(exchange)
            }),
            key: PhantomData,
        }
    }

    /// An operator with operator state (list, union, broadcast) and without keys.
    pub fn process<P>(
        &self,
        uid: impl Into<String>,
        open: impl Fn(&mut Open<'_>) -> Result<P> + Send + Sync + 'static,
    ) -> Stream<P::Out>
    where
        P: Process<In = T>,
        P::Out: Record,
    {
        let uid = uid.into();
        let name = uid.clone();
        self.operator(Some(uid), "process", move |context, downstream| {
            plain::make(&name, context, &open, downstream.typed())
        })
    }

    /// An operator that gets this stream's records one subtask each, and all of `broadcast`'s in
    /// every subtask.
    pub fn connect_broadcast<B: Record, P>(
        &self,
        broadcast: &Stream<B>,
        uid: impl Into<String>,
        open: impl Fn(&mut Open<'_>) -> Result<P> + Send + Sync + 'static,
    ) -> Stream<P::Out>
    where
        P: BroadcastProcess<In = T, Broadcast = B>,
        P::Out: Record,
    {
        let uid = uid.into();
        let name = uid.clone();
        let make = Make::Operator(Arc::new(
            move |context: &mut TaskContext, downstream: AnyStage| {
                plain::make_broadcast(&name, context, &open, downstream.typed())
            },
        ));
        let node = add_node::<P::Out>(&self.graph, Some(uid), "connect-broadcast", make);
        self.flow_to(node, 0, Routing::Forward);
        broadcast.flow_to(node, 1, Routing::Broadcast);
        Stream::of(&self.graph, node)
    }

    /// Writes the stream to `sink`. The uid finds its pending transactions after a restart.
    pub fn sink<S>(&self, uid: impl Into<String>, sink: S)
    where
        S: Sink<Record = T> + 'static,
    {
        let uid = uid.into();
        let make = Make::Sink(Arc::new(TypedSink {
            uid: uid.clone(),
            sink,
        }));
        let node = add_node::<T>(&self.graph, Some(uid), "sink", make);
        self.flow_to(node, 0, Routing::Forward);
    }

    fn filter_map<U: Record>(
        &self,
        name: &'static str,
        function: impl Fn(T) -> Result<Option<U>, BoxError> + Send + Sync + 'static,
    ) -> Stream<U> {
        let function = Arc::new(function);
        self.operator(None, name, move |_, downstream| {
            let stage = FilterMap::new(Arc::clone(&function), downstream.typed());
            Ok(vec![AnyStage::new::<T>(stage)])
        })
    }

    /// Adds the head of a loop: input 0 is this stream, input 1 is what comes back.
    pub(crate) fn head(
        &self,
        uid: String,
        make: impl Fn(&mut TaskContext, AnyStage) -> Result<Vec<AnyStage>> + Send + Sync + 'static,
    ) -> Self {
        let make = Make::Operator(Arc::new(make));
        let node = add_node::<T>(&self.graph, Some(uid), "loop", make);
        self.flow_to(node, 0, Routing::Forward);
        Self::of(&self.graph, node)
    }

    /// Sends this stream back to the head of its loop.
    pub(crate) fn feed_back(&self, head: &Self) {
        self.flow_to(head.from[0], 1, Routing::Feedback);
    }

    /// Adds an operator with one input, this stream.
    fn operator<U: Record>(
        &self,
        uid: Option<String>,
        name: &'static str,
        make: impl Fn(&mut TaskContext, AnyStage) -> Result<Vec<AnyStage>> + Send + Sync + 'static,
    ) -> Stream<U> {
        let make: Arc<MakeOperator> = Arc::new(make);
        let node = add_node::<U>(&self.graph, uid, name, Make::Operator(make));
        self.flow_to(node, 0, Routing::Forward);
        Stream::of(&self.graph, node)
    }

    /// Adds edges that are not keyed.
    fn flow_to(&self, to: NodeId, port: usize, routing: Routing) {
        let connect: Arc<Connect> = match routing {
            Routing::Broadcast => Arc::new(|context, senders| {
                let outputs = Outputs::<T>::new(senders, context);
                AnyStage::new::<T>(BroadcastExchange(outputs))
            }),
            Routing::Forward | Routing::Feedback | Routing::Keyed => {
                Arc::new(|context, senders| {
                    let outputs = Outputs::<T>::new(senders, context);
                    AnyStage::new::<T>(RoundRobinExchange::new(outputs, context.subtask))
                })
            }
        };
        let edge = EdgeTo {
            to,
            port,
            routing,
            connect,
            receive: |stage| Box::new(TypedPort::<T>::new(stage.typed())),
        };
        add_edges::<T>(self.graph.borrow_mut(), &self.from, &edge);
    }
}

/// A stream partitioned by a key of type `K`.
pub struct KeyedStream<K, T> {
    stream: Stream<T>,
    connect: Arc<Connect>,
    key: PhantomData<fn() -> K>,
}

impl<K, T> fmt::Debug for KeyedStream<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedStream")
            .field("stream", &self.stream)
            .finish()
    }
}

impl<K: Key, T: Record> KeyedStream<K, T> {
    /// An operator with keyed state. `open` declares its states and makes it, once per subtask and
    /// attempt.
    pub fn process<P>(
        &self,
        uid: impl Into<String>,
        open: impl Fn(&mut KeyedOpen<'_, K>) -> Result<P> + Send + Sync + 'static,
    ) -> Stream<P::Out>
    where
        P: KeyedProcess<K, In = T>,
        P::Out: Record,
    {
        self.operator(uid, "keyed-process", move |uid, context, downstream| {
            keyed::make(uid, context, &open, downstream.typed())
        })
    }

    /// An operator with two inputs partitioned by the same key: state that one of them writes the
    /// other can read.
    pub fn connect<R: Record, P>(
        &self,
        right: &KeyedStream<K, R>,
        uid: impl Into<String>,
        open: impl Fn(&mut KeyedOpen<'_, K>) -> Result<P> + Send + Sync + 'static,
    ) -> Stream<P::Out>
    where
        P: KeyedCoProcess<K, Left = T, Right = R>,
        P::Out: Record,
    {
        let connected = self.operator(uid, "keyed-connect", move |uid, context, downstream| {
            keyed::make_connected(uid, context, &open, downstream.typed())
        });
        right.flow_to(connected.from[0], 1);
        connected
    }

    /// An operator with keyed state that also gets all of `broadcast`'s records in every subtask.
    pub fn connect_broadcast<B: Record, P>(
        &self,
        broadcast: &Stream<B>,
        uid: impl Into<String>,
        open: impl Fn(&mut KeyedOpen<'_, K>) -> Result<P> + Send + Sync + 'static,
    ) -> Stream<P::Out>
    where
        P: KeyedBroadcastProcess<K, In = T, Broadcast = B>,
        P::Out: Record,
    {
        let name = "keyed-connect-broadcast";
        let connected = self.operator(uid, name, move |uid, context, downstream| {
            keyed::make_broadcast(uid, context, &open, downstream.typed())
        });
        broadcast.flow_to(connected.from[0], 1, Routing::Broadcast);
        connected
    }

    /// Adds an operator with keyed state, whose first input is this stream.
    pub(crate) fn operator<U: Record>(
        &self,
        uid: impl Into<String>,
        name: &'static str,
        make: impl Fn(&str, &TaskContext, AnyStage) -> Result<Vec<AnyStage>> + Send + Sync + 'static,
    ) -> Stream<U> {
        let uid = uid.into();
        let make: Arc<MakeOperator> = {
            let uid = uid.clone();
            Arc::new(move |context, downstream| make(&uid, context, downstream))
        };
        let graph = &self.stream.graph;
        let node = add_node::<U>(graph, Some(uid), name, Make::Operator(make));
        self.flow_to(node, 0);
        Stream::of(graph, node)
    }

    fn flow_to(&self, to: NodeId, port: usize) {
        let edge = EdgeTo {
            to,
            port,
            routing: Routing::Keyed,
            connect: Arc::clone(&self.connect),
            receive: |stage| Box::new(TypedPort::<Keyed<K, T>>::new(stage.typed())),
        };
        let mut graph = self.stream.graph.borrow_mut();
        graph.nodes[to].grouping = Some(K::GROUPING);
        add_edges::<T>(graph, &self.stream.from, &edge);
    }
}

/// Adds an operator whose records are of type `Out`.
fn add_node<Out: Record>(
    graph: &SharedGraph,
    uid: Option<String>,
    name: &'static str,
    make: Make,
) -> NodeId {
    let join = |mut consumers: Vec<AnyStage>| match consumers.len() {
        0 => AnyStage::new::<Out>(Discard),
        1 => consumers.remove(0),
        _ => AnyStage::new::<Out>(Fanout(consumers.into_iter().map(AnyStage::typed).collect())),
    };
    let nodes = &mut graph.borrow_mut().nodes;
    nodes.push(Node {
        uid,
        name,
        parallelism: None,
        grouping: None,
        make,
        join,
    });
    nodes.len() - 1
}

/// Adds an edge for each of several producers of `T`.
fn add_edges<T: Record>(mut graph: RefMut<'_, Graph>, from: &[NodeId], like: &EdgeTo) {
    graph.edges.extend(from.iter().map(|&from| Edge {
        from,
        to: like.to,
        port: like.port,
        routing: like.routing,
        connect: Arc::clone(&like.connect),
        receive: like.receive,
        schema: in_flight::schema::<T>,
        replay: in_flight::replay::<T>,
    }));
}

/// An edge but for its producer.
struct EdgeTo {
    to: NodeId,
    port: usize,
    routing: Routing,
    connect: Arc<Connect>,
    receive: fn(AnyStage) -> Box<dyn Port>,
}
