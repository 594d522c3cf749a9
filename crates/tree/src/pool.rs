//! Processes many files with a few threads, each with its own open directories and buffers.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::TreeError;

/// Number of small files per thread: fewer are done before another thread has started.
const WORTH_A_THREAD: usize = 32;
/// Bytes per thread: a file this large is worth a thread of its own.
const WORTH_A_THREAD_BYTES: u64 = 4 << 20;
/// Maximum number of items that a thread takes at a time: neighbours share a directory.
const CHUNK_MAX: usize = 32;

/// Does `work` on each item, with the state that `begin` creates for each thread. The results are
/// in the order of the items. The first error stops the work.
pub(super) fn each<A: Sync, B: Send, S>(
    items: &[A],
    (threads, bytes): (usize, u64),
    begin: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &A) -> Result<B, TreeError> + Sync,
) -> Result<Vec<B>, TreeError> {
    let by_bytes = usize::try_from(bytes / WORTH_A_THREAD_BYTES).unwrap_or(usize::MAX).min(items.len());
    let threads = threads.min((items.len() / WORTH_A_THREAD).max(by_bytes)).max(1);
    if threads == 1 {
        let mut state = begin();
        return items.iter().map(|item| work(&mut state, item)).collect();
    }
    let chunks: Vec<&[A]> = items.chunks((items.len() / (threads * 8)).clamp(1, CHUNK_MAX)).collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let some = || {
        let _end = EndsByPanic { next: &next, end: chunks.len() };
        let (mut state, mut done) = (begin(), Vec::new());
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(chunk) = chunks.get(at)
        {
            match chunk.iter().map(|item| work(&mut state, item)).collect::<Result<Vec<B>, TreeError>>() {
                Ok(results) => done.push((at, results)),
                Err(error) => {
                    // No thread takes another chunk.
                    next.store(chunks.len(), Ordering::Relaxed);
                    failed.lock().expect("nobody panics with it").get_or_insert(error);
                }
            }
        }
        done
    };
    let mut done = thread::scope(|scope| {
        // If a thread can't be started, the others do its work.
        let other = |_| thread::Builder::new().spawn_scoped(scope, some).ok();
        let others: Vec<_> = (1..threads).filter_map(other).collect();
        let mut done = some();
        done.extend(others.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))));
        done
    });
    if let Some(error) = failed.into_inner().expect("nobody panics with it") {
        return Err(error);
    }
    done.sort_unstable_by_key(|(at, _)| *at);
    Ok(done.into_iter().flat_map(|(_, results)| results).collect())
}

/// After a panic no thread takes another chunk: the results would be discarded.
struct EndsByPanic<'a> {
    next: &'a AtomicUsize,
    end: usize,
}

impl Drop for EndsByPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.next.store(self.end, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for (count, bytes) in [(0, 0), (1, 0), (40, 0), (3, 1 << 30), (5000, 0)] {
            let items: Vec<usize> = (0..count).collect();
            let done = each(&items, (4, bytes), || (), |(), item| Ok(item * 2)).expect("nothing fails");
            assert_eq!(done, (0..count).map(|item| item * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn one_failure_is_the_answer() {
        let items: Vec<usize> = (0..5000).collect();
        let work = |(): &mut (), item: &usize| if *item == 700 { Err(TreeError::Halted) } else { Ok(()) };
        assert!(matches!(each(&items, (4, 0), || (), work), Err(TreeError::Halted)));
    }

    #[test]
    fn a_panic_ends_the_work_of_the_others() {
        let items: Vec<usize> = (0..5000).collect();
        let (calls, panics) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = |(): &mut (), item: &usize| {
            calls.fetch_add(1, Ordering::Relaxed);
            if *item == 40 {
                panics.store(true, Ordering::Relaxed);
                panic!("somebody made a mistake");
            }
            // From then on the other threads are slow enough for the effect to be visible.
            if panics.load(Ordering::Relaxed) {
                thread::park_timeout(Duration::from_millis(10));
            }
            // The thread that panics gets its items before others get later ones, but may not be
            // scheduled at once.
            while *item >= 64 && !panics.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            Ok(())
        };
        let done = catch_unwind(AssertUnwindSafe(|| each(&items, (4, 0), || (), work)));
        assert!(done.is_err(), "a panic is no result");
        let calls = calls.into_inner();
        assert!(calls < 2500, "{calls} of 5000 were done after all");
    }
}
