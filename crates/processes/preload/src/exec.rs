//! Programs that take a process's place, and its end.
//!
//! Descriptors that stay open by `exec`, and the current directory, are passed on in a variable of the environment; an
//! open file's state, its offset included, is in the page that its descriptor is of. A program of the file system is
//! copied into memory for the kernel, or its interpreter is run.

use crate::at::{Found, Here, Path, c_string, errno};
use crate::calls;
use crate::complain::{self, About};
use crate::cwd;
use crate::fds;
use crate::guard;
use crate::memory;
use crate::session;
use crate::sys;
use crate::waited;
use pandofs_client::Node;
use pandofs_types::{FileKind, Ino};
use std::ffi::CString;

/// The variable: descriptors with commas in between, `:`, the number of the current directory's inode, `:`, its path.
pub(crate) const STATE: &str = "PANDOFS_PRELOAD_STATE";
/// The right to execute, as the client library has it.
const EXECUTE: u16 = 1;
/// Bytes of the line of a script that names its interpreter, as in Linux.
const MAX_LINE: usize = 255;
/// The largest program that is copied into memory, in bytes.
const MAX_PROGRAM: u64 = 1 << 30;
/// Part of the name of this library, as `LD_PRELOAD` has it.
const LIBRARY: &[u8] = b"pandofs";

/// Arguments of `exec`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exec<'p> {
    pub path: Path<'p>,
    pub flags: usize,
    pub arguments: usize,
    pub environment: usize,
}

/// The program to run.
enum Program {
    /// By its path from a directory, with flags.
    Kernel {
        dir: usize,
        path: CString,
        flags: usize,
    },
    /// A script: the interpreter, an argument of it if there is one.
    Script {
        interpreter: Vec<u8>,
        argument: Option<Vec<u8>>,
    },
    /// A copy in memory.
    Memory(i32),
}

/// As `execve` and `execveat`; it answers only if that failed. `None` if the kernel can do it as it is.
///
/// # Errors
/// Error numbers.
pub(crate) fn exec(exec: Exec<'_>) -> Result<Option<isize>, i32> {
    waited::tell();
    // Without anything to pass on nothing is allocated, which may not be possible where this is called.
    let is_used = !fds::are_none() || cwd::is_inside() || session::is_begun();
    if !is_used && !exec.path.may_be_ours() {
        return Ok(None);
    }
    let program = program(exec)?;
    let mut arguments: Vec<Vec<u8>> = memory::texts(exec.arguments)?
        .into_iter()
        .map(<[u8]>::to_vec)
        .collect();
    let (dir, path, flags) = match &program {
        Program::Kernel { dir, path, flags } => (*dir, path.clone(), *flags),
        Program::Memory(fd) => (
            *fd as usize,
            CString::default(),
            libc::AT_EMPTY_PATH as usize,
        ),
        Program::Script {
            interpreter,
            argument,
        } => {
            let rest = arguments.split_off(arguments.len().min(1));
            arguments = vec![interpreter.clone()];
            arguments.extend(argument.clone());
            arguments.push(exec.path.text.to_vec());
            arguments.extend(rest);
            let path = Path {
                dir: libc::AT_FDCWD,
                text: interpreter,
            };
            let found = match path.may_be_ours() {
                true => path.find(true)?,
                false => Found::Kernel,
            };
            let path = match found {
                Found::Kernel => c_string(interpreter.clone())?,
                // As of a virtual environment of Python: a symbolic link to the machine's.
                Found::Elsewhere(path) => path,
                // It would have to be copied as well.
                Found::Node(..) => return Err(libc::ENOEXEC),
            };
            (libc::AT_FDCWD as usize, path, 0)
        }
    };
    let state = prepare(exec.environment)?;
    let own = [STATE.as_bytes(), b"="].concat();
    let environment = memory::texts(exec.environment)?;
    let kept = environment
        .into_iter()
        .filter(|text| !text.starts_with(&own))
        .map(<[u8]>::to_vec);
    let environment: Vec<Vec<u8>> = kept.chain(state).collect();
    let (arguments, environment) = (array(arguments)?, array(environment)?);
    if is_there(dir, &path, flags) {
        end_session();
    }
    let args = [
        dir,
        path.as_ptr() as usize,
        arguments.1.as_ptr() as usize,
        environment.1.as_ptr() as usize,
        flags,
        0,
    ];
    // Signals blocked now stay blocked in the program.
    let answer = guard::with_own_signals(|| match flags {
        0 if dir as i32 == libc::AT_FDCWD => {
            sys::call3(libc::SYS_execve, args[1], args[2], args[3])
        }
        _ => sys::call(libc::SYS_execveat, args),
    });
    if let Program::Memory(fd) = program {
        sys::close(fd);
    }
    Ok(Some(answer))
}

