import sys
from pathlib import Path

import pytest

from oracle.errors import InfrastructureError
from runners.reference.host import HostReference

sys.path.insert(0, str(Path(__file__).parents[2] / "oracle" / "scalar"))


@pytest.fixture(scope="session")
def reference():
    try:
        return HostReference()
    except InfrastructureError as error:
        pytest.skip(str(error))
