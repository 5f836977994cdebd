"""_network_trouble.py DIR_OF_MOUNT DIR_OF_OTHER_MOUNT PATIENCE: one directory of one file system, through two mounts.

Processes work in it through both mounts until they are told to end, and compare what they find with what has to be there:

- writers: each has files of its own, which it writes, appends to, cuts, empties, replaces by renaming, removes and reads
  back. Each byte says who wrote it, which version it is of and where it belongs. Now and then a file is lent to a reader on
  the other mount, after it was closed: that has to find what was written, all of it, or that it is gone.
- appenders: all append records to one file (`O_APPEND`). In the end each that was acknowledged is there once, in order.
- lockers: all add records to another file, with `flock` around reading the last number and writing the next. Each number is
  there once.
- namers: all make the same few names with `O_EXCL`, hold them for a moment and remove or rename them. By the times of all
  calls, no two ever had one name at once, and nobody was told that a name is there while no other could have had it.

Every call is expected to succeed, however long it takes. Lines on standard input:

    phase NAME      how long calls take that end from now on is told by itself
    errors          from now on a call may fail, if the program is told: what it was about is not judged then
    calm            answered with 'all go on' once each process has made some steps that began after this
    end             everybody ends, everything is compared once more through both mounts, and all is told
"""

import errno
import fcntl
import multiprocessing
import os
import queue
import random
import select
import sys
import time

RECORD = 64
FILES = 6
LARGEST = 192 * 1024
SIZES = [100, 3000, 3000, 30_000, 150_000]
LOCKS = ["one", "two", "three"]
# Steps after which a process is taken to go on.
STEPS = 3
MAX_PHASES = 16
KINDS = ["writer", "reader", "appender", "locker", "namer"]
# Of each kind on each mount.
OF_EACH = 2
CALLS = ["open", "close", "pread", "pwrite", "write", "ftruncate", "truncate", "fsync", "fstat", "stat", "rename", "unlink",
         "flock"]


class Told(Exception):
    """A call failed when it may: whatever it was about is unknown."""


class Wrong(Exception):
    """What is found is not what has to be there."""


def record(text):
    return text.ljust(RECORD - 1).encode() + b"\n"


def contents(worker, file, version, start, length):
    """What a version has from a byte on, in lines that say what they are."""
    first = start // RECORD
    last = (start + length + RECORD - 1) // RECORD
    lines = b"".join(record(f"worker {worker} file {file} version {version} at {line * RECORD}") for line in range(first, last))
    return lines[start - first * RECORD:][:length]


def difference(found, wanted):
    if len(found) != len(wanted):
        sizes = f"{len(found)} bytes, expected {len(wanted)}; "
    else:
        sizes = ""
    for at, (one, other) in enumerate(zip(found, wanted)):
        if one != other:
            break
    else:
        at = min(len(found), len(wanted))
    differ = sum(one != other for one, other in zip(found, wanted))
    line = at // RECORD * RECORD
    return (f"{sizes}{differ} bytes differ, the first at {at}; from {line} on found {bytes(found[line:line + 2 * RECORD])!r}, "
            f"expected {bytes(wanted[line:line + 2 * RECORD])!r}")


class Shared:
    """What all processes see; each writes in its own places."""

    def __init__(self, workers):
        self.workers = workers
        self.phase = multiprocessing.RawValue("i", 0)
        self.stop = multiprocessing.RawValue("i", 0)
        self.errors = multiprocessing.RawValue("i", 0)
        self.steps = multiprocessing.RawArray("Q", workers)
        # When the call began that is under way, 0 if none is, and which it is.
        self.begun = multiprocessing.RawArray("d", workers)
        self.called = multiprocessing.RawArray("i", workers)
        # Of each phase and worker.
        self.calls = multiprocessing.RawArray("Q", MAX_PHASES * workers)
        self.longest = multiprocessing.RawArray("d", MAX_PHASES * workers)
        self.longest_call = multiprocessing.RawArray("i", MAX_PHASES * workers)
        self.told = multiprocessing.RawArray("Q", workers)
        self.failures = multiprocessing.Queue()
        self.results = multiprocessing.Queue()


