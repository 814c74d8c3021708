"""Makes programs and libraries that were linked against this machine's glibc run on an older one.

A program names, for each symbol that it takes from glibc, the version that the linker found: the newest. glibc keeps the
older versions of most symbols beside it (pthread_create was GLIBC_2.2.5 in libpthread and is GLIBC_2.34 in libc), and they
are what an older glibc has. `lower` makes a file ask for those: it changes the file's version tables in place. What an older
glibc does not have in any version, the file takes from libgordian_glibc.so (older_glibc.c).

The tables: Linux Standard Base, Core, "Symbol Versioning".
"""
import pathlib
import re
import struct
import subprocess

OLDEST = (2, 28)
COMPAT = "libgordian_glibc.so"
SOURCE = pathlib.Path(__file__).resolve().parent / "older_glibc.c"
# The symbols that the source defines, with a version of their own.
VERSION_SCRIPT = "GORDIAN_1 { global: %s; local: *; };\n"
PROVIDED = ("__libc_single_threaded __libc_start_main _dl_find_object arc4random fstat fstat64 fstatat fstatat64 gettid lstat "
            "lstat64 pthread_cond_clockwait stat stat64").split()

NULL, STRTAB, SYMTAB = 0, 5, 6
VERSYM, VERNEED, VERNEEDNUM = 0x6FFFFFF0, 0x6FFFFFFE, 0x6FFFFFFF
VERSYM_SECTION, VERNEED_SECTION = 0x6FFFFFFF, 0x6FFFFFFE
UNVERSIONED = 1  # any version of the symbol


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def number(version):
    """(2, 3, 4) of "GLIBC_2.3.4"; None for GLIBC_PRIVATE and others' versions."""
    found = re.fullmatch(r"GLIBC_(\d+(?:\.\d+)+)", version)
    return tuple(map(int, found.group(1).split("."))) if found else None


def is_newer(version, oldest):
    known = number(version)
    return known is not None and known[:2] > oldest


def versions_of_glibc(libraries, objdump="objdump"):
    """Of each symbol of these libraries of glibc, the versions that they have of it, oldest first."""
    versions = {}
    for library in libraries:
        for line in run(objdump, "-T", library).splitlines():
            found = re.search(r"\s\(?(GLIBC_[\d.]+)\)?\s+(\S+)$", line)
            if found and "*UND*" not in line:
                versions.setdefault(found.group(2), set()).add(found.group(1))
    return {name: sorted(known, key=number) for name, known in versions.items()}


