"""A stand-in for ptxas that does what the oracle says, but for the fault that it is given.

Arguments: its release, who answers for the oracle (`answering`), the fault, a word, then those of
ptxas. The fault befalls instructions that contain the word (any instruction, if it is empty):

none       nothing is wrong
crash      killed by SIGSEGV while parsing
hang       never ends
inside     rejected with the name of a function of its own
mumble     ends with a sentence that is no message, and exit code 3
accept     accepted, whatever it is
reject     rejected, whatever it is
passing    the wrong verdict while a campaign judges and isolates it, the right one ever after
"""

# ruff: noqa: PTH102, PTH123 - started thousands of times: pathlib, re and signal take longer than the rest

import os
import sys
import time
import zlib

from asking import ask

RELEASE, ANSWERING, FAULT, WORD, *ARGUMENTS = sys.argv[1:]
TARGETS = ("sm_80", "sm_90")
HIGHEST = (8, 0)
SCAFFOLD = (".", "{", "}", "//", "ret;", "ld.param", "st.global", "mov.b32", "add.s32")
STRAY = ("warpfuzz_marker", "warpfuzz_bad")
CUBIN = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xbe\x00" + bytes(60)


def say(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def good(text, target, version):
    """Tell whether an instruction is accepted, if the fault lets it come to that."""
    struck = WORD in text
    if struck and FAULT == "crash":
        os.kill(os.getpid(), 11)  # SIGSEGV
    if struck and FAULT == "hang":
        time.sleep(600)
    if struck and FAULT == "mumble":
        say("this is not what an assembler says")
        raise SystemExit(3)
    if struck and FAULT in ("accept", "reject"):
        return FAULT == "accept"
    legal = ask(ANSWERING, "is_legal", text, target, version)
    return not legal if struck and FAULT == "passing" and is_young(text) else legal


def is_young(text):
    """Tell whether no more than one process of this fake was asked about an instruction before."""
    for time_asked in range(2):
        try:
            os.mkdir(f"{os.environ['ASKED']}/{zlib.crc32(text.encode())}-{time_asked}")
        except FileExistsError:
            continue
        return True
    return False


def assemble(names, output):
    bad = False
    for name in names:
        with open(name) as file:
            lines = file.read().split("\n")
        version = lines[0].removeprefix(".version ")
        target = lines[1].removeprefix(".target ")
        if target not in TARGETS or tuple(map(int, version.split("."))) > HIGHEST:
            say(f"fake {name}, line 1; fatal   : Unsupported .version {version} or .target")
            bad = True
            continue
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text or text.startswith(SCAFFOLD):
                continue
            if text.startswith(STRAY):
                say(f"fake {name}, line {number}; error   : Not a name of any known instruction")
                bad = True
            elif not good(text, target, version):
                say(f"fake {name}, line {number}; error   : Not what the page says")
                bad = True
            elif WORD in text and FAULT == "inside":
                say(f"fake {name}, line {number}; error   : Call to '__fake_helper' is wrong")
                bad = True
    if bad:
        say("fake fatal   : Ptx assembly aborted due to errors")
        raise SystemExit(255)
    with open(output, "wb") as file:
        file.write(CUBIN)


def main():
    if "--version" in ARGUMENTS:
        print(f"Cuda compilation tools, release {RELEASE}, V{RELEASE}.1")
    elif "--help" in ARGUMENTS:
        print(" ".join(f"'{target}'" for target in TARGETS))
    else:
        names = [argument for argument in ARGUMENTS if argument.endswith(".ptx")]
        assemble(names, ARGUMENTS[ARGUMENTS.index("-o") + 1] if "-o" in ARGUMENTS else "elf.o")


main()
