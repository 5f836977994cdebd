//! Options of the linker for the shared library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The name by which programs find it: it changes when programs have to be compiled anew.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpandofs.so.0");
    // Its threads outlive a connection by a moment, and so have to find it where it was.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
