//! The tools over several processes that MPI has started.

mod measure;

use clap::{CommandFactory, Parser, Subcommand};
use measure::Measure;
use mpi::Threading;
use mpi::traits::Communicator;
use pandofs_manual::{Elsewhere, Manual};
use pandofs_walk_fs::{Link, Processes};
use pandofs_walk_mpi::limits::LONGEST_SILENCE;
use pandofs_walk_mpi::{MpiLink, Pulse, write_to_launchers};
use pandofs_walk_tools::{Executor, Outcome, Tool};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

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
    asked: Asked,
}

#[derive(Subcommand)]
enum Asked {
    #[command(flatten)]
    Walk(Command),
    /// Needs no MPI.
    #[command(hide = true)]
    Manual(Manual),
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Tool(Box<Tool>),
    #[command(hide = true)]
    Measure(Measure),
}

fn main() -> ExitCode {
    let command = match Cli::parse_from(pandofs_walk_tools::arguments()).asked {
        Asked::Walk(command) => command,
        Asked::Manual(manual) => return write_manual(&manual),
    };
    // A process that panics would leave the others waiting for it; one that dies of a signal makes
    // the launcher end them all.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
    prepare_open_mpi();
    // One thread speaks for the walk, and another one says that this process is there.
    let Some((universe, threads)) = mpi::initialize_with_threading(Threading::Multiple) else {
        eprintln!("pandofs-mpi: MPI cannot be initialized");
        return ExitCode::from(Outcome::Incomplete.code());
    };
    keep_from_commands();
    let world = universe.world();
    if threads < Threading::Funneled {
        eprintln!(
            "pandofs-mpi: this MPI does not support programs with threads: use another build of it"
        );
        world.abort(1);
    }
    if world.rank() == 0 {
        write_to_launchers();
    }
    let mut link = MpiLink::new(world.duplicate());
    let outcome = begin(&command, &mut link, threads)
        .and_then(|(host, pulse)| Ok((run(&command, &host, &mut link)?, pulse)));
    match outcome {
        Ok((outcome, pulse)) => {
            if let Some(pulse) = pulse {
                pulse.end();
            }
            ExitCode::from(outcome.code())
        }
        Err((outcome, message)) => {
            eprintln!("{message}");
            // The others do not know, and would wait.
            world.abort(outcome.code().into())
        }
    }
}

fn write_manual(manual: &Manual) -> ExitCode {
    match manual.write(&Cli::command(), &elsewhere()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pandofs-mpi: {error}");
            ExitCode::from(Outcome::Incomplete.code())
        }
    }
}

/// The tools: their pages are those of `pandofs-walk`.
fn elsewhere() -> Vec<Elsewhere> {
    let command = Cli::command();
    let tools = command.get_subcommands().filter(|it| !it.is_hide_set());
    tools
        .map(|tool| Elsewhere {
            subcommand: tool.get_name().to_owned(),
            page: format!("pandofs-walk-{}", tool.get_name()),
        })
        .collect()
}

/// Chooses shared memory (`ob1`) if Open MPI's launcher says that all processes are on one host.
/// Left to itself Open MPI asks each library for networks first whether it knows a better way,
/// which took 0.2 s of each start, and a third of the processor time of eight. A choice of the user
/// is not overruled.
fn prepare_open_mpi() {
    let own = |name: &str| std::env::var_os(name);
    if let Some((name, value)) = way_of_messages(own) {
        // SAFETY: this is the only thread: no other reads the environment meanwhile.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Returns the setting that Open MPI needs in such an environment, if any.
fn way_of_messages(own: impl Fn(&str) -> Option<OsString>) -> Option<(&'static str, &'static str)> {
    const NAME: &str = "OMPI_MCA_pml";
    let here = own("OMPI_COMM_WORLD_LOCAL_SIZE")?;
    let is_one_host = own("OMPI_COMM_WORLD_SIZE")? == here;
    (is_one_host && own(NAME).is_none()).then_some((NAME, "ob1"))
}

/// Outcome, and its message.
type Failed = (Outcome, String);

fn failed(error: &dyn std::fmt::Display) -> Failed {
    let message = format!("pandofs-mpi: {error:#}");
    (Outcome::Incomplete, message)
}

/// Returns the name of this process's host, and begins the heartbeat.
fn begin(
    command: &Command,
    link: &mut MpiLink,
    threads: Threading,
) -> Result<(String, Option<Pulse>), Failed> {
    let host = mpi::environment::processor_name().map_err(|error| failed(&error))?;
    let asked = match command {
        Command::Tool(tool) => tool.common_args().silence,
        Command::Measure(_) => None,
    };
    let limit = asked.map_or(LONGEST_SILENCE, Duration::from_secs);
    if limit.is_zero() || link.ranks() == 1 {
        return Ok((host, None));
    }
    if threads < Threading::Multiple {
        if asked.is_some() {
            let error = "--silence needs an MPI that several threads may call at once";
            return Err(failed(&error));
        }
        return Ok((host, None));
    }
    let hosts = link.all_gather(host.as_bytes());
    let hosts = hosts.iter().map(|it| String::from_utf8_lossy(it).into());
    let pulse = Pulse::start(limit, hosts.collect()).map_err(|error| failed(&error))?;
    Ok((host, Some(pulse)))
}

/// Commands that a tool runs get none of the files that MPI has open. MPICH's launcher knows that a
/// process has died by the end of a connection with it, which a command of `find -exec` would keep
/// while it lives. Linux before 5.11 does not know the call; the end is late there.
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

fn run(command: &Command, host: &str, link: &mut MpiLink) -> Result<Outcome, Failed> {
    let mut host = host.to_owned();
    if let Command::Measure(measure) = command {
        host = measure.host(&host, link.rank());
    }
    let traffic = link.traffic();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let same = format!("{} {arguments:?}", env!("CARGO_PKG_VERSION"));
    let write = |records: &[u8]| {
        let mut out = std::io::stdout().lock();
        out.write_all(records).and_then(|()| out.flush())
    };
    let processes = Processes::new(link, &host, &same, write).map_err(|error| failed(&error))?;
    let mut executor = Executor::Together(Box::new(processes));
    let ended = match command {
        Command::Tool(tool) => tool.run(&mut executor).map_err(|error| {
            let (_, message) = failed(&error);
            (tool.failed(&error), message)
        }),
        Command::Measure(measure) => measure
            .run(&mut executor, &traffic)
            .map_err(|error| failed(&error)),
    };
    match ended {
        Err((outcome, message)) if executor.is_over() => {
            eprintln!("{message}");
            Ok(outcome)
        }
        ended => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn pages_and_completions_have_what_the_help_has() {
        let found = pandofs_manual::suite::differences(&Cli::command(), &elsewhere());
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn open_mpi_gets_a_default_on_one_host_unless_it_has_a_setting() {
        let setting = |pairs: &[(&str, &str)]| {
            way_of_messages(|name| {
                let found = pairs.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        let (all, here) = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE");
        let ob1 = Some(("OMPI_MCA_pml", "ob1"));
        assert_eq!(setting(&[(all, "8"), (here, "8")]), ob1);
        assert_eq!(setting(&[(all, "8"), (here, "4")]), None);
        assert_eq!(
            setting(&[(all, "8"), (here, "8"), ("OMPI_MCA_pml", "ucx")]),
            None
        );
        assert_eq!(setting(&[(all, "8")]), None);
        assert_eq!(setting(&[]), None);
    }
}
