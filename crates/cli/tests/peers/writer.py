#!/usr/bin/env python3
"""Writes files so that a copy of no single moment is recognised, until it is killed.

    writer.py DIR WAY [STILL_MS]

There are FILES files of PAGES pages, each page full of one number, the generation, as text. A generation is written page after page, in
an order that hops between the files and is always the same (`order`). So at every moment the pages, in that order, are of one generation
up to some place and of the one before it from there on. WAY is how: plain, mmap, rename (whole files) or mtime (plain, with the time put
back). After a burst of generations it rests for up to STILL_MS milliseconds, or never.
"""
import mmap, os, random, sys, time

FILES, PAGES, PAGE = 6, 32, 4096


def order(way):
    """In which order (file, page) are written; a file that is renamed over comes whole."""
    if way == "rename":
        return [(file * 5 % FILES, None) for file in range(FILES)]
    # 29 has no divisor in common with 192: every page comes once.
    return [divmod(step * 29 % (FILES * PAGES), PAGES) for step in range(FILES * PAGES)]


def page(generation):
    return (b"%015d\n" % generation) * (PAGE // 16)


class Writer:
    def __init__(self, directory, way):
        self.directory, self.way = directory, way
        self.paths = [os.path.join(directory, f"f{number}") for number in range(FILES)]
        for path in self.paths:
            if not os.path.exists(path):
                with open(path, "wb") as file:
                    file.write(page(0) * PAGES)
        self.fds = [os.open(path, os.O_RDWR) for path in self.paths]
        self.maps = [mmap.mmap(fd, PAGES * PAGE) for fd in self.fds]

    def write(self, file, number, generation):
        data = page(generation)
        if self.way == "mmap":
            self.maps[file][number * PAGE:(number + 1) * PAGE] = data
        elif self.way == "rename":
            temp = os.path.join(self.directory, ".temp")
            with open(temp, "wb") as new:
                new.write(data * PAGES)
            os.rename(temp, self.paths[file])
        else:
            was = os.stat(self.fds[file])
            os.pwrite(self.fds[file], data, number * PAGE)
            if self.way == "mtime":
                os.utime(self.fds[file], ns=(was.st_atime_ns, was.st_mtime_ns))


def main():
    directory, way = sys.argv[1], sys.argv[2]
    still = int(sys.argv[3]) / 1000 if len(sys.argv) > 3 else 0
    writer, steps, dice = Writer(directory, way), order(way), random.Random(7)
    generation = 0
    print("writing", flush=True)
    while True:
        for _ in range(dice.randrange(1, 20)):
            generation += 1
            for file, number in steps:
                writer.write(file, number, generation)
        if still:
            time.sleep(dice.random() * still)


main()
