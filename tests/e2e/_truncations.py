"""_truncations.py DIR_OF_A DIR_OF_B SECONDS: two mounts of one file system, one file.

B writes blocks at places drawn at random, each with the number of the write in it: through one descriptor that stays open and
never says that it is done, or through a new one for each block; A cuts the file to nothing, and to a middling size, again and
again. Every call is noted with when it began and when it had ended, by one clock. At the end of each round B syncs, and the
file has to be what one order of the calls gives:

- what was written after the last cut had ended is there;
- what had been written before the last cut began is gone where that cut took it away, and does not count for the file's end;
- what overlapped with it is there or is not, whole, and the file ends where the last block that is there does.

Where a program was told that a write failed (EIO) the round is not judged; nearly all have to be.
"""

import errno
import os
import random
import sys
import threading
import time

BLOCK = 64 * 1024
BLOCKS = 48
# Kept by the cut that does not empty the file.
MIDDLE = 16


def check(round_, path, writes, cuts):
    began, ended, kept = cuts[-1]
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        data = file.read()
    problems = []
    if len(data) != size:
        problems.append(f"{len(data)} bytes are read, the size is {size}")
    after = [w for w in writes if w[1] > ended]
    at_once = [w for w in writes if w[1] <= ended and w[2] >= began]
    # The last write of each block that must be there, and those that may be.
    must = {}
    for block, start, end, number in after:
        must[block] = number
    may = {}
    for block, start, end, number in at_once:
        may.setdefault(block, set()).add(number)
    # Below the cut's end a block keeps what was written before.
    for block, start, end, number in writes:
        if end < began and block < kept:
            may.setdefault(block, set()).add(number)
    ends = {kept * BLOCK} | {(b + 1) * BLOCK for b in must}
    least = max(ends)
    possible = ends | {(b + 1) * BLOCK for b, numbers in may.items() if b >= kept and numbers}
    if size not in possible or size < least:
        problems.append(f"the file ends at {size}, at least at {least}, possible are {sorted(possible)}")
    for block in range(min(BLOCKS, (size + BLOCK - 1) // BLOCK)):
        found = data[block * BLOCK:(block + 1) * BLOCK]
        number = int.from_bytes(found[:8], "little")
        if found[:8] * (len(found) // 8) != found:
            problems.append(f"block {block} is torn")
        elif block in must:
            if number != must[block] and number not in may.get(block, set()):
                problems.append(f"block {block} has {number}, written last was {must[block]}")
            elif number != must[block]:
                problems.append(f"block {block} has {number} of before the cut, after it {must[block]} was written")
        elif number != 0 and number not in may.get(block, set()):
            problems.append(f"block {block} has {number}, which was cut away")
    if size > least and data[size - BLOCK:size] == bytes(BLOCK):
        problems.append(f"the file was made {size - least} bytes longer by zeros")
    for problem in problems:
        print(f"round {round_}: {problem}; the last cut was to {kept} blocks")
    return not problems


def one_after_the_other(of_a, of_b):
    """B writes and has said nothing; A cuts, to nothing and to more than the shard knows of; B closes."""
    for size in [0, 1_000_000]:
        name = f"cut-to-{size}"
        b = os.open(os.path.join(of_b, name), os.O_RDWR | os.O_CREAT)
        written = random.randbytes(3_000_000)
        os.pwrite(b, written, 0)
        os.truncate(os.path.join(of_a, name), size)
        os.close(b)
        for mount in [of_a, of_b]:
            found = os.stat(os.path.join(mount, name)).st_size
            assert found == size, f"cut to {size}, and it ends at {found}"
        os.truncate(os.path.join(of_a, name), len(written))
        with open(os.path.join(of_b, name), "rb") as file:
            wanted = written[:size] + bytes(len(written) - size)
            assert file.read() == wanted, f"cut to {size}, and what lay beyond came back"


def main():
    of_a, of_b, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    one_after_the_other(of_a, of_b)
    end_of_all = time.monotonic() + seconds
    rounds = good = judged = writes_in_all = 0
    seed = int(os.environ.get("PANDOFS_SEED", time.time_ns() % 1_000_000))
    print(f"seed {seed}")
    rng = random.Random(seed)
    while time.monotonic() < end_of_all or rounds < 5:
        name = f"file{rounds}"
        b = os.open(os.path.join(of_b, name), os.O_RDWR | os.O_CREAT)
        # Beyond what an inode holds.
        os.pwrite(b, bytes(BLOCK), 0)
        os.fsync(b)
        writes, cuts = [], []
        stop = threading.Event()
        order = [rng.randrange(BLOCKS) for _ in range(4_000)]
        pauses = [rng.choice([0, 0, 0.002, 0.01]) for _ in range(40)]
        kept = [rng.choice([0, 0, MIDDLE]) for _ in range(40)]

        # Whoever has just opened the file has no lease of it, and never had.
        afresh = rng.random() < 0.5
        failures = []

        def write():
            for number, block in enumerate(order, 1):
                if stop.is_set():
                    return
                start = time.monotonic_ns()
                try:
                    through = os.open(os.path.join(of_b, name), os.O_WRONLY) if afresh else b
                    os.pwrite(through, number.to_bytes(8, "little") * (BLOCK // 8), block * BLOCK)
                    if afresh:
                        os.close(through)
                except OSError as error:
                    failures.append(error)
                writes.append((block, start, time.monotonic_ns(), number))

        writer = threading.Thread(target=write)
        writer.start()
        for pause, blocks in zip(pauses, kept):
            time.sleep(pause)
            began = time.monotonic_ns()
            os.truncate(os.path.join(of_a, name), blocks * BLOCK)
            cuts.append((began, time.monotonic_ns(), blocks))
        if rng.random() < 0.5:
            time.sleep(0.02)
        stop.set()
        writer.join()
        try:
            os.fsync(b)
        except OSError as error:
            failures.append(error)
        assert all(error.errno == errno.EIO for error in failures), failures
        if not failures:
            judged += 1
            ok = check(rounds, os.path.join(of_a, name), writes, cuts)
            ok &= check(rounds, os.path.join(of_b, name), writes, cuts)
            good += ok
        os.close(b)
        rounds += 1
        writes_in_all += len(writes)
        os.unlink(os.path.join(of_a, name))
    print(f"{rounds} rounds, {writes_in_all} writes, {judged} rounds judged, {good} as they must be")
    sys.exit(0 if good == judged >= rounds * 0.9 and writes_in_all > 10 * rounds else 1)


main()
