"""A stand-in for ptxas whose behaviour is the first word of each instruction.

Lines of the scaffolding are accepted; of others, the first word decides:

good             accepted
bad              rejected with the line
syntax           a syntax error: the rest of the file is not parsed, and its modifier is left to
                 the next instruction, in whichever file
crash, hang      while parsing
macro            a fatal error in text of the assembler's own, that ends all parsing
taint            the same, but parsing goes on: `bad` is no longer seen, and `good` is rejected
late_bad         rejected with the line, but only in a later phase
late_inside      rejected in a later phase, with a message about a helper, without a line of ours
late_crash, late_hang, late_quit
anything else    unknown, rejected with the line

The first argument is the way in which the whole program is broken, "sound" for none.
"""

# ruff: noqa: PTH123 - started hundreds of times, and other imports take longer than all the rest

import os
import sys
import time

MODE = sys.argv[1]
ARGUMENTS = sys.argv[2:]
SCAFFOLD = (".", "{", "}", "//", "ret;", "ld.", "st.", "mov.", "add.")
CUBIN = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xbe\x00" + bytes(60)


def say(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def crash():
    import signal

    os.kill(os.getpid(), signal.SIGSEGV)


def hang():
    while True:
        time.sleep(60)


def parse(name, state):
    """Report the errors of one file; return the instructions that are left to later phases."""
    left = []
    with open(name) as file:
        for number, line in enumerate(file, 1):
            text = line.strip()
            word = text.partition(" ")[0].rstrip(";")
            if word == "macro":
                say("fake <builtin>, line 7; fatal   : Parsing error near ')': syntax error")
                raise SystemExit(255)
            if word == "taint":
                say("fake <builtin>, line 7; fatal   : Parsing error near ')': syntax error")
                state["tainted"] = state["errors"] = True
                continue
            if state.get("tainted") and word in ("good", "bad"):
                word = "unknown" if word == "good" else "good"
            instruction = text == "ret;" or not text.startswith(SCAFFOLD)
            if instruction and state.pop("leaked", False):
                say(f"fake {name}, line {number}; error   : Illegal modifier '.sync'")
                state["errors"] = True
            if text.startswith(SCAFFOLD) or word == "good":
                continue
            if word == "crash":
                crash()
            elif word == "hang":
                hang()
            elif word == "syntax":
                where = f"fake {name}, line {number}"
                say(f"{where}; fatal   : Parsing error near 'syntax': syntax error")
                state["errors"] = state["leaked"] = True
                return left
            elif word.startswith("late_"):
                left.append((number, word))
            else:
                kind = (
                    "Unknown modifier '.x'"
                    if word == "bad"
                    else f"Not a name of any known instruction: '{word}'"
                )
                say(f"fake {name}, line {number}; error   : {kind}")
                state["errors"] = True
    return left


def work(names, output):
    state = {}
    late = [(name, *one) for name in names for one in parse(name, state)]
    if not state.get("errors"):
        for name, number, word in late:
            if word == "late_crash":
                crash()
            elif word == "late_hang":
                hang()
            elif word == "late_quit":
                raise SystemExit(3)
            elif word == "late_bad":
                say(f"fake {name}, line {number}; error   : Illegal modifier '.x'")
                state["errors"] = True
            elif word == "late_inside":
                say("fake <builtin>, line 25; fatal   : Parsing error near ')': syntax error")
                state["errors"] = True
    if state.get("errors"):
        say("fake fatal   : Ptx assembly aborted due to errors")
        raise SystemExit(255)
    with open(output, "wb") as file:
        file.write(CUBIN)


def main():
    if "--version" in ARGUMENTS:
        if MODE == "no version":
            print("A program of another kind, 1.0")
        else:
            print("Cuda compilation tools, release 99.1, V99.1.7")
        return
    if MODE == "silent":
        return
    if MODE == "flood":
        while True:
            sys.stdout.write("lorem ipsum " * 10000)
    if MODE == "always hangs":
        hang()
    names = [argument for argument in ARGUMENTS if argument.endswith(".ptx")]
    output = ARGUMENTS[ARGUMENTS.index("-o") + 1] if "-o" in ARGUMENTS else "elf.o"
    if MODE == "text for a cubin":
        with open(output, "w") as file:
            file.write("no object file at all, but long enough to be taken for one" * 4)
        return
    if MODE == "one file" and len(names) != 1:
        say("fake fatal   : One file, please")
        raise SystemExit(255)
    if MODE == "accepts everything":
        with open(output, "wb") as file:
            file.write(CUBIN)
        return
    if MODE == "rejects everything":
        say("fake a.ptx, line 2; error   : PTX .version 8.0 does not support .target sm_90")
        raise SystemExit(255)
    if MODE == "no lines":
        say("fake fatal   : Something is wrong somewhere")
        raise SystemExit(255)
    if MODE == "leaves a child":
        import subprocess

        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "left behind"])
    work(names, output)


main()
