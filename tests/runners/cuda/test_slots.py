"""Shared memory lasts as long as any array over it, and is used again."""

from __future__ import annotations

import gc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runners.cuda.supervisor import SlotPool, lease_of


@given(
    sizes=st.lists(st.integers(1, 1 << 21), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_arrays_that_are_alive_never_share_memory(sizes: list[int], order: object) -> None:
    pool = SlotPool()
    arrays = {}
    for number, size in enumerate(sizes * 2):
        array = pool.lease(size).array(np.uint8, (size,))
        array[:] = number
        arrays[number] = array
        if order.random() < 0.4:  # type: ignore[attr-defined]
            del arrays[order.choice(sorted(arrays))]  # type: ignore[attr-defined]
    for number, array in arrays.items():
        assert (array == number).all()
    arrays.clear()
    del array
    pool.close()


def test_a_slot_is_used_again_once_the_last_view_of_it_is_gone() -> None:
    pool = SlotPool()
    array = pool.lease(1000).array(np.uint8, (10, 100))
    view = array[3:5].reshape(-1)[7:]
    found = lease_of(view)
    assert found is not None
    number, offset = found[0].slot.number, found[1]
    assert offset == 307
    del array, found
    gc.collect()
    other = pool.lease(1000)
    assert other.slot.number != number
    del view
    assert pool.lease(1000).slot.number == number


def test_only_contiguous_arrays_over_a_slot_are_known_as_such() -> None:
    pool = SlotPool()
    array = pool.lease(1000).array(np.uint8, (10, 100))
    assert lease_of(array[:, :50]) is None
    assert lease_of(array.copy()) is None
    assert lease_of(array[2:]) is not None


def test_memory_beyond_what_is_kept_is_dropped_and_its_number_reported() -> None:
    pool = SlotPool(keep_bytes=3 << 20)
    leases = [pool.lease(1 << 20) for _ in range(5)]
    numbers = {lease.slot.number for lease in leases}
    leases.clear()
    assert len(pool.dropped) == 2
    assert set(pool.dropped) < numbers
