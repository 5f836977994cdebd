//! Name by which programs find the shared library: it changes when programs have to be compiled anew.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpandofs.so.0");
}
