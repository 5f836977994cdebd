//! Requests that wait for long, and their end when the program that made them is being killed.
//!
//! Another thread takes the requests that come after one that waits. When the program is being
//! killed it is cancelled or abandoned ([`crate::abandoned`]).
//!
//! The kernel tells of a signal by `INTERRUPT`, whatever signal it is, and then waits for the
//! answer. A program that handles a signal is not to see a call fail for it where no other file
//! system's calls do (signal(7)); of one that is being killed the ends of its calls are not seen.
//! Which of the two it is stands in `/proc`:
//!
//! - A thread that is to be killed has `SIGKILL` pending. That is so whatever kills it: of a signal
//!   that ends a process the kernel makes a `SIGKILL` for each of its threads (signal(7);
//!   `complete_signal` in kernel/signal.c).
//! - Signals that leave a core behind are the exception: they stay pending until a thread takes
//!   them, which it does when it has its answer. One that the thread neither blocks nor ignores nor
//!   handles ends the process then.
//! - A thread that ends closes its files, for which there is a `FLUSH` of each. It has no signal
//!   any more; its flags say that it ends, and its exit code that it was killed. One that ends by
//!   itself waits until what it wrote is where others see it.
//!
//! While a request is under way the thread that made it is there, and its number means it.
//!
//! Much of `/proc/PID` cannot be read while the process is in execve(2), `stat` among it
//! (`exec_update_lock`). execve closes files, which is a `FLUSH`: a mount that read `stat` then
//! would wait for its own answer, and with it all that look at the process. `status` may always be
//! read, and of a process in execve it tells of memory.

/// `PF_EXITING` of the kernel's include/linux/sched.h.
const EXITING: u64 = 0x4;
/// Fields of `/proc/PID/stat` after the name, which is the second and may contain anything
/// (proc_pid_stat(5)): the state is the first of them.
const FLAGS_FIELD: usize = 9 - 3;
const EXIT_CODE_FIELD: usize = 52 - 3;
/// Those bits of an exit code that are the number of a signal (wait(2)).
const SIGNAL_OF_EXIT_CODE: u64 = 0x7f;

/// Signals that leave a core behind by default (signal(7)).
const CORE_SIGNALS: [i32; 10] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGQUIT,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGTRAP,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// Returns whether a thread is being killed. One of which nothing can be read is not: what asks for
/// it is waited for.
pub(crate) fn is_killed(thread: u32) -> bool {
    let read = |file| std::fs::read(format!("/proc/{thread}/{file}"));
    let Ok(status) = read("status") else {
        return false;
    };
    is_to_end(&status)
        || !has_memory(&status) && read("stat").is_ok_and(|stat| ends_by_signal(&stat))
}

/// A thread that ends has let go of its memory before it closes its files (`do_exit` in
/// kernel/exit.c), and is in no execve.
fn has_memory(status: &[u8]) -> bool {
    let mut lines = status.split(|&byte| byte == b'\n');
    lines.any(|line| line.starts_with(b"VmSize:"))
}

/// Returns whether a signal is pending that ends the thread (proc_pid_status(5)).
fn is_to_end(status: &[u8]) -> bool {
    let (mut pending, mut kept) = (0, 0);
    for line in status.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let (name, mask) = line.split_at(colon);
        let masks = match name {
            b"SigPnd" | b"ShdPnd" => &mut pending,
            b"SigBlk" | b"SigIgn" | b"SigCgt" => &mut kept,
            _ => continue,
        };
        let mask = std::str::from_utf8(&mask[1..]).unwrap_or_default().trim();
        match u64::from_str_radix(mask, 16) {
            Ok(mask) => *masks |= mask,
            // An unknown mask kills no program.
            Err(_) => return false,
        }
    }
    let of = |signals: &[i32]| {
        signals
            .iter()
            .fold(0, |mask, signal| mask | 1 << (signal - 1))
    };
    pending & of(&[libc::SIGKILL]) != 0 || pending & !kept & of(&CORE_SIGNALS) != 0
}