class Worker:
    def __init__(self, shared, number, kind, mount, lend=None, give_back=None):
        self.shared = shared
        self.number = number
        self.kind = kind
        self.mount = mount
        self.lend, self.give_back = lend, give_back
        self.name = f"{kind} {number} in {mount}"
        self.parent = os.getpid()

    def path(self, *parts):
        return os.path.join(self.mount, *parts)

    def call(self, function, *arguments, expected=()):
        """Makes a call and notes how long it took."""
        shared, number = self.shared, self.number
        name = CALLS.index(function.__name__)
        shared.called[number] = name
        began = shared.begun[number] = time.monotonic()
        try:
            return function(*arguments)
        except OSError as error:
            if error.errno in expected:
                raise
            said = f"{function.__name__}{arguments[:1] + tuple(a for a in arguments[1:] if not isinstance(a, bytes))}"
            said = f"{said}: {errno.errorcode.get(error.errno, error.errno)} after {time.monotonic() - began:.1f} s"
            if not shared.errors.value:
                raise Wrong(said) from error
            shared.told[number] += 1
            print(f"{self.name} was told: {said}", flush=True)
            raise Told from error
        finally:
            took = time.monotonic() - began
            shared.begun[number] = 0
            # Of the phase in which it ends, as all that waited for the end of a trouble do before the next begins.
            at = shared.phase.value * shared.workers + number
            shared.calls[at] += 1
            if took > shared.longest[at]:
                shared.longest[at] = took
                shared.longest_call[at] = name

    def whole(self, function, descriptor, data, *rest):
        written = self.call(function, descriptor, data, *rest)
        if written != len(data):
            raise Wrong(f"{function.__name__} of {len(data)} bytes wrote {written}")

    def goes_on(self):
        if os.getppid() != self.parent:
            # It was killed, and takes no results.
            os._exit(1)
        return not self.shared.stop.value

    def run(self):
        self.rng = random.Random(f"{SEED} {self.number}")
        try:
            step, end = getattr(self, self.kind)()
            while self.goes_on():
                step()
                self.shared.steps[self.number] += 1
                time.sleep(self.rng.uniform(0, 0.02))
            self.shared.results.put((self.number, end()))
        except Wrong as wrong:
            self.shared.failures.put(f"{self.name}: {wrong}")
        except Exception as error:  # noqa: BLE001 what is wrong with the checker is told, too
            self.shared.failures.put(f"{self.name}: {error!r}")
            raise

    def let_go(self, descriptor):
        """Closes what may have failed already."""
        try:
            os.close(descriptor)
        except OSError:
            pass

    def read_all(self, path):
        """All of a file, or None if there is none."""
        try:
            descriptor = self.call(os.open, path, os.O_RDONLY, expected=(errno.ENOENT,))
        except FileNotFoundError:
            return None
        try:
            size = self.call(os.fstat, descriptor).st_size
            data = bytearray()
            while True:
                part = self.call(os.pread, descriptor, LARGEST, len(data))
                if not part:
                    break
                data += part
        except Told:
            self.let_go(descriptor)
            raise
        self.call(os.close, descriptor)
        if len(data) != size:
            raise Wrong(f"{path}: {len(data)} bytes are read, the size is {size}")
        return data

    def compare(self, path, wanted, why):
        began = time.monotonic()
        found = self.read_all(path)
        if found == wanted:
            return
        if found is None or wanted is None:
            said = (f"it is {'gone' if found is None else 'there'}, expected "
                    f"{'none' if wanted is None else f'{len(wanted)} bytes'}")
        else:
            said = difference(found, wanted)
        said = f"read from {began:.3f} to {time.monotonic():.3f}: {said}"
        # Whether it is so for good, and for whom.
        for mount in MOUNTS:
            try:
                again = self.read_all(os.path.join(mount, os.path.relpath(path, self.mount)))
                again = "the same" if again == found else "what was expected" if again == wanted else "something else"
            except (Told, Wrong) as error:
                again = repr(error)
            said += f"; then until {time.monotonic():.3f} in {mount} {again}"
        raise Wrong(f"{path}, {why} {said}")

    # Each kind gives what makes one step, and what is to be told in the end.

    def writer(self):
        files = [File(self, index) for index in range(FILES)]
        lent = set()

        def step():
            while True:
                try:
                    lent.discard(self.give_back.get_nowait())
                except queue.Empty:
                    break
            there = [file for file in files if file.index not in lent]
            if not there:
                time.sleep(0.05)
                return
            file = self.rng.choice(there)
            try:
                began = time.monotonic()
                action = file.change()
                file.history.append(f"{action} ({began:.3f} to {time.monotonic():.3f})")
                del file.history[:-4]
                if self.rng.random() < 0.3:
                    file.close()
                    lent.add(file.index)
                    self.lend.put((file.index, file.name, file.content, ", ".join(file.history)))
            except Told:
                file.give_up()

        def end():
            for file in files:
                try:
                    file.close()
                except Told:
                    file.give_up()
            return {file.name: file.content for file in files}

        return step, end

    def reader(self):
        compared = 0

        def step():
            nonlocal compared
            try:
                index, name, content, history = self.lend.get(timeout=0.2)
            except queue.Empty:
                return
            try:
                self.compare(self.path("files", name), content, f"closed on the other mount after {history},")
                compared += 1
            except Told:
                pass
            self.give_back.put(index)

        return step, lambda: compared

    def appender(self):
        path = self.path("appended")
        acknowledged, tried = [], []
        # Those that were acknowledged and not forced.
        unforced = []
        descriptor = None

        def step():
            nonlocal descriptor
            try:
                if descriptor is None:
                    descriptor = self.call(os.open, path, os.O_WRONLY | os.O_APPEND)
                number = len(tried)
                tried.append(number)
                self.whole(os.write, descriptor, record(f"worker {self.number} record {number}"))
                unforced.append(number)
                what = self.rng.random()
                if what < 0.1:
                    self.call(os.fsync, descriptor)
                elif what < 0.2:
                    closed, descriptor = descriptor, None
                    self.call(os.close, closed)
                if what < 0.2:
                    acknowledged.extend(unforced)
                    unforced.clear()
            except Told:
                # It may be about any of them.
                unforced.clear()
                if descriptor is not None:
                    self.let_go(descriptor)
                    descriptor = None

        def end():
            if descriptor is not None:
                try:
                    self.call(os.close, descriptor)
                    acknowledged.extend(unforced)
                except Told:
                    pass
            return acknowledged, tried

        return step, end

    def locker(self):
        path = self.path("counted")
        acknowledged, tried = [], []
        descriptor = None

        def step():
            nonlocal descriptor
            try:
                if descriptor is None:
                    descriptor = self.call(os.open, path, os.O_RDWR)
                self.call(fcntl.flock, descriptor, fcntl.LOCK_EX)
                size = self.call(os.fstat, descriptor).st_size
                if size % RECORD != 0:
                    raise Wrong(f"{path} has {size} bytes, with the lock held")
                number = size // RECORD
                if number > 0:
                    last = self.call(os.pread, descriptor, RECORD, size - RECORD)
                    if last.split()[:2] != [b"number", b"%d" % (number - 1)]:
                        raise Wrong(f"{path}: with the lock held, record {number - 1} is {last!r}")
                tried.append(number)
                self.whole(os.pwrite, descriptor, record(f"number {number} worker {self.number}"), size)
                if self.rng.random() < 0.1:
                    self.call(os.fsync, descriptor)
                if self.rng.random() < 0.2:
                    closed, descriptor = descriptor, None
                    self.call(os.close, closed)
                else:
                    self.call(fcntl.flock, descriptor, fcntl.LOCK_UN)
                acknowledged.append(number)
            except Told:
                if descriptor is not None:
                    self.let_go(descriptor)
                    descriptor = None

        def end():
            if descriptor is not None:
                self.let_go(descriptor)
            return acknowledged, tried

        return step, end

    def namer(self):
        # Per time that it had a name: which, and when making and removing it began and ended.
        held = []
        # Per time that it was told that there is one: which, and when that began and ended.
        taken = []
        count = 0

        def step():
            nonlocal count
            count += 1
            lock = self.rng.choice(LOCKS)
            path = self.path("names", lock)
            mine = self.path("names", f"of-{self.number}-{count}")
            making = time.monotonic()
            entry = [lock, making, float("inf"), float("inf"), float("inf")]
            try:
                try:
                    descriptor = self.call(os.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, expected=(errno.EEXIST,))
                except FileExistsError:
                    taken.append((lock, making, time.monotonic()))
                    return
                entry[2] = time.monotonic()
                self.call(os.close, descriptor)
                time.sleep(self.rng.uniform(0, 0.01))
                self.call(os.stat, path)
                if self.rng.random() < 0.5:
                    entry[3] = time.monotonic()
                    self.call(os.unlink, path)
                    entry[4] = time.monotonic()
                else:
                    entry[3] = time.monotonic()
                    self.call(os.rename, path, mine)
                    entry[4] = time.monotonic()
                    self.call(os.unlink, mine)
                    try:
                        self.call(os.stat, mine, expected=(errno.ENOENT,))
                        raise Wrong(f"{mine} is there after it was removed")
                    except FileNotFoundError:
                        pass
            except Told:
                # It may still come or go; nobody has it for sure from then on.
                entry[3] = min(entry[3], time.monotonic())
                try:
                    os.unlink(path)
                except OSError:
                    pass
            held.append(entry)

        return step, lambda: (held, taken)


