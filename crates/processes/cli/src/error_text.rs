//! Text of an error, on one line.

use anyhow::Error;

/// The error and its causes, the outermost first, on one line. Many errors already end with the
/// text of their cause, which is then not repeated.
pub(crate) fn error_text(error: &Error) -> String {
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
    fn no_cause_is_repeated() {
        let error = anyhow!("no such file")
            .context("the log cannot be used: no such file")
            .context("cannot start server 1");
        assert_eq!(
            error_text(&error),
            "cannot start server 1: the log cannot be used: no such file"
        );
        assert_eq!(error_text(&anyhow!("alone")), "alone");
        let other: Result<(), _> = Err(anyhow!("b"));
        assert_eq!(error_text(&other.context("a").unwrap_err()), "a: b");
    }
}
