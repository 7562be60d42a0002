"""Answers what stand-ins for assemblers ask (`asking`) of this package.

They are started thousands of times, and would take 0.1 to 0.6 s to import it; the tests' process
has. A thread of it waits on a socket for the name of a function below and its arguments.
"""

import marshal
import os
import socket
import threading
from contextlib import suppress
from functools import cache

from oracle.isa.legality import Verdict, verdict_of
from runners.faults import by_name


@cache
def is_legal(text, target, version):
    """Tell whether an instruction may be accepted."""
    return verdict_of(text, target=target, ptx_version=version) is not Verdict.ILLEGAL


@cache
def rewritten(names, ptx):
    """Return PTX with planted faults."""
    for name in names:
        ptx = by_name(name).rewrite(ptx)
    return ptx


_ANSWERS = {"is_legal": is_legal, "rewritten": rewritten}


@cache
def address():
    """Start to answer; return the name of the socket, in Linux's abstract name space (unix(7))."""
    name = f"warpfuzz-tests-{os.getpid()}"
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"\0{name}")
    server.listen()
    threading.Thread(target=_answer, args=(server,), daemon=True).start()
    return name


def _answer(server):
    while True:
        asking, _ = server.accept()
        # Who asked is killed sometimes, and fails where it gets no answer.
        with suppress(Exception), asking, asking.makefile("rwb") as stream:
            name, *arguments = marshal.loads(stream.read())
            stream.write(marshal.dumps(_ANSWERS[name](*arguments)))