class File:
    """A file of one writer, and what has to be in it: None while there is none."""

    def __init__(self, worker, index):
        self.worker = worker
        self.index = index
        self.name = f"{worker.number}-{index}"
        self.lives = 0
        self.versions = 0
        self.content = None
        self.descriptor = None
        # What was done to it last, and when.
        self.history = []

    def path(self):
        return self.worker.path("files", self.name)

    def give_up(self):
        """Goes on with another name."""
        if self.descriptor is not None:
            self.worker.let_go(self.descriptor)
        self.lives += 1
        self.name = f"{self.worker.number}-{self.index}-{self.lives}"
        self.content = self.descriptor = None

    def close(self):
        if self.descriptor is not None:
            descriptor, self.descriptor = self.descriptor, None
            self.worker.call(os.close, descriptor)

    def new(self, start, length):
        self.versions += 1
        return contents(self.worker.number, self.index, self.versions, start, length)

    def put(self, data, start):
        if len(self.content) < start:
            self.content += bytes(start - len(self.content))
        self.content[start:start + len(data)] = data

    def write_new(self, path, flags):
        worker = self.worker
        data = self.new(0, worker.rng.choice(SIZES))
        descriptor = worker.call(os.open, path, os.O_WRONLY | flags, 0o644)
        try:
            worker.whole(os.write, descriptor, data)
            if worker.rng.random() < 0.3:
                worker.call(os.fsync, descriptor)
        except Told:
            worker.let_go(descriptor)
            raise
        worker.call(os.close, descriptor)
        return bytearray(data)

    def change(self):
        worker, rng, path = self.worker, self.worker.rng, self.path()
        if self.content is None:
            self.content = self.write_new(path, os.O_CREAT | os.O_EXCL)
            return "make"
        action = rng.choice(["write", "write", "write", "append", "empty", "cut", "replace", "remove", "read", "force"])
        size = len(self.content)
        if action == "write":
            if self.descriptor is None:
                self.descriptor = worker.call(os.open, path, os.O_RDWR)
            length = rng.choice(SIZES)
            # Also a little beyond its end.
            start = rng.randrange(min(size + 5000, LARGEST - length) + 1)
            data = self.new(start, length)
            worker.whole(os.pwrite, self.descriptor, data, start)
            self.put(data, start)
            if rng.random() < 0.5:
                self.close()
        elif action == "append":
            data = self.new(size, min(rng.choice(SIZES), LARGEST - size))
            descriptor = worker.call(os.open, path, os.O_WRONLY | os.O_APPEND)
            try:
                worker.whole(os.write, descriptor, data)
            except Told:
                worker.let_go(descriptor)
                raise
            worker.call(os.close, descriptor)
            self.put(data, size)
        elif action == "empty":
            self.content = self.write_new(path, os.O_TRUNC)
        elif action == "cut":
            to = rng.randrange(size + 1)
            if self.descriptor is not None:
                worker.call(os.ftruncate, self.descriptor, to)
            else:
                worker.call(os.truncate, path, to)
            del self.content[to:]
        elif action == "replace":
            self.close()
            content = self.write_new(path + ".new", os.O_CREAT | os.O_EXCL)
            worker.call(os.rename, path + ".new", path)
            self.content = content
        elif action == "remove":
            self.close()
            worker.call(os.unlink, path)
            self.content = None
        elif action == "read":
            worker.compare(path, self.content, "in the mount where it was written,")
        else:
            descriptor = worker.call(os.open, path, os.O_RDONLY)
            try:
                worker.call(os.fsync, descriptor)
            except Told:
                worker.let_go(descriptor)
                raise
            worker.call(os.close, descriptor)
        return action


