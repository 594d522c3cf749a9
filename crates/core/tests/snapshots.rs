//! Snapshots: their files as bytes, what is left out, and which of them may go.

mod snapshots {
    pub(crate) mod any;
    mod ignores;
    mod manifests;
}
