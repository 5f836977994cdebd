//! Hand-over to the MPI command when MPI's launcher started this one.

use anyhow::{Context, Result, bail};
use std::env::var;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The command that is linked to MPI.
const LINKED: &str = "pandofs-mpi";

/// Runs `pandofs-mpi` in the place of this process if MPI's launcher started several of it. Does
/// nothing otherwise.
///
/// # Errors
/// When it should and cannot: each process would walk the whole tree by itself.
pub fn hand_over() -> Result<()> {
    let several = launched(|name| var(name).ok());
    if several <= 1 {
        return Ok(());
    }
    let beside = std::env::current_exe()
        .ok()
        .map(|it| it.with_file_name(LINKED));
    let program = beside
        .filter(|it| it.exists())
        .unwrap_or_else(|| PathBuf::from(LINKED));
    let error = Command::new(&program)
        .args(crate::arguments().into_iter().skip(1))
        .exec();
    if error.kind() == std::io::ErrorKind::NotFound {
        bail!(
            "started {several} times by mpirun or srun, but there is no {LINKED} beside this command or in \
             PATH ('make build' makes it where MPI is installed)"
        );
    }
    Err(error).with_context(|| program.display().to_string())
}

/// Returns how many processes MPI's launcher started: Open MPI's mpirun, then those that speak PMI
/// (MPICH's mpirun, srun), then PMIx, which does not tell itself.
fn launched(variable: impl Fn(&str) -> Option<String>) -> u32 {
    let number = |name| variable(name).and_then(|text| text.parse().ok());
    number("OMPI_COMM_WORLD_SIZE")
        .or_else(|| number("PMI_SIZE"))
        .or_else(|| {
            variable("PMIX_RANK")?;
            number("SLURM_STEP_NUM_TASKS")
        })
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_known_by_what_they_say() {
        let ranks = |pairs: &[(&str, &str)]| {
            launched(|name| {
                let pair = pairs.iter().find(|(key, _)| *key == name);
                pair.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(ranks(&[]), 1);
        assert_eq!(ranks(&[("OMPI_COMM_WORLD_SIZE", "20")]), 20);
        assert_eq!(ranks(&[("PMI_RANK", "3"), ("PMI_SIZE", "8")]), 8);
        // A script in a batch job, which no launcher started.
        assert_eq!(ranks(&[("SLURM_STEP_NUM_TASKS", "8")]), 1);
        assert_eq!(
            ranks(&[("SLURM_STEP_NUM_TASKS", "8"), ("PMIX_RANK", "0")]),
            8
        );
    }
}
