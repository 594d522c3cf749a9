//! Snapshots: their files as bytes, what is left out, and which of them may go.

mod snapshots {
    pub(crate) mod any;
    mod descriptors;
    mod files;
    mod gc;
    mod ignores;
    mod lines;
    mod manifests;
    pub(crate) mod one;
    mod payloads;
}
