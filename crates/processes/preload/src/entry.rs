//! The way from a system call of the C library to the hook and back.
//!
//! A system call keeps all registers but `rax`, `rcx` and `r11`, and does not touch the stack, below whose end the C library
//! may keep something. So does this. Of vector registers the C library's own code uses the lower halves of the first
//! sixteen alone.

use std::arch::global_asm;

/// The registers of a system call, and where it goes on.
#[repr(C, align(16))]
#[derive(Debug)]
pub(crate) struct Context {
    /// The number, and then the answer.
    pub rax: usize,
    pub args: [usize; 6],
    /// Behind the system call.
    pub behind: usize,
    /// Where it goes on with the stack there.
    pub stack: usize,
    pub next: usize,
}

/// Bytes of a `syscall`.
pub(crate) const SYSCALL_BYTES: usize = 2;

const _: () = assert!(std::mem::offset_of!(Context, behind) == 56);
const _: () = assert!(std::mem::offset_of!(Context, stack) == 64);
const _: () = assert!(std::mem::offset_of!(Context, next) == 72);

// SAFETY: it is below, and is only jumped to.
unsafe extern "C" {
    fn pandofs_preload_entry();
}

/// The address that trampolines jump to.
pub(crate) fn address() -> usize {
    pandofs_preload_entry as *const () as usize
}

global_asm!(
    ".hidden pandofs_preload_entry",
    ".globl pandofs_preload_entry",
    "pandofs_preload_entry:",
    "mov r11, rsp",
    "lea rsp, [rsp - 128]",
    "and rsp, -64",
    "sub rsp, 384",
    "mov [rsp], rax",
    "mov [rsp + 8], rdi",
    "mov [rsp + 16], rsi",
    "mov [rsp + 24], rdx",
    "mov [rsp + 32], r10",
    "mov [rsp + 40], r8",
    "mov [rsp + 48], r9",
    "mov [rsp + 56], rcx",
    "mov [rsp + 64], r11",
    "movups [rsp + 128], xmm0",
    "movups [rsp + 144], xmm1",
    "movups [rsp + 160], xmm2",
    "movups [rsp + 176], xmm3",
    "movups [rsp + 192], xmm4",
    "movups [rsp + 208], xmm5",
    "movups [rsp + 224], xmm6",
    "movups [rsp + 240], xmm7",
    "movups [rsp + 256], xmm8",
    "movups [rsp + 272], xmm9",
    "movups [rsp + 288], xmm10",
    "movups [rsp + 304], xmm11",
    "movups [rsp + 320], xmm12",
    "movups [rsp + 336], xmm13",
    "movups [rsp + 352], xmm14",
    "movups [rsp + 368], xmm15",
    "mov rdi, rsp",
    "cld",
    "call {hook}",
    "movups xmm0, [rsp + 128]",
    "movups xmm1, [rsp + 144]",
    "movups xmm2, [rsp + 160]",
    "movups xmm3, [rsp + 176]",
    "movups xmm4, [rsp + 192]",
    "movups xmm5, [rsp + 208]",
    "movups xmm6, [rsp + 224]",
    "movups xmm7, [rsp + 240]",
    "movups xmm8, [rsp + 256]",
    "movups xmm9, [rsp + 272]",
    "movups xmm10, [rsp + 288]",
    "movups xmm11, [rsp + 304]",
    "movups xmm12, [rsp + 320]",
    "movups xmm13, [rsp + 336]",
    "movups xmm14, [rsp + 352]",
    "movups xmm15, [rsp + 368]",
    "mov rax, [rsp]",
    "mov rdi, [rsp + 8]",
    "mov rsi, [rsp + 16]",
    "mov rdx, [rsp + 24]",
    "mov r10, [rsp + 32]",
    "mov r8, [rsp + 40]",
    "mov r9, [rsp + 48]",
    "mov rcx, [rsp + 72]",
    "mov rsp, [rsp + 64]",
    "jmp rcx",
    hook = sym crate::hook::hook,
);