/// Texts for the kernel, and pointers to them with a null pointer at the end.
fn array(texts: Vec<Vec<u8>>) -> Result<(Vec<CString>, Vec<*const i8>), i32> {
    let texts: Vec<CString> = texts.into_iter().map(c_string).collect::<Result<_, _>>()?;
    let pointers = texts
        .iter()
        .map(|text| text.as_ptr())
        .chain([std::ptr::null()])
        .collect();
    Ok((texts, pointers))
}

fn is_there(dir: usize, path: &CString, flags: usize) -> bool {
    let args = [
        dir,
        path.as_ptr() as usize,
        libc::X_OK as usize,
        flags,
        0,
        0,
    ];
    sys::call(libc::SYS_faccessat2, args) == 0
}

fn program(exec: Exec<'_>) -> Result<Program, i32> {
    let kernel = |dir: usize, path: Vec<u8>, flags: usize| {
        Ok(Program::Kernel {
            dir,
            path: c_string(path)?,
            flags,
        })
    };
    let found = match exec.path.text.is_empty() && fds::is_ours(exec.path.dir) {
        true => crate::at::of_descriptor(exec.path.dir)?,
        false if exec.path.may_be_ours() => exec.path.find(true)?,
        false => Found::Kernel,
    };
    match found {
        Found::Kernel => kernel(exec.path.dir as usize, exec.path.text.to_vec(), exec.flags),
        Found::Elsewhere(path) => kernel(libc::AT_FDCWD as usize, path.into_bytes(), 0),
        Found::Node(node, _) => of_file_system(&node),
    }
}

fn of_file_system(node: &Node) -> Result<Program, i32> {
    let here = Here::now()?;
    let (client, caller) = (&here.session.client, &here.caller);
    if node.kind != FileKind::File {
        return Err(libc::EACCES);
    }
    client.access(caller, node.ino, EXECUTE).map_err(errno)?;
    if node.attr.mode & 0o111 == 0 {
        // Not the superuser either.
        return Err(libc::EACCES);
    }
    if node.attr.size > MAX_PROGRAM {
        return Err(libc::ENOMEM);
    }
    // A caller that may execute it need not be able to read it.
    let root = &pandofs_types::Credentials::ROOT;
    let mut bytes = Vec::new();
    let put = |_: usize, data: &[u8]| bytes.extend_from_slice(data);
    let size = node.attr.size as usize;
    let read = pandofs_handles::read_whole(client, root, node.ino, 0, size, put).map_err(errno)?;
    if read != size {
        // It is being cut, and a part of a program is none.
        return Err(libc::EIO);
    }
    if let Some(script) = script(&bytes) {
        return script;
    }
    let fd = sys::call3(
        libc::SYS_memfd_create,
        c"program".as_ptr() as usize,
        libc::MFD_CLOEXEC as usize,
        0,
    );
    let fd = i32::try_from(fd)
        .ok()
        .filter(|fd| *fd >= 0)
        .ok_or(libc::ENOMEM)?;
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let written = sys::call3(
            libc::SYS_write,
            fd as usize,
            rest.as_ptr() as usize,
            rest.len(),
        );
        if written <= 0 {
            sys::close(fd);
            return Err(libc::ENOMEM);
        }
        rest = &rest[written as usize..];
    }
    Ok(Program::Memory(fd))
}

/// The interpreter of a script, by its first line; `None` if it is none.
fn script(bytes: &[u8]) -> Option<Result<Program, i32>> {
    let line = bytes.strip_prefix(b"#!")?;
    let line = &line[..line.len().min(MAX_LINE)];
    let end = line
        .iter()
        .position(|&byte| byte == b'\n')
        .unwrap_or(line.len());
    let line = line[..end].trim_ascii();
    let split = line
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(line.len());
    let (interpreter, argument) = line.split_at(split);
    let argument = argument.trim_ascii();
    Some(match interpreter {
        b"" => Err(libc::ENOEXEC),
        _ => Ok(Program::Script {
            interpreter: interpreter.to_vec(),
            argument: (!argument.is_empty()).then(|| argument.to_vec()),
        }),
    })
}

