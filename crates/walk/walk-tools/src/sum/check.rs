//! Messages about digests that were compared.

use crate::output::Output;
use crate::sum::list::Digests;
use crate::text::{count, shown};

/// Says of each that is wanted whether it is so, and on standard error how many are not; whether
/// some are not.
pub(crate) fn report(wanted: &Digests, found: &Digests, out: &Output, interrupted: bool) -> bool {
    let (mut differ, mut unread) = (0, 0);
    for (name, digest) in wanted {
        let word = match found.get(name) {
            Some(is) if is == digest => "OK",
            Some(_) => {
                differ += 1;
                "FAILED"
            }
            None if interrupted => continue,
            None => {
                unread += 1;
                "FAILED: cannot be read"
            }
        };
        out.print(&format!("{}: {word}\n", shown(name)));
    }
    let warn = |number: u64, one: &str, several: &str| {
        if number > 0 {
            let what = if number == 1 { one } else { several };
            eprintln!("pandofs sum: WARNING: {} {what}", count(number));
        }
    };
    let (one, several) = (
        "listed path could not be read",
        "listed paths could not be read",
    );
    warn(unread, one, several);
    let (one, several) = (
        "computed digest did NOT match",
        "computed digests did NOT match",
    );
    warn(differ, one, several);
    differ + unread > 0
}
