"""_switch.py NAMESPACE=ADDRESS...: the network of these network namespaces, each with an interface eth0, and its troubles.

It carries IPv4 packets between them itself, through TUN devices: so packets are lost, come twice or in another order on any
kernel that has these, with or without netem. Lines on standard input say what is to happen from then on; each is answered
with what became of the packets since the line before:

    calm                    every packet is carried, at once
    drop FROM:TO[,...]      none is carried from that address to that one; other ways are as before
    mess LOST TWICE LATE    of 100 packets so many are lost, carried once more, and held back while later ones overtake them
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import sys
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
# Without four bytes of flags before each packet.
IFF_NO_PI = 0x1000
# More than a packet has.
ROOM = 65536
# Seconds that a packet is held back.
LATE = (0.001, 0.03)


def device_in(namespace):
    """A TUN device belongs to the name space of who opens it."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}", "rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns to {namespace}")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TUN | IFF_NO_PI))
    return device


def main():
    devices, address_of = {}, {}
    for argument in sys.argv[1:]:
        namespace, address = argument.split("=")
        address = socket.inet_aton(address)
        devices[address] = device_in(namespace)
        address_of[devices[address]] = address
    poll = select.poll()
    for device in address_of:
        poll.register(device, select.POLLIN)
    poll.register(0, select.POLLIN)
    print("carries", flush=True)

    dropped_ways, lost, twice, late = set(), 0, 0, 0
    # What is held back: until when, a number that keeps the order of those until then, to where, and the packet.
    waiting = []
    counts = dict.fromkeys(["carried", "dropped", "lost", "twice", "late"], 0)
    number = 0
    lines = b""

    def carry(device, packet):
        try:
            os.write(device, packet)
        except OSError:
            # As any network does when somebody's queue is full, or his interface is not up yet.
            counts["lost"] += 1

    while True:
        pause = None
        if waiting:
            pause = max(0.0, (waiting[0][0] - time.monotonic()) * 1000)
        for ready, _ in poll.poll(pause):
            if ready == 0:
                data = os.read(0, 4096)
                if not data:
                    return
                lines += data
                while b"\n" in lines:
                    line, lines = lines.split(b"\n", 1)
                    word, *rest = line.decode().split()
                    dropped_ways, lost, twice, late = set(), 0, 0, 0
                    if word == "drop":
                        for way in rest[0].split(","):
                            dropped_ways.add(tuple(socket.inet_aton(end) for end in way.split(":")))
                    elif word == "mess":
                        lost, twice, late = (float(share) / 100 for share in rest)
                    else:
                        assert word == "calm", line
                    print(line.decode(), "after", " ".join(f"{what}={count}" for what, count in counts.items()), flush=True)
                    counts = dict.fromkeys(counts, 0)
                continue
            # Some at a time: none of the others is to wait for long.
            for _ in range(16):
                try:
                    packet = os.read(ready, ROOM)
                except BlockingIOError:
                    break
                target = devices.get(packet[16:20])
                if packet[0] >> 4 != 4 or target is None:
                    continue
                if dropped_ways and (address_of[ready], packet[16:20]) in dropped_ways:
                    counts["dropped"] += 1
                    continue
                if lost and random.random() < lost:
                    counts["lost"] += 1
                    continue
                if late and random.random() < late:
                    number += 1
                    heapq.heappush(waiting, (time.monotonic() + random.uniform(*LATE), number, target, packet))
                    counts["late"] += 1
                else:
                    counts["carried"] += 1
                    carry(target, packet)
                if twice and random.random() < twice:
                    number += 1
                    heapq.heappush(waiting, (time.monotonic() + random.uniform(0, LATE[1]), number, target, packet))
                    counts["twice"] += 1
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, target, packet = heapq.heappop(waiting)
            carry(target, packet)


main()
