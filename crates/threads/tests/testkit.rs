//! The testkit's disk and machine, compiled against this build of the library.

#[path = "../../testkit/src/hook_disk.rs"]
pub mod hook_disk;
#[path = "../../testkit/src/machine.rs"]
pub mod machine;
#[path = "../../testkit/src/mem_disk.rs"]
pub mod mem_disk;