def check_records(path, data, tellers, what):
    """TELLERS: of each worker, which records were acknowledged and which were tried."""
    problems = []
    if len(data) % RECORD != 0:
        problems.append(f"{path} has {len(data)} bytes")
    places = {}
    for at in range(0, len(data), RECORD):
        places.setdefault(bytes(data[at:at + RECORD]), []).append(at)
    known = set()
    for worker, (acknowledged, tried) in tellers.items():
        before = -1
        for number in acknowledged:
            at = places.get(what(worker, number), [])
            if len(at) != 1:
                problems.append(f"{path}: record {number} of worker {worker}, which was acknowledged, is there {len(at)} times")
            elif at[0] < before:
                problems.append(f"{path}: record {number} of worker {worker} is at {at[0]}, an earlier one at {before}")
            else:
                before = at[0]
        known.update(what(worker, number) for number in tried)
    for found, at in places.items():
        if found not in known:
            problems.append(f"{path} at {at[0]}: {found!r} was written by nobody")
        elif len(at) != 1:
            problems.append(f"{path}: {found!r} is there {len(at)} times, at {at}")
    return problems


def check_names(results):
    """RESULTS: of each worker, when it had names and when it was told that they are taken."""
    problems = []
    for lock in LOCKS:
        held = sorted((entry[2], entry[3], worker) for worker, (all_held, _) in results.items() for entry in all_held
                      if entry[0] == lock and entry[2] < entry[3])
        for (began, ended, worker), (next_began, next_ended, other) in zip(held, held[1:]):
            if next_began < ended:
                problems.append(f"name {lock}: worker {worker} had it from {began:.6f} to {ended:.6f}, and worker {other} from "
                                f"{next_began:.6f} to {next_ended:.6f}")
        may = {worker: sorted((entry[1], entry[4]) for entry in all_held if entry[0] == lock)
               for worker, (all_held, _) in results.items()}
        for worker, (_, taken) in results.items():
            for name, began, ended in taken:
                if name == lock and not any(start <= ended and end >= began for other, times in may.items() if other != worker
                                            for start, end in times):
                    problems.append(f"name {lock}: worker {worker} was told from {began:.6f} to {ended:.6f} that it is there, "
                                    f"and nobody else can have had it")
    return problems


