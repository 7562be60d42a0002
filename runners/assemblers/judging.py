"""Judges instructions with an assembler: thousands at a time, each as if it were alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

from oracle.errors import InfrastructureError, UsageError
from runners.assemblers.assembler import Assembler
from runners.assemblers.assembling import Doubt, assemble
from runners.assemblers.judgements import Judgement, Response, ToolVerdict
from runners.assemblers.processes import MAX_MEMORY_BYTES
from runners.assemblers.session import ToolSession
from runners.assemblers.sifting import sift
from runners.folders import temporary_folder
from runners.instruction_modules import checked
from runners.ptx_text import header

DEADLINE_SECONDS = 5.0
"""Time for one instruction on its own; ptxas 13.5 takes 0.02 s (2026-11)."""
# A judgement takes about 1 kB.
_REMEMBERED = 200_000
# Instructions that one worker sifts at a time: bounds memory, and the files in its folder.
_BATCH = 8192
_FILES_AT_ONCE = 2048
# Where sifting starts from: it adapts.
_PER_FILE = 16
_TARGET = re.compile(r"sm_\d{2,4}[a-z]?")
_VERSION = re.compile(r"\d+\.\d+")
# Of no matrix instruction, so that every target and version has the first two.
_ACCEPTED_SAMPLES = ("mov.b32 %r0, %r1;", "add.s32 %r0, %r1, %r2;")
_REJECTED_SAMPLES = ("warpfuzz_bad_1 %r0;", "warpfuzz_bad_2 %r0;")


class ToolJudge:
    """Says what an assembler does with instructions, for one target and PTX ISA version.

    Every verdict but accepted and ordinarily rejected is that of the instruction alone, in a
    minimal module. Identical texts are judged once, as long as they are remembered; so texts
    should be made canonical first (`runners.instruction_modules.canonical`).

    Parameters
    ----------
    assembler : Assembler
        Who judges.
    target, version : str
        Values of `.target` and `.version`, such as "sm_90" and "8.0".
    jobs : int
        Processes that run at the same time.
    deadline : float
        Seconds that one instruction may take on its own before it counts as hung.

    Raises
    ------
    UsageError
        If the assembler does not take this target or version.
    InfrastructureError
        If it does not work as an assembler does: a good instruction must give a cubin, and a bad
        one a message with its line.
    """

    def __init__(
        self,
        assembler: Assembler,
        *,
        target: str,
        version: str,
        jobs: int = 1,
        deadline: float = DEADLINE_SECONDS,
    ) -> None:
        if not _TARGET.fullmatch(target) or not _VERSION.fullmatch(version):
            raise UsageError(
                f".target {target!r} with .version {version!r} cannot be asked for; they are "
                'written like "sm_90" and "8.0"'
            )
        if jobs < 1 or not deadline > 0:
            raise UsageError(
                f"{jobs} jobs with a deadline of {deadline} s cannot judge; give at least one "
                "job, and a deadline above 0"
            )
        self.assembler = assembler
        self.target = target
        self.version = version
        self.processes = 0
        """Processes run so far."""
        self._jobs = jobs
        self._deadline = deadline
        self._files_at_once = _FILES_AT_ONCE
        self._per_file = _PER_FILE
        self._known: dict[str, Judgement] = {}
        self._check_itself()

    def judge(
        self,
        instructions: Sequence[str],
        doubt: Callable[[str], Doubt] = lambda instruction: Doubt.NONE,
    ) -> list[Judgement]:
        """Judge instructions; the result has the order of the input.

        Parameters
        ----------
        instructions : sequence of str
            One line of text each.
        doubt : callable, optional
            How likely each of them fails after it was parsed: it costs less to find what fails
            where that is told right, and changes no verdict.

        Raises
        ------
        UsageError
            If a text is not one line.
        InfrastructureError
            If the assembler cannot be started any more, or the disk is full.
        """
        texts = [checked(text) for text in instructions]
        judgements = {text: self._known[text] for text in texts if text in self._known}
        fresh = [text for text in dict.fromkeys(texts) if text not in judgements]
        for start in range(0, len(fresh), _BATCH * self._jobs):
            batch = fresh[start : start + _BATCH * self._jobs]
            shares = [share for job in range(self._jobs) if (share := batch[job :: self._jobs])]
            for judged in self._map(shares, doubt):
                judgements.update((one.instruction, one) for one in judged)
        self._remember(judgements[text] for text in fresh)
        return [judgements[text] for text in texts]

    def _map(
        self, shares: Sequence[Sequence[str]], doubt: Callable[[str], Doubt]
    ) -> Iterable[list[Judgement]]:
        if len(shares) == 1:
            return [self._work(shares[0], doubt)]
        with ThreadPoolExecutor(len(shares)) as pool:
            return list(pool.map(self._work, shares, repeat(doubt)))

    def _work(self, texts: Sequence[str], doubt: Callable[[str], Doubt]) -> list[Judgement]:
        with temporary_folder() as folder:
            session = self._session(folder)
            sifted = sift(session, texts)
            judged = [session.judgement(text, verdict) for text, verdict in sifted.rejected.items()]
            judged += map(session.judge_alone, sifted.suspects)
            judged += assemble(session, sifted.survivors, doubt)
            self.processes += session.processes
            self._per_file = session.per_file
        return judged

    def _session(self, folder: Path) -> ToolSession:
        return ToolSession(
            path=self.assembler.path,
            variant=self.assembler.variant,
            target=self.target,
            version=self.version,
            folder=folder,
            deadline=self._deadline,
            files_at_once=self._files_at_once,
            per_file=self._per_file,
        )

    def _remember(self, judgements: Iterable[Judgement]) -> None:
        self._known.update((one.instruction, one) for one in judgements)
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def _check_itself(self) -> None:
        good, bad = _ACCEPTED_SAMPLES, _REJECTED_SAMPLES
        with temporary_folder() as folder:
            session = self._session(folder)
            session.files_at_once, session.per_file = _FILES_AT_ONCE, 2
            first = session.judge_alone(good[0])
            if first.outcome in (Response.REJECTED, Response.INTERNAL):
                raise UsageError(
                    f"{self.assembler} does not take .target {self.target} with .version "
                    f"{self.version}: {first.messages[0]}"
                )
            if first.outcome is Response.ACCEPTED:
                for files_at_once in (_FILES_AT_ONCE, 1):
                    # A program around an assembler may take one file only.
                    session.files_at_once = self._files_at_once = files_at_once
                    sifted = sift(session, [good[0], bad[0], good[1], bad[1]])
                    as_expected = sorted(sifted.survivors) == sorted(good) and sorted(
                        sifted.rejected
                    ) == sorted(bad)
                    if as_expected:
                        self.processes += session.processes
                        return
        raise InfrastructureError(
            f"{self.assembler.path} does not work as an assembler does: {good[0]!r} was "
            f"{first.outcome.name.lower()} ({first.ending}), and lines that it must reject were "
            "not all named; give the path of a ptxas"
        )


def judge_module(
    assembler: Assembler,
    module: str,
    *,
    target: str | None = None,
    level: int | None = None,
    deadline: float = DEADLINE_SECONDS,
    memory_bytes: int = MAX_MEMORY_BYTES,
) -> ToolVerdict:
    """Judge a whole module, such as the stored file of a finding.

    Parameters
    ----------
    assembler : Assembler
        Who judges.
    module : str
        PTX text; `Judgement.module` gives one for each judgement.
    target : str, optional
        Value of -arch; that of the module's own `.target` where it is not given.
    level : int, optional
        -O level; the assembler's default where it is not given.
    deadline : float
        Seconds after which it counts as hung.
    memory_bytes : int
        Most bytes of address space of the assembler.

    Raises
    ------
    UsageError
        If no target is given, and none is in the module.
    InfrastructureError
        If the assembler cannot be started, or the disk is full.
    """
    target = target or header(module)[0]
    if not target:
        raise UsageError("the module has no .target directive; name the target to assemble it for")
    with temporary_folder() as folder:
        session = ToolSession(
            path=assembler.path,
            variant=assembler.variant,
            target=target,
            version="",
            folder=folder,
            deadline=deadline,
            files_at_once=1,
            options=() if level is None else (f"-O{level}",),
            memory_bytes=memory_bytes,
        )
        return session.assemble(module, deadline=deadline).verdict
