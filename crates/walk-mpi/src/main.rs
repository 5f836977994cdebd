//! The tools over several processes that MPI has started.

mod measure;

use clap::{Parser, Subcommand};
use measure::Measure;
use mpi::Threading;
use mpi::traits::Communicator;
use pandofs_walk_fs::{Link, Processes};
use pandofs_walk_mpi::MpiLink;
use pandofs_walk_tools::{Crew, Outcome, Tool};
use std::io::Write;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mpirun -n 20 pandofs walk /scratch
      'pandofs' runs this command when it was started by mpirun or srun
  mpirun -n 8 --hostfile hosts pandofs find /scratch -name '*.tmp' -delete
  mpirun -n 4 --map-by node --bind-to none pandofs walk --algorithm h-drqs --threads 16 /scratch
      one process on each host, with threads that share its queue
  mpirun --allow-run-as-root --oversubscribe -n 20 pandofs walk /usr
      what Open MPI wants to hear of root, and of more processes than processors";

/// Parallel tree walks by several processes, started with mpirun or srun
#[derive(Parser)]
#[command(name = "pandofs-mpi", version, after_help = EXAMPLES, max_term_width = 100,
    disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Tool(Box<Tool>),
    #[command(hide = true)]
    Measure(Measure),
}

fn main() -> ExitCode {
    let cli = Cli::parse_from(pandofs_walk_tools::arguments());
    // A process that panics would leave the others waiting for it; one that dies of a signal makes the
    // launcher end them all.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
    // Only this thread speaks with MPI.
    let Some((universe, threads)) = mpi::initialize_with_threading(Threading::Funneled) else {
        eprintln!("pandofs-mpi: MPI cannot be initialized");
        return ExitCode::from(Outcome::Incomplete.code());
    };
    keep_from_commands();
    let world = universe.world();
    if threads < Threading::Funneled {
        eprintln!("pandofs-mpi: this MPI does not allow for programs with threads");
        world.abort(1);
    }
    let mut link = MpiLink::new(universe.world());
    let outcome = {
        let write = |records: &[u8]| {
            let mut out = std::io::stdout().lock();
            if let Err(error) = out.write_all(records).and_then(|()| out.flush()) {
                // Nothing that is found can be told any more.
                if error.kind() != std::io::ErrorKind::BrokenPipe {
                    eprintln!("pandofs-mpi: standard output: {error}");
                }
                universe.world().abort(1);
            }
        };
        run(&cli.command, &mut link, write)
    };
    match outcome {
        Ok(outcome) => ExitCode::from(outcome.code()),
        Err((outcome, message)) => {
            eprintln!("{message}");
            // The others do not know, and would wait.
            world.abort(outcome.code().into())
        }
    }
}

/// Commands that a tool runs get none of the files that MPI has open. MPICH's launcher knows that a process has died by the
/// end of a connection with it, which a command of `find -exec` would keep while it lives. Linux before 5.11 does
/// not know the call; the end is late there.
fn keep_from_commands() {
    let first = rustix::stdio::raw_stderr() + 1;
    // SAFETY: it sets a flag of files that are open, and closes none.
    let _ = unsafe {
        libc::close_range(
            first as u32,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_int,
        )
    };
}

fn run(
    command: &Command,
    link: &mut MpiLink,
    write: impl FnMut(&[u8]),
) -> Result<Outcome, (Outcome, String)> {
    let failed = |error: &dyn std::fmt::Display| {
        let message = format!("pandofs-mpi: {error:#}");
        (Outcome::Incomplete, message)
    };
    let mut host = mpi::environment::processor_name().map_err(|error| failed(&error))?;
    if let Command::Measure(measure) = command {
        host = measure.host(&host, link.rank());
    }
    let traffic = link.traffic();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let same = format!("{} {arguments:?}", env!("CARGO_PKG_VERSION"));
    let processes = Processes::new(link, &host, &same, write).map_err(|error| failed(&error))?;
    let mut crew = Crew::Together(Box::new(processes));
    match command {
        Command::Tool(tool) => tool.run(&mut crew).map_err(|error| {
            let (_, message) = failed(&error);
            (tool.failed(&error), message)
        }),
        Command::Measure(measure) => measure
            .run(&mut crew, &traffic)
            .map_err(|error| failed(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
