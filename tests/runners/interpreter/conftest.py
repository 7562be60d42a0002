import pytest

from oracle.errors import InfrastructureError
from runners.reference.shipped import HostReference


@pytest.fixture(scope="session")
def reference():
    try:
        return HostReference()
    except InfrastructureError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def session():
    """A context on the GPU, whose end is asked for: PyCUDA aborts a process that leaves it."""
    from runners.cuda.session import Session

    made = Session(0)
    yield made
    made._context.pop()
