"""Working memory: what has different names, or belongs to different threads, is never shared."""

from threading import Thread

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oracle.arithmetic.conversions import Scratch, own_scratch


def test_threads_have_their_own():
    found = []
    threads = [Thread(target=lambda: found.append(own_scratch())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one) for one in (*found, own_scratch())}) == 3
    assert own_scratch() is own_scratch()


@given(st.integers(1, 600), st.integers(1, 70), st.sampled_from([np.uint16, np.uint32, np.uint64]))
def test_rows_become_columns_and_columns_rows(rows, columns, dtype):
    scratch = Scratch()
    source = np.arange(rows * columns).astype(dtype).reshape(rows, columns)
    turned, back = np.zeros((columns, rows), dtype), np.zeros((rows, columns), dtype)
    scratch.turn(turned.T, source)
    assert np.array_equal(turned, source.T)
    scratch.turn(back, turned.T)
    assert np.array_equal(back, source)
