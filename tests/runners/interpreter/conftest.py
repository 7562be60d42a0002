import pytest

from oracle.errors import InfrastructureError
from runners.reference.host import HostReference


@pytest.fixture(scope="session")
def reference():
    try:
        return HostReference()
    except InfrastructureError as error:
        pytest.skip(str(error))
