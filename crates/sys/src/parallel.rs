//! Parallel map over many items, on all processors.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Minimum number of items per thread: fewer are done before another thread has started.
const WORTH_A_THREAD: usize = 512;
/// Items that a thread takes at a time.
const CHUNK: usize = 128;

/// Does `work` on each item; the results are in the items' order.
pub fn map<A: Sync, B: Send>(items: &[A], work: impl Fn(&A) -> B + Sync) -> Vec<B> {
    let most = items.len() / WORTH_A_THREAD + 1;
    // Finding the number of processors reads a dozen files: too much for one event.
    let threads = if most == 1 { 1 } else { thread::available_parallelism().map_or(1, NonZero::get).min(most) };
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    let chunks: Vec<&[A]> = items.chunks(CHUNK).collect();
    let next = AtomicUsize::new(0);
    // Each thread takes the next chunk when it is ready, so a thread that waits for a processor
    // doesn't delay the others.
    let some = || {
        let mut done = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(chunk) = chunks.get(at)
        {
            done.push((at, chunk.iter().map(&work).collect::<Vec<B>>()));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        // If a thread can't be started, the others do its work.
        let other = |_| thread::Builder::new().spawn_scoped(scope, some).ok();
        let others: Vec<_> = (1..threads).filter_map(other).collect();
        let mut done = some();
        done.extend(others.into_iter().flat_map(|thread| thread.join().expect("the work does not panic")));
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().flat_map(|(_, results)| results).collect()
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for count in [0, 1, 511, 512, 5000] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(map(&items, |item| item * 2), (0..count).map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
