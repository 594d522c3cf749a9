//! Says to the library's source that a scheduler decides.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=lokt_scheduled");
}
