"""A stand-in for ptxas: `python stand_in_ptxas.py CONFIGURATION ARGUMENTS...`.

It does what `ptxas ARGUMENTS...` would, but rewrites the PTX with planted faults before.
CONFIGURATION is a file with a dictionary of Python: what is other than in `PLAIN`.
"""

# ruff: noqa: PTH123 - started thousands of times: what a process does not need is imported late,
# and pathlib takes longer than all the rest.

import os
import sys

PLAIN = {
    "version": "",  # what --version tells, such as "3.0"
    "faults": (),  # names of planted faults (`runners.faults`)
    "levels": (),  # -O levels at which they are there
    "rejects": "",  # text of an instruction that it rejects at these levels
    "crashes": "",  # text of an instruction that kills it at these levels
    # Whether to write the PTX that was assembled in place of machine code, for the simulated
    # device; False: machine code, for a GPU.
    "text": True,
    "mark": "",  # what the machine code ends with
    "only_with": "",  # text of an option without which it has no faults
    "unknown": "",  # option that it does not know
    "kernels": 1,  # least number of kernels in a module that has its faults
    "newest": "",  # the newest PTX ISA version that it reads, such as "8.4"; "": any
    "answering": "",  # who rewrites (`answering.address`); "": this process, which takes longer
}
TARGETS = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90")
DEFAULT_LEVEL = 3  # of ptxas (ptxas --help, 13.0)
CUBIN = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xbe\x00" + bytes(60)


def level_of(arguments):
    given = [one[2:] for one in arguments if len(one) == 3 and one.startswith("-O")]
    return int(given[-1]) if given else DEFAULT_LEVEL


def numbers(version):
    return tuple(map(int, version.split(".")))


def version_of(ptx):
    return numbers(ptx.split(".version", 1)[1].split(None, 1)[0])


def rewritten(row, ptx):
    if not row["faults"] or ptx.count(".entry") < row["kernels"]:
        return ptx
    if row["answering"]:
        from asking import ask

        return ask(row["answering"], "rewritten", row["faults"], ptx)
    import site

    site.main()  # left out by -S
    from runners.faults import by_name

    for name in row["faults"]:
        ptx = by_name(name).rewrite(ptx)
    return ptx


def assemble(row, arguments):
    *_, source = (one for one in arguments if one.endswith(".ptx"))
    output = arguments[arguments.index("-o") + 1] if "-o" in arguments else "elf.o"
    with open(source) as file:
        ptx = file.read()
    if row["newest"] and version_of(ptx) > numbers(row["newest"]):
        print(f"ptxas {source}, line 1; fatal   : Unsupported .version", file=sys.stderr)
        return 255
    if row["unknown"] and any(row["unknown"] in one for one in arguments):
        print(f"ptxas fatal   : Unknown option '{row['unknown']}'", file=sys.stderr)
        return 255
    if level_of(arguments) in row["levels"] and row["only_with"] in " ".join(arguments):
        if row["crashes"] and row["crashes"] in ptx:
            import signal

            os.kill(os.getpid(), signal.SIGSEGV)
        if row["rejects"] and row["rejects"] in ptx:
            line = 1 + next(n for n, one in enumerate(ptx.split("\n")) if row["rejects"] in one)
            print(f"ptxas {source}, line {line}; error   : Not supported", file=sys.stderr)
            return 255
        ptx = rewritten(row, ptx)
    code = ptx.encode() if row["text"] else CUBIN.ljust(100, b"\0") + row["mark"].encode()
    with open(output, "wb") as file:
        file.write(code)
    return 0


def main(configuration, arguments):
    with open(configuration) as file:
        row = PLAIN | eval(file.read())
    assert len(row) == len(PLAIN), row
    if "--version" in arguments:
        print(f"Cuda compilation tools, release {row['version']}, V{row['version']}.0")
        return 0
    if "--help" in arguments:
        print(" ".join(f"'{target}'" for target in TARGETS))
        return 0
    return assemble(row, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