fn ends_by_signal(stat: &[u8]) -> bool {
    let Some(name_ends) = stat.iter().rposition(|&byte| byte == b')') else {
        return false;
    };
    let fields = String::from_utf8_lossy(&stat[name_ends + 1..]);
    let field =
        |index: usize| -> Option<u64> { fields.split_ascii_whitespace().nth(index)?.parse().ok() };
    let has = |index, bits| field(index).is_some_and(|value| value & bits != 0);
    has(FLAGS_FIELD, EXITING) && has(EXIT_CODE_FIELD, SIGNAL_OF_EXIT_CODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_found_among_pending_signals() {
        let status = |own: &str, shared: &str| {
            let text = format!(
                "Name:\tSigPnd: 100\nThreads:\t1\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t0000000000000100\n"
            );
            is_to_end(text.as_bytes())
        };
        assert!(status("0000000000000100", "0000000000000000"));
        assert!(status("0000000000000000", "0000000000004100"));
        // Of these programs see to themselves: SIGINT, SIGUSR1, SIGALRM, SIGTERM.
        assert!(!status("0000000000000002", "0000000000006202"));
        assert!(!is_to_end(b"SigPnd:\tx\n"));
        assert!(!is_to_end(b""));
    }

    #[test]
    fn a_signal_that_leaves_a_core_ends_who_does_not_see_to_it() {
        let status = |blocked: u64, ignored: u64, caught: u64| {
            let text = format!(
                "SigPnd:\t0\nShdPnd:\t4\nSigBlk:\t{blocked:x}\nSigIgn:\t{ignored:x}\nSigCgt:\t{caught:x}\n"
            );
            is_to_end(text.as_bytes())
        };
        // SIGQUIT is 3, SIGINT is 2.
        assert!(status(0, 0, 0));
        assert!(status(2, 2, 2));
        assert!(!status(4, 0, 0) && !status(0, 4, 0) && !status(0, 0, 4));
        assert!(!is_to_end(
            b"ShdPnd:\t2\nSigBlk:\t0\nSigIgn:\t0\nSigCgt:\t0\n"
        ));
    }

    /// As proc_pid_stat(5) has it, for a program with a name that looks like more fields.
    fn stat(flags: u64, exit_code: u64) -> String {
        let mut fields = vec!["7".to_owned(), "(a) Z 4 (b)".to_owned(), "D".to_owned()];
        fields.resize(8, "1".to_owned());
        fields.push(flags.to_string());
        fields.resize(51, "2".to_owned());
        fields.push(exit_code.to_string());
        fields.join(" ") + "\n"
    }

    #[test]
    fn who_ends_by_a_signal_is_told_from_who_ends() {
        let ends = |flags, code| ends_by_signal(stat(flags, code).as_bytes());
        assert!(ends(0x40_4104, 9));
        assert!(ends(EXITING, 15));
        assert!(!ends(EXITING, 0));
        assert!(!ends(EXITING, 1 << 8), "it said exit(1)");
        assert!(!ends(0x40_4100, 9), "it does not end");
        assert!(!ends_by_signal(b"7 (a D 4"));
        assert!(!ends_by_signal(b"7 (a) D 4"));
    }

    /// Only of such a one may `stat` be read.
    #[test]
    fn a_process_that_has_ended_has_no_memory() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let path = format!("/proc/{}/status", child.id());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let status = std::fs::read(&path).unwrap();
            if String::from_utf8_lossy(&status).contains("\nState:\tZ") {
                assert!(!has_memory(&status));
                break;
            }
            assert!(std::time::Instant::now() < deadline, "it does not end");
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }

    #[test]
    fn this_process_lives() {
        let thread = std::process::id();
        let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap();
        assert!(status.contains("\nSigPnd:\t") && status.contains("\nShdPnd:\t"));
        assert!(has_memory(status.as_bytes()));
        let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).unwrap();
        let fields = stat.rsplit(')').next().unwrap();
        assert!(fields.split_ascii_whitespace().count() > EXIT_CODE_FIELD);
        assert!(!is_killed(thread));
        assert!(!is_killed(u32::MAX), "there is no such thread");
    }
}
