//! When a loop is over: its input has ended and nothing circles in it any more.
//!
//! The heads send a *probe* around the loop, behind everything else. A task of the loop passes it on
//! when it has come in all of its channels, so it pushes all earlier records before it. A probe that
//! is back at a head without a record having come back since it left is *quiet* there. If one round is
//! quiet at all heads, no record is left; otherwise there is another round. (Two waves in one: the
//! termination detection of Mattern, 1987, with channels that keep their order.)

use cutwater_barrier::align::Input;

use crate::{graph::NodeId, task::InputChannel};

/// Asks whether a loop is empty.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Probe {
    /// The head of the loop.
    pub(crate) head: NodeId,
    pub(crate) round: u64,
}

/// A task's place in a loop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Membership {
    pub(crate) head: NodeId,
    /// Whether the task is one of the head's subtasks.
    pub(crate) is_head: bool,
}

/// One task's view: which of its channels have ended, and where the probe has come.
pub(crate) struct Probes {
    membership: Option<Membership>,
    channels: Vec<Lane>,
    /// The probe on its way through this task.
    current: Option<Probe>,
    /// No record came back since the probe left.
    is_quiet: bool,
}

#[derive(Clone, Copy)]
struct Lane {
    is_feedback: bool,
    has_ended: bool,
    has_probe: bool,
}

impl Probes {
    pub(crate) fn new(membership: Option<Membership>, channels: &[InputChannel]) -> Self {
        let lane = |channel: &InputChannel| Lane {
            is_feedback: channel.input == Input::Feedback,
            has_ended: false,
            has_probe: false,
        };
        Self {
            membership,
            channels: channels.iter().map(lane).collect(),
            current: None,
            is_quiet: true,
        }
    }

    pub(crate) fn is_head(&self) -> bool {
        self.membership.is_some_and(|member| member.is_head)
    }

    /// Records came in `channel`.
    #[inline]
    pub(crate) fn took(&mut self, channel: usize) {
        if self.channels[channel].is_feedback {
            self.is_quiet = false;
        }
    }

    /// No more records will come in `channel`. Whether none will come from outside the loop at all.
    pub(crate) fn ended(&mut self, channel: usize) -> bool {
        let lane = &mut self.channels[channel];
        lane.has_ended = true;
        let is_feedback = lane.is_feedback;
        let mut outside = self.channels.iter().filter(|lane| !lane.is_feedback);
        !is_feedback && outside.all(|lane| lane.has_ended)
    }

    /// The head begins a round: what comes back from now on makes it a busy one.
    pub(crate) fn start(&mut self, round: u64) -> Probe {
        let member = self.membership.filter(|member| member.is_head);
        let probe = Probe {
            head: member.expect("only heads begin rounds").head,
            round,
        };
        self.current = Some(probe);
        self.is_quiet = true;
        probe
    }

    /// The probe came in `channel`. Those of other loops stray here and are dropped.
    pub(crate) fn arrived(&mut self, channel: usize, probe: Probe) {
        if self
            .membership
            .is_none_or(|member| member.head != probe.head)
        {
            return;
        }
        self.current = Some(probe);
        self.channels[channel].has_probe = true;
    }

    /// The probe, once it has come in all channels in which it can, and whether it was quiet.
    pub(crate) fn poll(&mut self) -> Option<(Probe, bool)> {
        let is_head = self.is_head();
        let mut awaited = self
            .channels
            .iter()
            .filter(|lane| !is_head || lane.is_feedback);
        let probe = self.current?;
        if !awaited.all(|lane| lane.has_probe || (!is_head && lane.has_ended)) {
            return None;
        }
        self.current = None;
        for lane in &mut self.channels {
            lane.has_probe = false;
        }
        Some((probe, self.is_quiet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: Probe = Probe { head: 3, round: 0 };

    fn probes(is_head: bool, inputs: &[Input]) -> Probes {
        let channels: Vec<_> = inputs
            .iter()
            .map(|&input| InputChannel {
                edge: 0,
                from: 0,
                port: 0,
                input,
            })
            .collect();
        let membership = Some(Membership { head: 3, is_head });
        Probes::new(membership, &channels)
    }

    #[test]
    fn a_task_passes_the_probe_on_when_all_channels_brought_it_or_ended() {
        let mut body = probes(false, &[Input::Overtakable; 3]);
        body.arrived(0, PROBE);
        assert_eq!(body.poll(), None);
        body.arrived(2, PROBE);
        assert_eq!(body.poll(), None);
        assert!(!body.ended(1), "the others have not ended");
        assert_eq!(body.poll(), Some((PROBE, true)));
        assert_eq!(body.poll(), None);
    }

    #[test]
    fn a_round_in_which_a_record_came_back_is_not_quiet() {
        let mut head = probes(true, &[Input::Strict, Input::Feedback, Input::Feedback]);
        assert!(
            head.ended(0),
            "a feedback channel does not come from outside"
        );
        head.took(1);
        assert_eq!(head.start(0), PROBE);
        head.arrived(1, PROBE);
        head.took(2);
        assert_eq!(head.poll(), None);
        head.arrived(2, PROBE);
        assert_eq!(head.poll(), Some((PROBE, false)));

        let next = head.start(1);
        head.arrived(1, next);
        head.arrived(2, next);
        assert_eq!(head.poll(), Some((next, true)));
    }

    #[test]
    fn a_probe_of_another_loop_is_dropped() {
        let mut body = probes(false, &[Input::Overtakable]);
        body.arrived(0, Probe { head: 9, round: 0 });
        assert_eq!(body.poll(), None);
    }
}
