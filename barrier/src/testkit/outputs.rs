//! What a task has sent, and which outputs still wait for a marker.

use alloc::vec::Vec;

use super::Broken;
use crate::{Barrier, align::Input};

#[derive(Clone, Debug)]
pub(super) struct Outputs(Vec<One>);

#[derive(Clone, Debug)]
struct One {
    edge: Input,
    /// Records that an operator put out and that are not in the channel yet.
    buffered: u64,
    /// Whether the marker that is being forwarded is in.
    has_marker: bool,
}

impl Outputs {
    pub(super) fn new(edges: impl IntoIterator<Item = Input>) -> Self {
        let one = |edge| One {
            edge,
            buffered: 0,
            has_marker: false,
        };
        Self(edges.into_iter().map(one).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn emit(&mut self, output: usize) -> Result<(), Broken> {
        self.one(output)?.buffered += 1;
        Ok(())
    }

    pub(super) fn send(&mut self, output: usize, records: u64) -> Result<(), Broken> {
        let one = self.one(output)?;
        let left = one.buffered.checked_sub(records);
        one.buffered = left.ok_or(Broken::SentTooMany { output })?;
        Ok(())
    }

    /// The barrier due went into an output. Returns whether it is in all of them now.
    pub(super) fn forward(
        &mut self,
        output: usize,
        due: Barrier,
        barrier: Barrier,
        announced: bool,
    ) -> Result<bool, Broken> {
        let one = self.one(output)?;
        let checkpoint = due.checkpoint;
        if barrier != due || one.has_marker {
            let barrier = due;
            return Err(Broken::ForwardedOther { output, barrier });
        }
        if one.buffered > 0 {
            return Err(Broken::LeftBehind {
                output,
                checkpoint,
                records: one.buffered,
            });
        }
        match (due.may_overtake() && one.edge != Input::Strict, announced) {
            (true, false) => return Err(Broken::NotAnnounced { output, checkpoint }),
            (false, true) => return Err(Broken::AnnouncedInOrder { output, checkpoint }),
            (true, true) | (false, false) => {}
        }
        one.has_marker = true;
        Ok(self.have_marker())
    }

    /// A cancel marker went into an output. Returns whether it is in all of them now.
    pub(super) fn cancel(&mut self, output: usize) -> Result<bool, Broken> {
        self.one(output)?.has_marker = true;
        Ok(self.have_marker())
    }

    fn have_marker(&mut self) -> bool {
        let all = self.0.iter().all(|one| one.has_marker);
        if all {
            for one in &mut self.0 {
                one.has_marker = false;
            }
        }
        all
    }

    fn one(&mut self, output: usize) -> Result<&mut One, Broken> {
        let unknown = Broken::Unknown { index: output };
        self.0.get_mut(output).ok_or(unknown)
    }
}