class Elf:
    """The dynamic tables of a 64-bit little-endian ELF file, changed in place."""

    def __init__(self, path):
        self.path = path
        self.bytes = bytearray(pathlib.Path(path).read_bytes())
        if self.bytes[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path}: not a 64-bit little-endian ELF file")
        start, size, count = self.at("<Q", 32)[0], *self.at("<HH", 54)
        self.loads, self.dynamic = [], {}
        for i in range(count):
            kind, _, offset, address, _, stored = self.at("<IIQQQQ", start + i * size)
            if kind == 1:
                self.loads.append((address, offset, stored))
            elif kind == 2:
                for place in range(offset, offset + stored, 16):
                    tag, value = self.at("<QQ", place)
                    if tag == NULL:
                        break
                    self.dynamic.setdefault(tag, (value, place + 8))
        start, size, count = self.at("<Q", 40)[0], *self.at("<HH", 58)
        self.sections = {}
        for place in range(start, start + size * count, size):
            self.sections[self.at("<I", place + 4)[0]] = place

    def at(self, form, offset):
        return struct.unpack_from(form, self.bytes, offset)

    def put(self, form, offset, *values):
        struct.pack_into(form, self.bytes, offset, *values)

    def table(self, tag):
        """The place in the file of what a tag of the dynamic table points to."""
        wanted = self.dynamic[tag][0]
        for address, offset, stored in self.loads:
            if address <= wanted < address + stored:
                return wanted - address + offset
        raise ValueError(f"{self.path}: the table of tag {tag:#x} lies outside the file")

    def text(self, offset):
        start = self.table(STRTAB) + offset
        return self.bytes[start:self.bytes.index(0, start)].decode()

    def needed_versions(self):
        """[(place of the library's entry, library, [(place, version, index)])]"""
        if VERNEED not in self.dynamic:
            return []
        found, place = [], self.table(VERNEED)
        for _ in range(self.dynamic[VERNEEDNUM][0]):
            _, count, library, first, following = self.at("<HHIII", place)
            versions, at = [], place + first
            for _ in range(count):
                _, _, index, name, step = self.at("<IHHII", at)
                versions.append((at, self.text(name), index))
                at += step
            found.append((place, self.text(library), versions))
            place += following
        return found

    def symbols(self):
        """(place of the version's index, symbol, index) of each dynamic symbol."""
        if VERSYM_SECTION not in self.sections:
            raise ValueError(f"{self.path}: no section headers")
        symbols, versions = self.table(SYMTAB), self.table(VERSYM)
        for i in range(1, self.at("<Q", self.sections[VERSYM_SECTION] + 32)[0] // 2):
            yield versions + i * 2, self.text(*self.at("<I", symbols + i * 24)), self.at("<H", versions + i * 2)[0] & 0x7FFF

    def forget(self, unused):
        """Takes these versions' entries out of what the file asks its loader for."""
        kept = []
        for place, _, versions in self.needed_versions():
            left = [at for at, _, index in versions if index not in unused]
            if not left:
                continue
            self.put("<H", place + 2, len(left))
            self.put("<I", place + 8, left[0] - place)
            for at, following in zip(left, left[1:] + [None]):
                self.put("<I", at + 12, 0 if following is None else following - at)
            kept.append(place)
        for place, following in zip(kept, kept[1:] + [None]):
            self.put("<I", place + 12, 0 if following is None else following - place)
        if not kept:
            raise ValueError(f"{self.path}: asks for new versions alone")
        skipped = kept[0] - self.table(VERNEED)
        value, place = self.dynamic[VERNEED]
        self.put("<Q", place, value + skipped)
        self.put("<Q", self.dynamic[VERNEEDNUM][1], len(kept))
        section = self.sections[VERNEED_SECTION]  # for tools that read sections
        address, offset, size = self.at("<QQQ", section + 16)
        self.put("<QQQ", section + 16, address + skipped, offset + skipped, size - skipped)
        self.put("<I", section + 44, len(kept))


def needs_newer(path, oldest=OLDEST):
    """Whether a file asks for a version of glibc newer than `oldest`."""
    return any(is_newer(version, oldest) for _, _, versions in Elf(path).needed_versions() for _, version, _ in versions)


def lower(path, glibc, oldest=OLDEST):
    """Makes a file ask for no version of glibc newer than `oldest`.

    glibc: versions_of_glibc. Returns the names of the symbols that the file takes from COMPAT from now on. ValueError: the
    file takes a symbol that neither an older glibc nor COMPAT has.
    """
    elf = Elf(path)
    new, old = {}, {}
    for _, _, versions in elf.needed_versions():
        for _, version, index in versions:
            if is_newer(version, oldest):
                new[index] = version
            else:
                old[version] = index
    taken = []
    for place, symbol, index in elf.symbols():
        if index not in new:
            continue
        older = [version for version in glibc.get(symbol, []) if not is_newer(version, oldest)]
        if symbol in PROVIDED:
            elf.put("<H", place, UNVERSIONED)
            taken.append(symbol)
        elif older and older[-1] in old:
            elf.put("<H", place, old[older[-1]])
        elif len(older) == 1:
            elf.put("<H", place, UNVERSIONED)  # the only one that an older glibc has
        else:
            raise ValueError(f"{path} takes {symbol} of {new[index]}, which glibc {oldest[0]}.{oldest[1]} has not: "
                             f"add it to {SOURCE.name}")
    if new:
        elf.forget(new)
        pathlib.Path(path).write_bytes(elf.bytes)
    return taken


def build_compat(compiler, folder):
    """Compiles COMPAT into a folder. It needs the libraries that glibc had beside libc until 2.34."""
    script = pathlib.Path(folder) / "older_glibc.map"
    script.write_text(VERSION_SCRIPT % "; ".join(PROVIDED))
    target = pathlib.Path(folder) / COMPAT
    run(*compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-x", "c", "-std=c11", SOURCE, "-o", target,
        f"-Wl,-soname,{COMPAT}", f"-Wl,--version-script={script}", "-nodefaultlibs", "-Wl,--no-as-needed", "-l:libpthread.so.0",
        "-l:libdl.so.2", "-l:librt.so.1", "-l:libm.so.6", "-lc")
    script.unlink()
    return target
