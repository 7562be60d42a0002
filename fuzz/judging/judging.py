"""Judges a kernel: compares its builds, makes each disagreement small, and stores it as a case."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus import Case, Corpus, Identity, Kind, Versions
from corpus.finding import EXPECTED, INPUT, MODULE, WRONG_STEP
from corpus.known import Known
from corpus.programs import pack
from fuzz import warpfuzz_version
from fuzz.compilers.members import with_outcomes
from fuzz.findings.case import ACTUAL, LAUNCH, ORIGINAL, REWRITTEN, TEXT_CHARACTERS, case_by
from fuzz.findings.families import stored_row
from fuzz.findings.launches import Setup, parameters_of
from fuzz.findings.verdicts import REPLAYS
from fuzz.judging.bringing import Answerer, Brought
from fuzz.judging.reference import (
    Expected,
    Image,
    Left,
    Reference,
    approximations,
    edges_of,
    image_of,
)
from fuzz.kinds import BY_TROUBLE, described
from fuzz.output import counted
from fuzz.reducer import MOST_NAMED, Reducer, instructions_in, opcodes_of, telling
from oracle.errors import UsageError
from runners.assemblers.assembler import Assembler
from runners.assemblers.judgements import Response
from runners.assemblers.judging import judge_module
from runners.compilers import discover_assemblers
from runners.protocol import Compiled, Failure, Images, Trouble
from runners.ptx_text import header
from runners.simulated import TrapKind

_GIVEN_UP = 8
"""Images without any result after which the others are not tried: one that hangs takes seconds."""
REFERENCE_SECONDS = 60.0
"""After which no more images are run; of most kernels 64 take 2 s to 5 s (2026-11-24)."""
_NOT_ASKED = (Trouble.UNSUPPORTED, Trouble.UNAVAILABLE)
_SAID_CHARACTERS = 200  # characters that are kept of the message of a runner that was not tried
_MOST_FINDINGS = 4
"""Most findings of one kernel; there are rarely more groups of compilers that agree."""
_SLACK = 4
"""Times the steps of the kernel that a smaller one may take: what takes longer runs for ever."""
SIMULATED = "the simulated device"
REDUCE_SECONDS = 120.0
"""Time for one finding: kernels of 60 lines take 10 s to 40 s on one core (2026-11-23)."""
_SPECIAL = re.compile(r"%(tid|ctaid|laneid)(?:\.([xyz]))?")
_LANES_TRIED, _WORDS_TRIED = 64, 8
"""Threads, and words of an image, of which one is tried in place of all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelDisagreement:
    """What some answerers do that is wrong, or that others do not do."""

    kind: Kind
    answerers: tuple[Answerer, ...]
    good: Answerer | None  # one that does it right; None where nobody does, or nobody knows
    setup: Setup
    image: Image  # (bytes,): one that shows it
    expected: Image | None  # what it should become; None where nothing knows
    actual: Image | None = None  # what it became; None where there is no result
    failure: Failure | None = None
    steady: bool = True
    """Whether results came out again each time, where the simulated device does not say which."""

    @property
    def names(self) -> tuple[str, ...]:
        """The compilers and levels."""
        return tuple(name for each in self.answerers for name in each.names)

    @property
    def difference(self) -> str:
        """What is wrong, in words: the bytes that differ, and the first word by its buffer."""
        if self.failure is not None or self.actual is None or self.expected is None:
            return "nothing was compared" if self.failure is None else self.failure.line
        different = np.flatnonzero(self.expected != self.actual)
        start = int(different[0]) // 4 * 4
        was, found = (
            image[start : start + 4][::-1].tobytes().hex() for image in (self.expected, self.actual)
        )
        place = f"byte {start} of the image, outside of every buffer,"
        for name, row in self.setup.buffers.items():
            if 0 <= start - self.setup.offsets[name] < row.bytes:
                place = f"{name}+{start - self.setup.offsets[name]}"
        return (
            f"{counted(different.size, 'byte')} of the image not as expected; the word at {place} "
            f"is 0x{found} in place of 0x{was}"
        )


