"""Machine code of the reference, which one process has made and others take."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.cuda import modules as kept
from runners.cuda.modules import LoadError, Modules, kept_code
from runners.folders import temporary_folder


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept, "cache_folder", lambda: tmp_path)
    return tmp_path


def never() -> bytes:
    raise AssertionError("it was kept")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@given(codes=st.dictionaries(st.text(), st.binary(), max_size=5))
def test_what_was_made_is_kept_for_those_who_ask_for_the_same(codes: dict[str, bytes]) -> None:
    with temporary_folder() as own, pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "cache_folder", lambda: own)
        for identity, code in codes.items():
            assert kept_code(identity, code.__bytes__) == code
        for identity, code in codes.items():
            assert kept_code(identity, never) == code


@given(data=st.data(), code=st.binary(min_size=1), other=st.binary())
def test_what_is_damaged_is_made_anew(data: st.DataObject, code: bytes, other: bytes) -> None:
    with temporary_folder() as own, pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "cache_folder", lambda: own)
        kept_code("it", lambda: code)
        (path,) = files(own)
        whole = path.read_bytes()
        damage = data.draw(
            st.integers(0, len(whole) - 1).map(lambda size: whole[:size])
            | st.integers(0, 8 * len(whole) - 1).map(
                lambda bit: (int.from_bytes(whole, "big") ^ 1 << bit).to_bytes(len(whole), "big")
            )
        )
        path.write_bytes(damage)
        assert kept_code("it", lambda: other) == other
        assert kept_code("it", never) == other


def test_what_cannot_be_made_or_has_no_folder_is_made_each_time(folder: Path) -> None:
    assert kept_code("it", lambda: None) is None
    assert kept_code("it", lambda: b"now") == b"now"
    for path in (*files(folder), folder / "machine code"):
        path.rmdir() if path.is_dir() else path.unlink()
    (folder / "machine code").write_text("a file where a folder should be")
    assert kept_code("it", lambda: b"one") == b"one"
    assert kept_code("it", lambda: b"two") == b"two"


def test_of_those_who_ask_at_once_one_has_it_made() -> None:
    made = []

    def compile_slowly() -> bytes:
        made.append(1)
        time.sleep(0.1)
        return b"code"

    found: list[bytes | None] = []
    ask = [
        threading.Thread(target=lambda: found.append(kept_code("it", compile_slowly)))
        for _ in range(4)
    ]
    for one in ask:
        one.start()
    for one in ask:
        one.join()
    assert found == [b"code"] * 4
    assert made == [1]


class FakeDriver:
    """What a context is given to load."""

    Error = RuntimeError
    jit_option = SimpleNamespace(OPTIMIZATION_LEVEL="level")

    def __init__(self) -> None:
        self.loaded: list[tuple[bytes, list[Any]]] = []

    def module_from_buffer(self, code: bytes, options: list[Any]) -> object:
        if code == b"refused":
            raise self.Error("no")
        self.loaded.append((code, options))
        return object()


class FakeLibrary:
    """A driver whose machine code is the text and the level."""

    def __init__(self, *, works: bool = True) -> None:
        self.compiled, self.works = 0, works

    def compile(self, ptx: bytes, level: int) -> bytes | None:
        self.compiled += 1
        return b"%s at %d" % (ptx, level) if self.works else None


def test_the_reference_is_compiled_once_for_a_driver_a_device_a_level_and_a_text() -> None:
    driver, library = FakeDriver(), FakeLibrary()
    for compiler in ("driver 1, 9.0", "driver 1, 9.0", "driver 2, 9.0"):
        for ptx, level in ((b"text", 3), (b"text", 2), (b"other", 3)):
            Modules(driver, library, compiler).load_own("key", ptx, level)  # type: ignore[arg-type]
            assert driver.loaded[-1] == (b"%s at %d" % (ptx, level), [])
    assert library.compiled == 6


@pytest.mark.parametrize(("compiler", "works"), [("", True), ("driver 1, 9.0", False)])
def test_where_nothing_can_be_kept_the_driver_is_given_the_text(
    compiler: str, works: bool, folder: Path
) -> None:
    driver, library = FakeDriver(), FakeLibrary(works=works)
    modules = Modules(driver, library, compiler)  # type: ignore[arg-type]
    modules.load_own("key", b"text", 3)
    assert driver.loaded == [(b"text", [("level", 3)])]
    assert library.compiled == (not works)
    with pytest.raises(LoadError, match="no"):
        modules.load_own("key", b"refused", 3)
