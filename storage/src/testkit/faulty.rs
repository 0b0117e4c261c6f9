//! A store that fails, and that can be stopped at any call, where a test says so.

use std::{
    future::{Future, poll_fn},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

use bytes::Bytes;
use xxhash_rust::xxh64::xxh64;

use crate::{Blobs, BlobsExt, Create, Error, ErrorKind, Listed, Result, Upload};

/// Another [`Blobs`], with faults. Clones share them.
#[derive(Clone, Debug)]
pub struct FaultyBlobs<B> {
    inner: B,
    faults: Faults,
}

/// The calls that can fail or be held.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Call {
    /// [`Blobs::get`].
    Get,
    /// [`Blobs::get_range`].
    GetRange,
    /// [`Blobs::upload`].
    Upload,
    /// [`Upload::write`].
    Write,
    /// [`Upload::finish`].
    Finish,
    /// [`Blobs::sync`].
    Sync,
    /// [`Blobs::create`].
    Create,
    /// [`Blobs::delete`].
    Delete,
    /// [`Blobs::list`].
    List,
    /// [`Blobs::sweep`].
    Sweep,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Failure {
    /// It changes nothing, but the caller cannot know.
    Before,
    /// It takes effect, and the reply is lost.
    After,
    /// The store is full: it changes nothing, and says so.
    Full,
    /// Half of what was to be written is there, under the final name: the store breaks its promise.
    /// On a call that writes no blob, as `Before`.
    Torn,
}

/// Which calls are meant: of one kind, whose path contains a text, from the n-th on.
#[derive(Clone, Debug)]
pub struct On {
    call: Option<Call>,
    path: String,
    skip: usize,
    times: usize,
}

impl On {
    /// The first call of this kind.
    pub fn call(call: Call) -> Self {
        Self {
            call: Some(call),
            ..Self::any()
        }
    }

    /// The first call, whatever it is.
    pub fn any() -> Self {
        Self {
            call: None,
            path: String::new(),
            skip: 0,
            times: 1,
        }
    }

    /// Only with `part` in the path.
    #[must_use]
    pub fn path(self, part: impl Into<String>) -> Self {
        Self {
            path: part.into(),
            ..self
        }
    }

    /// Not before `skip` such calls have passed.
    #[must_use]
    pub fn after(self, skip: usize) -> Self {
        Self { skip, ..self }
    }

    /// That many in a row, instead of one.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }

    /// Every one from there on.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }

    /// Whether this call is meant; counts it.
    fn takes(&mut self, call: Call, path: &str) -> bool {
        if self.call.is_some_and(|only| only != call)
            || !path.contains(&self.path)
            || self.times == 0
        {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.times -= 1;
        true
    }
}

/// The faults of a [`FaultyBlobs`], to be arranged while it is in use. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    plan: Arc<Mutex<Plan>>,
}

#[derive(Debug, Default)]
struct Plan {
    failures: Vec<(On, Failure)>,
    holds: Vec<(On, Hold)>,
    random: Option<Random>,
    calls: Vec<(Call, String)>,
}

/// Failures that follow from a seed.
#[derive(Debug)]
struct Random {
    seed: u64,
    of_1000: u64,
    drawn: u64,
}

impl Faults {
    /// Makes the calls `on` fail.
    pub fn fail(&self, on: On, failure: Failure) {
        self.lock().failures.push((on, failure));
    }

    /// Makes `of_1000` of a thousand calls fail, before or after taking effect, as `seed` has it.
    pub fn fail_randomly(&self, seed: u64, of_1000: u64) {
        let drawn = 0;
        self.lock().random = Some(Random {
            seed,
            of_1000,
            drawn,
        });
    }

    /// Stops the call `on` before it does anything, until released. Dropping the future of the held
    /// call is the crash of its caller at this point.
    pub fn hold(&self, on: On) -> Hold {
        let hold = Hold::default();
        self.lock().holds.push((on, hold.clone()));
        hold
    }

    /// Arranges nothing more: what was not met yet is dropped, and what is held goes on.
    pub fn clear(&self) {
        let plan = std::mem::take(&mut *self.lock());
        for (_, hold) in plan.holds {
            hold.release();
        }
    }

    /// The calls so far, with their paths, and forgets them.
    pub fn take_calls(&self) -> Vec<(Call, String)> {
        std::mem::take(&mut self.lock().calls)
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Comes before every call: waits where it is held, and says how it is to fail.
    async fn before(&self, call: Call, path: &str) -> Option<Failure> {
        let hold = {
            let mut plan = self.lock();
            plan.calls.push((call, path.to_owned()));
            plan.holds
                .iter_mut()
                .find_map(|(on, hold)| on.takes(call, path).then(|| hold.clone()))
        };
        if let Some(hold) = hold {
            hold.pass().await;
        }
        let mut plan = self.lock();
        let planned = plan
            .failures
            .iter_mut()
            .find_map(|(on, failure)| on.takes(call, path).then_some(*failure));
        planned.or_else(|| plan.random.as_mut()?.draw())
    }

    async fn around<T>(
        &self,
        call: Call,
        path: &str,
        inner: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        match self.before(call, path).await {
            None => inner.await,
            Some(Failure::Before | Failure::Torn) => Err(injected(path)),
            Some(Failure::Full) => Err(full(path)),
            Some(Failure::After) => {
                inner.await?;
                Err(injected(path))
            }
        }
    }
}

impl Random {
    fn draw(&mut self) -> Option<Failure> {
        let drawn = xxh64(&self.drawn.to_le_bytes(), self.seed);
        self.drawn += 1;
        let kind = if drawn >> 63 == 0 {
            Failure::Before
        } else {
            Failure::After
        };
        (drawn % 1000 < self.of_1000).then_some(kind)
    }
}

/// A call that is stopped. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Hold {
    state: Arc<Mutex<HoldState>>,
}

#[derive(Debug, Default)]
struct HoldState {
    reached: bool,
    released: bool,
    wakers: Vec<Waker>,
}

impl Hold {
    /// Waits until a call is stopped here.
    pub async fn reached(&self) {
        self.wait(|state| state.reached).await;
    }

    /// Whether a call was stopped here.
    pub fn is_reached(&self) -> bool {
        self.lock().reached
    }

    /// Lets it go on.
    pub fn release(&self) {
        self.change(|state| state.released = true);
    }

    async fn pass(&self) {
        self.change(|state| state.reached = true);
        self.wait(|state| state.released).await;
    }

    fn change(&self, change: impl FnOnce(&mut HoldState)) {
        let mut state = self.lock();
        change(&mut state);
        for waker in state.wakers.drain(..) {
            waker.wake();
        }
    }

    async fn wait(&self, done: impl Fn(&HoldState) -> bool) {
        poll_fn(|context| {
            let mut state = self.lock();
            if done(&state) {
                return Poll::Ready(());
            }
            state.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, HoldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Blobs> FaultyBlobs<B> {
    /// `inner`, with no fault yet.
    pub fn new(inner: B) -> Self {
        let faults = Faults::default();
        Self { inner, faults }
    }

    /// Where faults are arranged.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The store without its faults.
    pub fn inner(&self) -> &B {
        &self.inner
    }
}

impl<B: Blobs + Clone> Blobs for FaultyBlobs<B> {
    type Upload = FaultyUpload<B>;

    async fn get(&self, path: &str) -> Result<Option<Bytes>> {
        self.faults
            .around(Call::Get, path, self.inner.get(path))
            .await
    }

    async fn get_range(&self, path: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        let read = self.inner.get_range(path, range);
        self.faults.around(Call::GetRange, path, read).await
    }

    async fn upload(&self, path: &str) -> Result<FaultyUpload<B>> {
        let upload = self.inner.upload(path);
        Ok(FaultyUpload {
            upload: self.faults.around(Call::Upload, path, upload).await?,
            blobs: self.clone(),
            path: path.to_owned(),
            written: Vec::new(),
        })
    }

    async fn sync(&self, prefix: &str) -> Result<()> {
        self.faults
            .around(Call::Sync, prefix, self.inner.sync(prefix))
            .await
    }

    async fn create(&self, path: &str, bytes: Bytes) -> Result<Create> {
        match self.faults.before(Call::Create, path).await {
            None => self.inner.create(path, bytes).await,
            Some(Failure::Before) => Err(injected(path)),
            Some(Failure::Full) => Err(full(path)),
            Some(Failure::After) => {
                self.inner.create(path, bytes).await?;
                Err(injected(path))
            }
            Some(Failure::Torn) => {
                self.inner
                    .create(path, bytes.slice(..bytes.len() / 2))
                    .await?;
                Err(injected(path))
            }
        }
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.faults
            .around(Call::Delete, path, self.inner.delete(path))
            .await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.faults
            .around(Call::List, prefix, self.inner.list(prefix))
            .await
    }

    async fn sweep(&self) -> Result<()> {
        self.faults
            .around(Call::Sweep, "", self.inner.sweep())
            .await
    }
}

/// An upload to [`FaultyBlobs`].
#[derive(Debug)]
pub struct FaultyUpload<B: Blobs> {
    upload: B::Upload,
    blobs: FaultyBlobs<B>,
    path: String,
    /// Kept to be able to tear it.
    written: Vec<u8>,
}

impl<B: Blobs + Clone> Upload for FaultyUpload<B> {
    async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.written.extend_from_slice(&chunk);
        let write = self.upload.write(chunk);
        self.blobs
            .faults
            .around(Call::Write, &self.path, write)
            .await
    }

    async fn finish(self) -> Result<()> {
        let Self {
            upload,
            blobs,
            path,
            mut written,
        } = self;
        match blobs.faults.before(Call::Finish, &path).await {
            None => upload.finish().await,
            Some(Failure::Before) => Err(injected(&path)),
            Some(Failure::Full) => Err(full(&path)),
            Some(Failure::After) => {
                upload.finish().await?;
                Err(injected(&path))
            }
            Some(Failure::Torn) => {
                written.truncate(written.len() / 2);
                blobs.inner.put(&path, written.into()).await?;
                Err(injected(&path))
            }
        }
    }
}

fn injected(path: &str) -> Error {
    Error::new(ErrorKind::Io, path, "failed because a test wants it to")
}

fn full(path: &str) -> Error {
    Error::new(
        ErrorKind::Io,
        path,
        "the store is full because a test wants it to be",
    )
    .without_effect()
}