@dataclass(kw_only=True, eq=False)
class KernelCompared:
    """What came of a kernel."""

    verdicts: Sequence[KernelDisagreement]  # the worst first, then what most have
    agreeing: Sequence[str]  # names of those whose result was as expected on every image
    unasked: Sequence[str]  # sentences about those who could not be asked
    codes: int  # different codes that ran
    images: int  # that were compared
    left: Mapping[int, Left] = field(default_factory=dict)  # that were not, by their numbers
    untried: int = 0  # images for which the simulated device had no time
    approximations: Sequence[str] = ()
    """Opcodes of which the ISA bounds the error alone, as far as a result depends on them."""
    approximate_bytes: int = 0  # of an image that depend on them on any image, as far as known


def compare(who: Brought, *, count: int, seed: int, tell: Callable[[str], None]) -> KernelCompared:
    """Run drawn images everywhere, and compare; UsageError if no image can be judged."""
    ptx, setup, reference = who.ptx, who.setup, who.reference
    if not setup.buffers:
        raise UsageError(f"{setup.entry} has no result that could be judged: given no buffer")
    edges = edges_of(ptx, setup)
    images = np.array([image_of(setup, seed=seed, number=n, edges=edges) for n in range(count)])
    expected: Expected | None = None
    found: dict[int, Expected] = {}
    left: dict[int, Left] = {}
    if reference is not None:
        tell("running the kernel on the simulated device")
        end = time.monotonic() + REFERENCE_SECONDS
        for number, image in enumerate(images):
            if (found and time.monotonic() > end) or (len(left) >= _GIVEN_UP and not found):
                break
            after = reference.after(ptx, setup, image)
            if isinstance(after, Expected):
                found[number] = after
                continue
            left[number] = after
            if after.kind is TrapKind.RACE:
                raise UsageError(f"the kernel has no result that could be judged: {after.why}")
        if not found:
            raise UsageError(f"no result on {len(left)} images: {left[0].why}; mend the kernel")
        images = images[[*found]]
        expected = Expected(*map(np.array, zip(*found.values(), strict=True)))
    tell("compiling and comparing")
    open_ = approximations(ptx, setup.entry)
    builds = who.answerers(ptx, setup)
    came = compared(builds, ptx, setup, images, expected, permitted=bool(open_))
    if reference is None and not came.codes and came.verdicts:
        raise UsageError(f"no build runs to its end ({came.verdicts[0].difference}): --launch FILE")
    came.left, came.untried = left, count - len(images) - len(left)
    if expected is None or expected.approximate.any():
        came.approximations = open_
    if expected is not None:
        came.approximate_bytes = int(expected.approximate.any(axis=0).sum())
    return came