/// Has what stays open be passed on, and says how.
fn prepare(environment: usize) -> Result<Option<Vec<u8>>, i32> {
    let mut table = fds::table();
    let stays = |fd: i32| sys::descriptor_flags(fd) & libc::FD_CLOEXEC as isize == 0;
    let all = table.all();
    let kept: Vec<i32> = all
        .iter()
        .map(|(fd, _)| *fd)
        .filter(|fd| stays(*fd))
        .collect();
    for (_, file) in &all {
        file.flush()?;
    }
    if !kept.is_empty() {
        table.share()?;
    }
    drop(table);
    let place = cwd::inside();
    if kept.is_empty() && place.is_none() {
        return Ok(None);
    }
    let loads = |text: &&[u8]| {
        text.starts_with(b"LD_PRELOAD=") && text.windows(LIBRARY.len()).any(|part| part == LIBRARY)
    };
    if !memory::texts(environment)?.iter().any(loads) {
        complain::once(
            About::Exec,
            "a program is run without LD_PRELOAD: its files of the file system, and its current directory there, do \
             not work in it",
        );
    }
    Ok(Some(state(
        &kept,
        place.map(|place| (place.ino, place.path)),
    )))
}

fn state(kept: &[i32], cwd: Option<(Ino, Vec<u8>)>) -> Vec<u8> {
    let fds: Vec<String> = kept.iter().map(i32::to_string).collect();
    let mut text = format!("{STATE}={}:", fds.join(",")).into_bytes();
    if let Some((ino, path)) = cwd {
        text.extend(format!("{}:", ino.0).bytes());
        text.extend(path);
    }
    text
}

/// Takes up what the process had open when it called `exec`, by the variable's value.
pub(crate) fn inherit(value: &[u8]) {
    let mut parts = value.splitn(3, |&byte| byte == b':');
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse().ok();
    let mut table = fds::table();
    for fd in parts.next().unwrap_or_default().split(|&byte| byte == b',') {
        if let Some(fd) = number(fd).and_then(|fd: u64| i32::try_from(fd).ok()) {
            table.inherit(fd);
        }
    }
    if let (Some(ino), Some(path)) = (parts.next().and_then(number), parts.next()) {
        cwd::inherit(Ino(ino), path.to_vec());
    }
}

/// Ends the session, if there is one. Open files are opened again if they are used after all.
fn end_session() {
    if !session::is_begun() {
        return;
    }
    let session = session::take(&mut session::lock());
    for (_, file) in fds::table().all() {
        file.detach();
    }
    drop(session);
}

/// The process ends: its parent is told, what was written is reported, the session ends, and what was counted is printed.
pub(crate) fn exit() {
    waited::tell();
    let reports = session::config().is_some_and(|config| config.report);
    if !reports && !session::is_begun() && fds::are_none() {
        return;
    }
    for (_, file) in fds::table().all() {
        if file.flush().is_err() {
            let path = String::from_utf8_lossy(&file.path).into_owned();
            complain::once(
                About::Exit,
                &format!("not all that was written to {path} is there"),
            );
        }
    }
    end_session();
    if reports {
        let (ours, kernels) = (calls::counted(true), calls::counted(false));
        let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let (pid, name) = (std::process::id(), name.trim_end());
        complain::say(&format!("{name} ({pid}): PandoFS: {ours}"));
        complain::say(&format!("{name} ({pid}): kernel: {kernels}"));
        let patched = crate::patch::patched();
        let (led, left) = (patched.led, patched.left);
        complain::say(&format!(
            "{name} ({pid}): of the C library's system calls {led} are led here, {left} are not"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_name_their_interpreters() {
        let of = |text: &str| match script(text.as_bytes()) {
            Some(Ok(Program::Script {
                interpreter,
                argument,
            })) => (
                String::from_utf8(interpreter).unwrap(),
                argument.map(|argument| String::from_utf8(argument).unwrap()),
            ),
            _ => (String::new(), None),
        };
        assert_eq!(of("#!/bin/sh\necho"), ("/bin/sh".to_owned(), None));
        let both = ("/usr/bin/env".to_owned(), Some("python3 -u".to_owned()));
        assert_eq!(of("#! /usr/bin/env  python3 -u \nx"), both);
        assert!(matches!(script(b"#!\n"), Some(Err(libc::ENOEXEC))));
        assert!(script(b"\x7fELF").is_none());
    }

    #[test]
    fn the_state_says_what_stays() {
        let text = state(&[1, 5], Some((Ino(9), b"/a:b".to_vec())));
        assert_eq!(text, b"PANDOFS_PRELOAD_STATE=1,5:9:/a:b");
        assert_eq!(state(&[], None), b"PANDOFS_PRELOAD_STATE=:");
    }
}
