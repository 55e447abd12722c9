"""The Python that has torch, which the bench starts what it measures in."""

from __future__ import annotations

import pytest
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

KERNEL = "torch-2.2.2"


@pytest.fixture(scope="session")
def ranks_python() -> str:
    """Return the Python of the lessons' kernel; it holds no accelerate."""
    try:
        kernel = KernelSpecManager().get_kernel_spec(KERNEL)
    except NoSuchKernel:
        pytest.fail(f"no kernel {KERNEL!r}: run these tests by `nox -s tests`")
    return str(kernel.argv[0])