def compared(
    answerers: Sequence[Answerer],
    ptx: str,
    setup: Setup,
    images: Images,
    expected: Expected | None,
    *,
    permitted: bool = False,
) -> KernelCompared:
    """Run images by all, and compare them with what the reference expects, or the first that ran.

    Where the simulated device does not run them all, what depends on approximate instructions is
    compared so: a difference there alone is a note, as with `permitted`.
    """
    ran: list[tuple[Answerer, Images]] = []
    failed: dict[Trouble, list[tuple[Answerer, Failure]]] = {}
    unasked = []
    for each in answerers:
        answer = each.answer(ptx, setup, images)
        if not isinstance(answer, Failure):
            ran.append((each, answer))
        elif answer.trouble in _NOT_ASKED:
            said = answer.detail.partition("\n")[0]
            words = (", ".join(each.names), answer.message, said[:_SAID_CHARACTERS])
            unasked.append(": ".join(filter(None, words)))
        else:
            failed.setdefault(answer.trouble, []).append((each, answer))
    known = ran[0][1] if ran else None
    if expected is not None:
        simulated = all(each.choice.name == "sim" for each, _ in ran)
        known = expected.image if known is None or simulated else expected.beside(known)
        decided = (known != images) & ~expected.approximate
        if len(ran) == 1 and not simulated and not decided.any():
            unasked.append(
                f"{', '.join(ran[0][0].names)}: all that the kernel writes depends on approximate "
                "instructions, and nothing else ran that it could be compared with"
            )
            ran = []
    groups: dict[str, list[tuple[Answerer, Images]]] = {"": []}
    for each, image in ran:
        as_known = known is not None and np.array_equal(image, known)
        key = "" if as_known else sha256(image.tobytes()).hexdigest()
        groups.setdefault(key, []).append((each, image))
    agreeing = [each for each, _ in groups.pop("")]
    good = agreeing[0] if agreeing else None
    # All that ran give the same, and it is not what the reference gives.
    alone = len(ran) > 1 and len(ran) in map(len, groups.values())
    usual = Kind.DEVIATION if alone else Kind.VIOLATION
    if expected is None:
        usual = Kind.NOTE if permitted else Kind.DIFFER
    verdicts = [
        KernelDisagreement(
            kind=BY_TROUBLE[trouble], answerers=tuple(each for each, _ in group), good=good,
            setup=setup, image=images[0], expected=None if known is None else known[0],
            failure=group[0][1],
        )
        for trouble, group in failed.items()
    ]  # fmt: skip

    def repeats(each: Answerer, image: Image, before: Image) -> bool:
        answer = each.answer(ptx, setup, np.repeat(image[None], REPLAYS, axis=0))
        return not isinstance(answer, Failure) and bool((answer == before).all())

    for group in groups.values():
        assert known is not None
        first, actual = group[0]
        differs, kind, wanted = actual != known, usual, known
        if expected is not None:
            decided = differs & ~expected.approximate
            if decided.any():
                differs, wanted = decided, expected.beside(actual)
            else:
                kind = Kind.NOTE
        at = int(np.flatnonzero(differs.any(axis=1))[0])
        sure = kind is usual and expected is not None
        both = [(first, actual), *ran[: not sure]]
        steady = all(repeats(each, images[at], its[at]) for each, its in both)
        if not steady:
            kind = Kind.FLAKY if sure else Kind.NOTE
        verdicts.append(
            KernelDisagreement(
                kind=kind, answerers=tuple(each for each, _ in group), good=good, setup=setup,
                image=images[at], expected=wanted[at], actual=actual[at], steady=steady,
            )
        )  # fmt: skip
    return KernelCompared(
        verdicts=sorted(verdicts, key=lambda said: (-said.kind.severity, -len(said.names))),
        agreeing=[name for each in agreeing for name in each.names],
        unasked=unasked,
        codes=len(ran),
        images=len(images),
    )


def made_smaller(
    who: Brought,
    verdicts: Sequence[KernelDisagreement],
    corpus: Callable[[], Corpus],
    known: Known,
    tell: Callable[[str], None],
) -> list[tuple[KernelDisagreement, dict[str, Any]]]:
    """Make a few of the worst smaller and store them; return each with what JSON says of it."""
    explained: set[str] = set()
    found = []
    for verdict in verdicts[:_MOST_FINDINGS]:
        if not explained >= set(verdict.names):
            tell(f"making smaller what {verdict.names[0]} gets wrong")
            small, row = _found(who, verdict, corpus, known)
            explained.update(verdict.names, small.names)
            found.append((small, row))
    return found


def _found(
    who: Brought, verdict: KernelDisagreement, corpus: Callable[[], Corpus], known: Known
) -> tuple[KernelDisagreement, dict[str, Any]]:
    reference, among = who.reference, list(who.members)
    reduced = KernelReducer(lambda *_: True, who.ptx, verdict.setup, verdict.image)
    # What hangs costs the runner's whole deadline each time.
    if reference is not None and verdict.kind not in (Kind.FLAKY, Kind.HANG, Kind.NOTE):
        smaller = reducer_of(who, reference, verdict)
        smaller.reduce()
        if alike := _again(who, reference.at_most(_SLACK), smaller, verdict):
            wrong = tuple(each for said in alike for each in said.answerers)
            verdict, reduced = replace(alike[0], answerers=wrong), smaller
    members = [member for each in verdict.answerers for member in each.members]
    blame = ""
    if members and len(members) < len(among):
        blame = f"only {described([member for member in among if member in members], among)}"
    case, files = _stored(who, verdict, reduced)
    if among:
        wrong_or_not = (verdict.kind.value if member in members else "match" for member in among)
        case = with_outcomes(case, dict(zip(among, wrong_or_not, strict=True)))
    saved = corpus().add(case, files)
    return verdict, {
        **stored_row(case, saved, known.match(case)),
        "compilers": list(verdict.names),
        "blame": blame,
        "difference": verdict.difference,
        "lines": len(reduced.text.splitlines()),
        "shrink": reduced.status.value,
        "tries": reduced.tries,
    }


