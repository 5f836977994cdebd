//! How an error reads.

use anyhow::Error;

/// The error and its causes, the outermost first, on one line. Many an error already ends with the
/// words of its cause: nothing is said twice.
pub fn told(error: &Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn nothing_is_said_twice() {
        let error = anyhow!("no such file")
            .context("the log cannot be used: no such file")
            .context("cannot start server 1");
        assert_eq!(
            told(&error),
            "cannot start server 1: the log cannot be used: no such file"
        );
        assert_eq!(told(&anyhow!("alone")), "alone");
        let other: Result<(), _> = Err(anyhow!("b"));
        assert_eq!(told(&other.context("a").unwrap_err()), "a: b");
    }
}
