"""Writes to one file of a tree in one way, over and over, until it is killed. Every version of the file is 256 KB of one number.

    writer.py WAY FILE BUSY_MS PAUSE_MS     WAY: plain, mmap, rename, times
    writer.py WAY FILE when-told            once for every line that it is told
"""
import mmap
import os
import random
import struct
import sys
import time

SIZE = 256 << 10
PAGE = 4096
way, path = sys.argv[1:3]


def version(number):
    return struct.pack("<Q", number) * (SIZE // 8)


def versions():
    """Some in a row, then nothing for a while."""
    number = 1
    if sys.argv[3] == "when-told":
        for _ in sys.stdin:
            number += 1
            yield number
            print("wrote", flush=True)
        return
    busy, pause = map(float, sys.argv[3:5])
    while True:
        until = time.monotonic() + random.uniform(0, busy) / 1000
        while time.monotonic() < until:
            number += 1
            yield number
        time.sleep(random.uniform(0, pause) / 1000)


fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.pwrite(fd, version(1), 0)
mapped = mmap.mmap(fd, SIZE) if way == "mmap" else None
if mapped:
    mapped[:] = version(1)
then = os.stat(path)
print("ready", flush=True)
for number in versions():
    if way == "mmap":
        # The pages are dirty already, most of the time: this moves no clock by itself. A page at a time, because the C library
        # fills a long range in whatever order is fastest, and a test of the copy has to know the order.
        page = version(number)[:PAGE]
        for at in range(0, SIZE, PAGE):
            mapped[at : at + PAGE] = page
    elif way == "rename":
        with open(path + ".new", "wb") as new:
            new.write(version(number))
        os.rename(path + ".new", path)
    else:
        os.pwrite(fd, version(number), 0)
        if way == "times":
            os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))