def reducer_of(
    who: Brought, reference: Reference, verdict: KernelDisagreement, *, end: float | None = None
) -> KernelReducer:
    """Return what makes a kernel smaller that a build gets wrong; ptxas takes it, too."""
    found = () if who.members else discover_assemblers().assemblers
    assembler = next((ptxas for ptxas in found if _assembles(ptxas, who.ptx)), None)
    holds = shows(verdict, reference.at_most(_SLACK), assembler)
    return KernelReducer(holds, who.ptx, verdict.setup, verdict.image, end=end)


def _assembles(assembler: Assembler, ptx: str) -> bool:
    return judge_module(assembler, ptx).outcome is Response.ACCEPTED


def _again(
    who: Brought, reference: Reference, case: KernelReducer, before: KernelDisagreement
) -> list[KernelDisagreement]:
    """Ask everybody about the smaller case; return who has it wrong in the same way."""
    expected = reference.after(case.text, case.setup, case.image)
    if isinstance(expected, Left):
        return []
    many = Expected(expected.image[None], expected.approximate[None])
    everybody = who.answerers(case.text, case.setup)
    came = compared(everybody, case.text, case.setup, case.image[None], many)
    if before.failure is None:
        return [said for said in came.verdicts if said.failure is None]
    return [said for said in came.verdicts if said.failure and said.kind is before.kind]


def shows(
    verdict: KernelDisagreement, reference: Reference, assembler: Assembler | None
) -> Callable[[str, Setup, Image], bool]:
    """Return what asks whether a smaller case still shows it, and an assembler takes it."""
    bad, good = verdict.answerers[0], verdict.good
    trouble = None if verdict.failure is None else verdict.failure.trouble
    assembles = cache(lambda ptx: assembler is None or _assembles(assembler, ptx))

    def right(answer: Images | Failure, expected: Expected) -> bool:
        return not isinstance(answer, Failure) and np.array_equal(
            answer[0], expected.beside(answer[0])
        )

    def holds(ptx: str, setup: Setup, image: Image) -> bool:
        expected = reference.after(ptx, setup, image, sure=False)
        if isinstance(expected, Left):
            return False
        answer = bad.answer(ptx, setup, image[None])
        its = answer.trouble if isinstance(answer, Failure) else None
        if its is not trouble or right(answer, expected):
            return False
        if good is not None and not right(good.answer(ptx, setup, image[None]), expected):
            return False
        # The second run costs as much as the first, and rarely says no.
        return not isinstance(reference.after(ptx, setup, image), Left) and assembles(ptx)

    return holds


def _stored(
    who: Brought, verdict: KernelDisagreement, reduced: KernelReducer
) -> tuple[Case, Mapping[str, bytes]]:
    """Describe a finding for the corpus, with its files by name."""
    first, ptx = verdict.answerers[0], reduced.text
    files = {
        MODULE: ptx.encode(),
        ORIGINAL: who.ptx.encode(),
        LAUNCH: reduced.setup.toml.encode(),
        INPUT: pack(reduced.image[None]),
    }
    instructions = instructions_in(ptx)
    about, told = telling(instructions), dict[str, str]()
    # A pass or a planted fault makes another text of it.
    ran = first.runner.compile(reduced.setup.module(ptx))
    if isinstance(ran, Compiled) and ran.module.ptx != ptx:
        files[REWRITTEN] = ran.module.ptx.encode()
        kept = set(instructions_in(ran.module.ptx))
        changed = opcodes_of(text for text in instructions if text not in kept)
        if 0 < len(changed) <= MOST_NAMED:
            about, told = changed, {WRONG_STEP: " and ".join(changed)}
    for name, image in ((EXPECTED, verdict.expected), (ACTUAL, verdict.actual)):
        if image is not None:
            files[name] = pack(image[None])
    target, version = header(ptx)
    case = case_by(
        who.ready,
        first.choice,
        verdict.kind,
        Identity.of(verdict.kind, *about),
        verdict.difference,
        instructions=tuple(instructions) or (MODULE,),
        target=target,
        ptx_version=version,
        versions=Versions(warpfuzz=warpfuzz_version()),
        shrink=reduced.status,
        complexity=int(np.count_nonzero(reduced.image)),
        details={
            "compilers": ", ".join(verdict.names)[:TEXT_CHARACTERS],
            "referee": SIMULATED if who.reference is not None else "the others",
            "tries": reduced.tries,
            **told,
        },
    )
    return case, files


