//! Replaces `crates/sys/src/threads.rs`: the threads take turns as shuttle's scheduler says, and a sleep ends when a
//! test lets time pass. All of them share one real thread, so a test keeps its settings in a variable of that thread.

pub use shuttle::sync::{Condvar, Mutex, MutexGuard, mpsc};
pub use shuttle::thread::Scope;

use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use shuttle::thread;

thread_local! {
    static TIME: RefCell<Option<Arc<Time>>> = const { RefCell::new(None) };
    static JOIN_WAITS: Cell<bool> = const { Cell::new(true) };
}

/// The time of one run: it passes when somebody sleeps, and only as often as it is allowed to.
pub struct Time {
    allowed: Mutex<u32>,
    wakeup: Condvar,
    passes: Box<dyn Fn(Duration) + Send + Sync>,
}

impl Time {
    /// Time for the run that begins now; `passes` is told how much of it did.
    pub fn begin(passes: impl Fn(Duration) + Send + Sync + 'static) -> Arc<Self> {
        let time = Arc::new(Self { allowed: Mutex::new(0), wakeup: Condvar::new(), passes: Box::new(passes) });
        TIME.set(Some(Arc::clone(&time)));
        time
    }

    /// No sleep of the run that begins now ends by itself.
    pub fn stands_still() {
        TIME.set(None);
    }

    /// So many more sleeps may end by themselves.
    pub fn allow(&self, sleeps: u32) {
        *locked(&self.allowed) += sleeps;
        self.wakeup.notify_all();
    }

    /// Waits until one more sleep may end, or until the sleeper is awake. May it end?
    fn ends_a_sleep(&self, is_awake: &AtomicBool) -> bool {
        let waits = |allowed: &mut u32| *allowed == 0 && !is_awake.load(Ordering::Relaxed);
        let mut allowed = self.wakeup.wait_while(locked(&self.allowed), waits).unwrap_or_else(PoisonError::into_inner);
        let ends = !is_awake.load(Ordering::Relaxed);
        *allowed -= u32::from(ends);
        ends
    }

    fn woke_up(&self, is_awake: &AtomicBool) {
        let _allowed = locked(&self.allowed);
        is_awake.store(true, Ordering::Relaxed);
        self.wakeup.notify_all();
    }
}

/// Does whoever joins a thread wait for it? If not, that is a flaw for the tests to find.
pub fn let_joins_wait(wait: bool) {
    JOIN_WAITS.set(wait);
}

/// Starts a thread, as that of `std` does.
#[derive(Default)]
pub struct Builder(thread::Builder);

impl Builder {
    /// Starts a thread.
    pub fn new() -> Self {
        Self::default()
    }

    /// Called so.
    #[must_use]
    pub fn name(self, name: String) -> Self {
        Self(self.0.name(name))
    }

    /// With so large a stack.
    #[must_use]
    pub fn stack_size(self, bytes: usize) -> Self {
        Self(self.0.stack_size(bytes))
    }

    /// Starts it.
    pub fn spawn<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
        self.0.spawn(work).map(JoinHandle)
    }
}

/// A thread that was started.
pub struct JoinHandle<T>(thread::JoinHandle<T>);

impl<T> JoinHandle<T> {
    /// Waits until it has ended.
    pub fn join(self) -> std::thread::Result<T> {
        if JOIN_WAITS.get() { self.0.join() } else { Err(Box::new("nobody waited")) }
    }
}

/// Waits for the threads that are started in it, also if it panics. (That of shuttle doesn't then.)
pub fn scope<'env, T>(work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let done = thread::scope(|scope| catch_unwind(AssertUnwindSafe(|| work(scope))));
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Starts a thread that ends within `scope`. False: none could be had.
pub fn spawn_in<'scope>(scope: &'scope Scope<'scope, '_>, work: impl FnOnce() + Send + 'scope) -> bool {
    scope.spawn(work);
    true
}

/// Locks it. What is behind a mutex of this library is whole even if somebody panicked beside it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until time passes, or until `is_over`, which is looked at when the wakeup rings. Is it over?
pub fn sleep_until<T: Send>(state: &Mutex<T>, wakeup: &Condvar, length: Duration, is_over: fn(&T) -> bool) -> bool {
    let Some(time) = TIME.with_borrow(Clone::clone) else {
        drop(wakeup.wait_while(locked(state), |state| !is_over(state)));
        return true;
    };
    let (rang, is_awake) = (AtomicBool::new(false), AtomicBool::new(false));
    scope(|scope| {
        // An alarm goes off in a thread of its own: the scheduler says when.
        scope.spawn(|| {
            if time.ends_a_sleep(&is_awake) {
                // With the state locked: whoever has looked at it sleeps already.
                let _state = locked(state);
                (time.passes)(length);
                rang.store(true, Ordering::Relaxed);
                wakeup.notify_all();
            }
        });
        let sleeps = |state: &mut T| !is_over(state) && !rang.load(Ordering::Relaxed);
        let ended = wakeup.wait_while(locked(state), sleeps).unwrap_or_else(PoisonError::into_inner);
        let is_over = is_over(&ended);
        drop(ended);
        time.woke_up(&is_awake);
        is_over
    })
}