def told_once(function, *arguments):
    """An error that somebody has to be told may come last; the next attempt is to succeed."""
    try:
        return function(*arguments)
    except Told:
        try:
            return function(*arguments)
        except Told:
            raise Wrong(f"{arguments[0]}: an error again") from None


def check_all(shared, workers, results):
    problems = []
    of_kind = {kind: {w.number: results[w.number] for w in workers if w.kind == kind} for kind in KINDS}
    problems += check_names(of_kind["namer"])
    files = {name: content for of_one in of_kind["writer"].values() for name, content in of_one.items()}
    for mount in sorted({worker.mount for worker in workers}):
        # Counts as one of those that worked there.
        worker = next(w for w in workers if w.mount == mount)
        for name, content in files.items():
            try:
                told_once(worker.compare, worker.path("files", name), content, "in the end,")
            except Wrong as wrong:
                problems.append(str(wrong))
        if not sum(shared.told):
            there = {name for name, content in files.items() if content is not None}
            found = set(os.listdir(worker.path("files")))
            if found != there:
                problems.append(f"{worker.path('files')}: {sorted(found - there)} are there, {sorted(there - found)} are not")
            found = os.listdir(worker.path("names"))
            if found:
                problems.append(f"{worker.path('names')}: {found} are there, and were removed")
        for name, kind, what in [("appended", "appender", lambda w, n: record(f"worker {w} record {n}")),
                                 ("counted", "locker", lambda w, n: record(f"number {n} worker {w}"))]:
            path = worker.path(name)
            try:
                problems += check_records(path, told_once(worker.read_all, path), of_kind[kind], what)
            except Wrong as wrong:
                problems.append(str(wrong))
    said = {
        "files compared with the other mount's": sum(of_kind["reader"].values()),
        "records appended": sum(len(a) for a, _ in of_kind["appender"].values()),
        "numbers counted": sum(len(a) for a, _ in of_kind["locker"].values()),
        "names held": sum(len(h) for h, _ in of_kind["namer"].values()),
        "names taken": sum(len(t) for _, t in of_kind["namer"].values()),
    }
    print(", ".join(f"{count} {what}" for what, count in said.items()), flush=True)
    problems += [f"none of: {what}" for what, count in said.items() if not count]
    return problems