Holds = Callable[[str, Setup, Image], bool]
"""Whether a text, launched so, on this image still shows what is wrong."""


class KernelReducer(Reducer):
    """Makes a kernel, its launch and an image, uint8 (bytes,), smaller, until a monotonic `end`."""

    def __init__(
        self, holds: Holds, ptx: str, setup: Setup, image: Image, *, end: float | None = None
    ) -> None:
        super().__init__(holds, ptx, end=time.monotonic() + REDUCE_SECONDS if end is None else end)
        self.setup, self.image = setup, image

    @property
    def _state(self) -> object:
        return self.text, self.setup, self.image.tobytes()

    def _pass(self) -> None:
        self._shrink_launch()
        super()._pass()
        self._shrink_image()

    def _takes(self, text: str) -> bool:
        """Tell whether a text still shows it, without the buffers of parameters that it lacks."""
        setup, image = self.setup, self.image
        try:
            parameters = parameters_of(text, setup.entry)
        except KeyError:  # the entry is gone
            return False
        names = {parameter.name for parameter in parameters}
        if len(names) < len(setup.parameters):
            given = setup.arguments.items()
            arguments = {name: value for name, value in given if name.partition("+")[0] in names}
            setup = replace(setup, parameters=parameters, arguments=arguments)
            image = np.zeros(setup.image_bytes, np.uint8)
            for name, row in setup.buffers.items():
                to, at = setup.offsets[name], self.setup.offsets[name]
                image[to : to + row.bytes] = self.image[at : at + row.bytes]
        return self._takes_all(text, setup, image)

    def _takes_all(self, text: str, setup: Setup, image: Image) -> bool:
        asked = text, setup.grid, setup.block, image.tobytes()
        if not self._ask(asked, lambda: self._holds(text, setup, image)):
            return False
        self.setup, self.image = setup, image
        return True

    def _values(self, stem: str, sources: str, bits: int) -> Iterator[str]:
        """Yield also one thread's number, and words of the image."""
        if stem == "mov" and (special := _SPECIAL.fullmatch(sources)):
            extents = self.setup.grid if special[1] == "ctaid" else self.setup.block
            most = 32 if special[1] == "laneid" else extents["xyz".index(special[2] or "x")]
            yield from map(str, range(min(most, _LANES_TRIED)))
        yield from super()._values(stem, sources, bits)
        if stem in ("ld", "ldu") and bits in (32, 64):
            words = np.unique(self.image.view(f"<u{bits // 8}"))
            yield from map(str, words[words > 1][:_WORDS_TRIED])

    def _shrink_launch(self) -> None:
        def smaller(name: str, axis: int) -> bool:
            shape = list(getattr(self.setup, name))
            for less in dict.fromkeys((1, shape[axis] // 2)) if shape[axis] > 1 else ():
                changed: dict[str, Any] = {name: (*shape[:axis], less, *shape[axis + 1 :])}
                if self._takes_all(self.text, replace(self.setup, **changed), self.image):
                    return True
            return False

        for name in ("grid", "block"):
            for axis in (2, 1, 0):
                while smaller(name, axis):
                    pass

    def _shrink_image(self) -> None:
        """Have words of the image zero, halves of them first, and then small."""
        size = max(1, self.image.size // 4)
        while (left := np.flatnonzero(self.image.view("<u4"))).size:
            size = min(size, left.size)
            for start in range(0, left.size, size):
                self._try_words(left[start : start + size], 0)
            if size == 1:
                break
            size = (size + 1) // 2
        for place in np.flatnonzero(self.image.view("<u4")):
            value = int(self.image.view("<u4")[place])
            for less in (1, value & 0xFF, value & 0xFFFF, 1 << value.bit_length() - 1):
                if less and less < value and self._try_words(np.array([place]), less):
                    break

    def _try_words(self, places: NDArray[np.intp], value: int) -> bool:
        image = self.image.copy()
        image.view("<u4")[places] = value
        return self._takes_all(self.text, self.setup, image)
