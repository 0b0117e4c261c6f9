//! The aligner or the tracker: they hear and say the same.

use cutwater_barrier::{
    Time,
    align::{AlignError, Aligner, Channel, Effect, Event, Input, Reading, Tracker},
};

use crate::Guarantee;

pub(crate) enum Alignment {
    ExactlyOnce(Aligner),
    AtLeastOnce(Tracker),
}

impl Alignment {
    pub(crate) fn new(guarantee: Guarantee, inputs: impl IntoIterator<Item = Input>) -> Self {
        match guarantee {
            Guarantee::ExactlyOnce => Self::ExactlyOnce(Aligner::with_channels(inputs)),
            Guarantee::AtLeastOnce => Self::AtLeastOnce(Tracker::new(inputs.into_iter().count())),
        }
    }

    /// How the channel is to be read.
    #[inline]
    pub(crate) fn reading(&self, channel: usize) -> Reading {
        match self {
            Self::ExactlyOnce(aligner) => aligner.reading(Channel(channel)),
            Self::AtLeastOnce(tracker) => tracker.reading(Channel(channel)),
        }
    }

    /// Whether some barriers of a checkpoint are in and others are not.
    #[inline]
    pub(crate) fn is_aligning(&self) -> bool {
        match self {
            Self::ExactlyOnce(aligner) => aligner.current().is_some(),
            Self::AtLeastOnce(_) => false,
        }
    }

    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        match self {
            Self::ExactlyOnce(aligner) => aligner.deadline(),
            Self::AtLeastOnce(_) => None,
        }
    }

    pub(crate) fn handle(&mut self, now: Time, event: Event) -> Result<(), AlignError> {
        match self {
            Self::ExactlyOnce(aligner) => aligner.handle(now, event),
            Self::AtLeastOnce(tracker) => tracker.handle(now, event),
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Effect> {
        match self {
            Self::ExactlyOnce(aligner) => aligner.poll(),
            Self::AtLeastOnce(tracker) => tracker.poll(),
        }
    }
}
