//! The same work on many things, on all processors.

use std::num::NonZero;
use std::thread;

/// Fewer things than this are done before another thread has started.
const WORTH_A_THREAD: usize = 512;

/// Does `work` on each item; the results are in the items' order.
pub(crate) fn map<A: Sync, B: Send>(items: &[A], work: impl Fn(&A) -> B + Sync) -> Vec<B> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(items.len() / WORTH_A_THREAD + 1);
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    thread::scope(|scope| {
        let work = &work;
        let chunks = items.chunks(items.len().div_ceil(threads));
        let running: Vec<_> =
            chunks.map(|chunk| scope.spawn(move || chunk.iter().map(work).collect::<Vec<B>>())).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("the work does not panic")).collect()
    })
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
