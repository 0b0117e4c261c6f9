//! Every request is answered once, and none is forgotten when the attempt or the job ends.

use std::collections::BTreeSet;

use cutwater_barrier::coordinate::RequestId;

#[derive(Debug, Default)]
pub(crate) struct Answers {
    open: BTreeSet<RequestId>,
}

impl Answers {
    pub(crate) fn asked(&mut self, request: RequestId) {
        assert!(self.open.insert(request), "each request has its own id");
    }

    pub(crate) fn answered(&mut self, request: RequestId) {
        assert!(self.open.remove(&request), "{request:?} is answered once");
    }

    /// The coordinator has given up, or the job has ended.
    pub(crate) fn all_answered(&self) {
        assert!(self.open.is_empty(), "no answer to {:?}", self.open);
    }

    /// The coordinator is gone: its callers know from the broken connection.
    pub(crate) fn attempt_over(&mut self) {
        self.open.clear();
    }
}
