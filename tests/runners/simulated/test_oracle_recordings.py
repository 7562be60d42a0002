"""The oracle gives the bits that an H200 gave, for every variant and all flavours of contents.

The recording is that of `test_simulated_recordings`: 138 variants, 4 to 16 flavours each, NaN,
infinities, subnormals and cancellation among them, 2.0 million outputs of wmma.mma.
"""

import pytest
from simulated_contents import flavours, images_of
from simulated_kernels import VARIANTS, multiplication
from test_simulated_recordings import COUNT, check
from test_simulated_variants import expected


@pytest.mark.parametrize("index", range(len(VARIANTS)), ids=lambda i: VARIANTS[i].opcode[14:])
def test_the_oracle_gives_what_the_h200_gave(index: int) -> None:
    variant = VARIANTS[index]
    case = multiplication(
        variant,
        c_order=("row", "col")[index % 2],
        d_order=("row", "col")[index // 2 % 2],
        padding=index % 3,
        space=("global", "generic", "shared")[index % 3],
        stride_register=index % 5 < 2,
        target="sm_90",
    )
    names = flavours(variant)
    contents = [images_of(case, flavour, count=COUNT) for flavour in names]
    d = case.tiles["d"]
    results = [
        d.get(expected(case, flavour, images, "sm_90")).astype(f"u{d.bits // 8}")
        for flavour, images in zip(names, contents, strict=True)
    ]
    check(variant.opcode, contents, results)