def tell_phases(shared, workers, phases):
    for phase, name in enumerate(phases):
        places = range(phase * shared.workers, (phase + 1) * shared.workers)
        worst = max(places, key=lambda at: shared.longest[at])
        print(f"{name}: {sum(shared.calls[at] for at in places)} calls, the longest {shared.longest[worst]:.1f} s: "
              f"{CALLS[shared.longest_call[worst]]} of {workers[worst - places.start].name}", flush=True)


def tell_stuck(shared, workers):
    for worker in workers:
        began = shared.begun[worker.number]
        if began:
            print(f"{worker.name}: {CALLS[shared.called[worker.number]]} for {time.monotonic() - began:.1f} s", flush=True)


def main():
    mounts, patience = MOUNTS, float(sys.argv[3])
    print(f"seed {SEED}", flush=True)
    for name in ["files", "names"]:
        os.makedirs(os.path.join(mounts[0], name), exist_ok=True)
    for name in ["appended", "counted"]:
        open(os.path.join(mounts[0], name), "x").close()
    shared = Shared(len(mounts) * OF_EACH * len(KINDS))
    workers = []
    for mount, other in [mounts, mounts[::-1]]:
        for _ in range(OF_EACH):
            lend, give_back = multiprocessing.Queue(), multiprocessing.Queue()
            workers.append(Worker(shared, len(workers), "writer", mount, lend, give_back))
            workers.append(Worker(shared, len(workers), "reader", other, lend, give_back))
            for kind in ["appender", "locker", "namer"]:
                workers.append(Worker(shared, len(workers), kind, mount))
    processes = [multiprocessing.Process(target=worker.run, daemon=True) for worker in workers]
    for process in processes:
        process.start()

    phases = ["before"]
    problems = []
    # Since when, and from which steps on, they are to go on; None when nobody asks.
    calm = None
    results = {}
    ending = None
    lines = b""
    while len(results) < len(workers) and not problems:
        if select.select([0], [], [], 0.1)[0]:
            data = os.read(0, 4096)
            lines += data or b"end\n"
            while b"\n" in lines:
                line, lines = lines.split(b"\n", 1)
                word, _, rest = line.decode().partition(" ")
                if word == "phase":
                    phases.append(rest)
                    shared.phase.value = len(phases) - 1
                elif word == "errors":
                    shared.errors.value = 1
                elif word == "calm":
                    # The step that is under way does not count.
                    calm = time.monotonic(), [steps + STEPS + 1 for steps in shared.steps]
                elif ending is None:
                    assert word == "end", line
                    ending = time.monotonic()
                    shared.stop.value = 1
        if calm and all(steps >= least for steps, least in zip(shared.steps, calm[1])):
            print(f"all go on after {phases[-1]}, within {time.monotonic() - calm[0]:.1f} s", flush=True)
            calm = None
        if calm and time.monotonic() - calm[0] > patience:
            behind = [w.name for w in workers if shared.steps[w.number] < calm[1][w.number]]
            problems.append(f"after {phases[-1]} these do not go on for {patience} s: {', '.join(behind)}")
        if ending is not None and time.monotonic() - ending > patience:
            problems.append(f"these do not end: {', '.join(w.name for w in workers if w.number not in results)}")
        try:
            while True:
                number, result = shared.results.get_nowait()
                results[number] = result
        except queue.Empty:
            pass
        try:
            while True:
                problems.append(shared.failures.get_nowait())
        except queue.Empty:
            pass
    if problems:
        tell_stuck(shared, workers)
        shared.stop.value = 1
    else:
        phases.append("the end")
        shared.phase.value = len(phases) - 1
        problems = check_all(shared, workers, results)
    tell_phases(shared, workers, phases)
    if sum(shared.told):
        print(f"{sum(shared.told)} errors were told", flush=True)
    for problem in problems[:20]:
        print(f"WRONG, {phases[-1]}: {problem}", flush=True)
    # Some wait: for servers, or to hand over a file to a reader that has ended.
    for process in processes:
        process.kill()
    if problems:
        os._exit(1)
    print(f"{sum(shared.calls)} calls, {sum(shared.steps)} steps, all as it must be", flush=True)


MOUNTS = sys.argv[1:3]
SEED = int(os.environ.get("PANDOFS_SEED", time.time_ns() % 1_000_000))
main()
